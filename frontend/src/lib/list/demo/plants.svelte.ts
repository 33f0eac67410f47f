import type { Notify } from "../../ui/toasts.svelte";
import { ListState, route, type PageQuery } from "../state";

export interface Plant {
  id: string;
  name: string;
  place: string;
}

/** The state of the demo screen: a list of plants in memory. */
export class PlantState {
  readonly words = {
    title: "Plants",
    one: "Plant",
    search: "Search plants",
    filter: "Filter plants",
    loading: "Loading plants",
    failed: "Couldn't load plants.",
    kept: "They keep growing.",
    noMatch: "No matching plants",
  };
  readonly list: ListState<Plant, { place: string }>;
  watered: string[] = [];
  started = 0;
  reads: PageQuery<{ place: string }>[] = [];
  /** Rejects the next call. */
  fail: Error | null = null;

  constructor(
    public plants: Plant[],
    private readonly notify: Pick<Notify, "error" | "undo">,
  ) {
    this.list = new ListState({
      id: (p) => p.id,
      route: route("plants", ["map"]),
      filters: { place: "" },
      system: (p) => p.place === "pot of Helix",
      read: async (q) => {
        this.reads.push(q);
        await this.call();
        const hits = this.plants.filter((p) => p.name.toLowerCase().includes(q.query.toLowerCase()) && (q.filters.place === "" || p.place === q.filters.place));
        return { items: hits.slice(q.offset, q.offset + q.limit), total: hits.length };
      },
    });
  }

  private async call(): Promise<void> {
    const e = this.fail;
    this.fail = null;
    if (e) throw e;
  }

  begin(): void {
    this.started++;
  }
  readonly water = (p: Plant): void => void this.watered.push(p.name);
  remove(p: Plant): Promise<boolean> {
    return this.list.remove(
      p.id,
      {
        act: async () => {
          await this.call();
          this.plants = this.plants.filter((x) => x.id !== p.id);
        },
        restore: async () => void (this.plants = [p, ...this.plants]),
        done: `Deleted ${p.name}`,
        failed: `Couldn't delete ${p.name}`,
      },
      this.notify,
    );
  }
}
