import type { Params, Rpc } from "../../lib/rpc";
import { Paged } from "../../lib/ui/state";
import type { Schedule } from "./types";

export type StateFilter = "any" | "active" | "paused" | "completed" | "disabled";

const TYPING_MS = 200;

/** A line of the list: a schedule, or the heading above those that come with Helix. */
export type Line = { id: string; name: string; schedule: Schedule } | { id: string; name: string; heading: true };

/** The schedules of the user: searched, filtered, and which one is chosen. */
export class ScheduleList {
  query = $state("");
  state = $state<StateFilter>("any");
  kind = $state("");
  selectedId = $state<string | null>(null);
  readonly page: Paged<Schedule>;
  #hidden = $state.raw<ReadonlySet<string>>(new Set());
  #typing: ReturnType<typeof setTimeout> | undefined;
  #soon: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc) {
    this.page = new Paged<Schedule>(async (offset, limit, signal) => {
      const params: Params<"schedules.list"> = { limit, offset };
      const query = this.query.trim();
      if (query !== "") params.query = query;
      if (this.state !== "any") params.status = this.state;
      if (this.kind !== "") params.kind = this.kind;
      const r = await rpc.call("schedules.list", params, { signal });
      return { items: r.schedules, total: r.total };
    });
  }

  readonly rows = $derived.by(() => this.page.items.filter((s) => !this.#hidden.has(s.scheduleId)));
  /** What the user made; the ones that come with Helix are not counted. */
  readonly own = $derived(this.rows.filter((s) => !s.system));
  readonly system = $derived(this.rows.filter((s) => s.system));
  readonly lines = $derived.by((): Line[] => {
    const line = (s: Schedule): Line => ({ id: s.scheduleId, name: s.name, schedule: s });
    if (this.system.length === 0) return this.own.map(line);
    return [...this.own.map(line), { id: "system", name: "Comes with Helix", heading: true }, ...this.system.map(line)];
  });
  readonly filtered = $derived(this.query.trim() !== "" || this.state !== "any" || this.kind !== "");
  readonly selected = $derived(this.rows.find((s) => s.scheduleId === this.selectedId) ?? null);
  /** The user made none yet: show how to begin. */
  readonly bare = $derived.by(() => this.own.length === 0 && !this.filtered && !this.page.first && !this.page.error);

  stop(): void {
    clearTimeout(this.#typing);
    clearTimeout(this.#soon);
  }

  /** Reads again in a moment; several changes in a row are one read. */
  soon(): void {
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => void this.page.reload(), 50);
  }

  search(text: string): void {
    this.query = text;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.page.restart(), TYPING_MS);
  }

  setState(state: StateFilter): void {
    this.state = state;
    void this.page.restart();
  }

  setKind(kind: string): void {
    this.kind = kind;
    void this.page.restart();
  }

  clearFilters(): void {
    clearTimeout(this.#typing);
    this.query = "";
    this.state = "any";
    this.kind = "";
    void this.page.restart();
  }

  /** Takes over what the backend answered for one schedule, so that the row changes at once. */
  put(s: Schedule): void {
    this.page.items = this.page.items.map((x) => (x.scheduleId === s.scheduleId ? s : x));
  }

  /** Takes a row out at once, before the backend has answered; the row after it is chosen. */
  hide(id: string): void {
    const at = this.rows.findIndex((s) => s.scheduleId === id);
    this.#hidden = new Set(this.#hidden).add(id);
    if (at >= 0 && this.selectedId === id) this.selectedId = this.own[Math.min(at, this.own.length - 1)]?.scheduleId ?? null;
  }

  /** Lets a hidden row be seen again and reads where it belongs. */
  async unhide(id: string): Promise<void> {
    await this.page.reload();
    const hidden = new Set(this.#hidden);
    hidden.delete(id);
    this.#hidden = hidden;
  }
}
