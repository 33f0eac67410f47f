/** State of the Trash screen, without a DOM. */
import { ListState, Marks, route } from "../../lib/list/state";
import type { EventName, Item, Result, Rpc } from "../../lib/rpc";
import { nav, type Notify } from "../../lib/ui/state";
import { groupNames, groups, kinds, type Group, type Kind } from "./kinds";
import { t } from "./messages";

export type Deleted = Item<"trash.list", "items">;
export interface Filters extends Record<string, string> {
  group: Group | "";
}

/** What to delete permanently: some items, or all of a group; "" means everything. */
export type Purge = { items: readonly Deleted[] } | { all: Group | "" };

/** The maximum number of items per call. */
const maxItems = 1000;
const events: readonly EventName[] = ["trash.changed", "tools.changed", "skills.changed", "skills.wasm_changed", "schedules.changed", "memory.changed", "chat.session_changed"];

export class TrashScreen {
  readonly list: ListState<Deleted, Filters>;
  readonly marks = new Marks();
  counts = $state.raw<Result<"trash.list">["counts"]>([]);
  /** The action that needs a confirmation. */
  asking = $state.raw<Purge | null>(null);
  busy = $state(false);
  readonly #rpc: Rpc;
  readonly #notify: Pick<Notify, "error" | "ok" | "undo" | "add">;

  constructor(rpc: Rpc, notify: Pick<Notify, "error" | "ok" | "undo" | "add">) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.list = new ListState<Deleted, Filters>({
      id: (x) => x.id,
      route: route("trash", groupNames),
      filters: { group: "" },
      read: async ({ query, filters, offset, limit, signal }) => {
        const r = await rpc.call("trash.list", { offset, limit, ...(query === "" ? {} : { query }), ...(filters.group === "" ? {} : { kinds: [...groups[filters.group]] }) }, { signal });
        this.counts = r.counts;
        return r;
      },
    });
  }

  start(): void {
    this.list.start(this.#rpc, events);
    void this.list.page.reload();
  }

  /** Filters the list by the group in the address, and removes it from the address. */
  follow(name: string | undefined): void {
    if (!groupNames.includes(name as Group)) return;
    this.list.setFilter("group", name as Group);
    nav.go("trash", "replace");
  }

  /** The number of items in a group; "" for the whole trash. */
  countOf(group: Group | ""): number {
    return this.countsOf(group).reduce((n, c) => n + c.count, 0);
  }
  /** The kinds of a group that have items, with their counts. */
  countsOf(group: Group | ""): { kind: Kind; count: number }[] {
    return this.counts.filter((c) => c.count > 0 && (group === "" || groups[group].includes(c.kind as Kind))) as { kind: Kind; count: number }[];
  }

  /** The rows for an action on `row`: the marked ones if it is one of them. */
  targets(row: Deleted): readonly Deleted[] {
    return this.marks.has(row.id) ? this.marked : [row];
  }
  get marked(): readonly Deleted[] {
    return this.list.rows.filter((x) => this.marks.has(x.id));
  }

  /** Restores items, with Undo. */
  async restore(items: readonly Deleted[]): Promise<void> {
    const some = items.slice(0, maxItems);
    try {
      const r = await this.#rpc.call("trash.restore", { items: some.map(refOf) });
      this.#left(r.restored.map((x) => x.id));
      const title = some.length === 1 ? t.restored(nameOf(some[0]!)) : t.restoredMany(r.restored.length);
      this.#notify.undo(title, () => Promise.all(r.restored.map((x) => kinds[x.kind as Kind].remove(this.#rpc, x.id))), stayed(r.failed));
    } catch (e) {
      this.#notify.error(e, t.restoreFailed);
    }
    await this.list.page.reload();
  }

  /** Deletes the confirmed items permanently. */
  async purge(): Promise<void> {
    const what = this.asking;
    if (what === null) return;
    this.busy = true;
    try {
      const r = "all" in what ? await this.#rpc.call("trash.empty", what.all === "" ? {} : { kinds: [...groups[what.all]] }) : await this.#rpc.call("trash.purge", { items: what.items.slice(0, maxItems).map(refOf) });
      this.#left("all" in what ? this.list.rows.map((x) => x.id) : what.items.map((x) => x.id));
      if (r.failed.length === 0) this.#notify.ok(t.purged(r.count));
      else this.#notify.add({ title: t.purged(r.count), text: stayed(r.failed), tone: "warn" });
    } catch (e) {
      this.#notify.error(e, t.purgeFailed);
    }
    this.busy = false;
    this.asking = null;
    await this.list.page.reload();
  }

  /** Removes items that no longer exist from marks and selection; the next row is selected. */
  #left(ids: readonly string[]): void {
    this.marks.drop(ids);
    const at = this.list.rows.findIndex((x) => x.id === this.list.selectedId);
    if (at < 0 || !ids.includes(this.list.selectedId ?? "")) return;
    const rest = this.list.rows.filter((x) => !ids.includes(x.id));
    this.list.select(rest[Math.min(at, rest.length - 1)]?.id ?? null, "replace");
  }
}

export const nameOf = (x: Deleted): string => x.name || t.untitled;

const refOf = ({ kind, id }: Deleted): { kind: string; id: string } => ({ kind, id });
const stayed = (failed: Result<"trash.restore">["failed"]): string => (failed.length === 0 ? "" : t.stayed(failed.length, failed[0]!.message));
