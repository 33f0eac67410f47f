import { ListState, route } from "../../lib/list/state";
import type { EventData, Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import { isOpen } from "../../lib/run/states";
import type { Row, Template } from "./types";

/** The lists of the screen, each at an address of its own. */
export type Tab = "mine" | "marketplace" | "templates";

/** How the newest run of a tool ended, or that one is going on. */
export type LastRun = "running" | "success" | "failure" | "timeout";

/** What follows `tools/` in an address without being the id of a tool. */
export const PARTS = ["marketplace", "templates"];

/** The user's tools. */
export class ToolList extends ListState<Row, { status: string; tags: string; sort: string }> {
  /** Runs that are going on: the run's id by the tool's. */
  running = $state.raw<ReadonlyMap<string, string>>(new Map());
  /** Tags of the rows seen so far, for the filter. */
  readonly tags: readonly string[] = $derived.by(() => {
    for (const row of this.page.items) for (const tag of row.tags) this.#tags.add(tag);
    return [...this.#tags].sort((a, b) => a.localeCompare(b));
  });
  readonly #tags = new Set<string>();
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    super({
      id: (r) => r.id,
      route: route("tools", ["new", "shared", ...PARTS]),
      filters: { status: "any", tags: "", sort: "recent" },
      read: async ({ query, filters: { status, tags, sort }, offset, limit, signal }) => {
        const r = await rpc.call(
          "tools.list",
          {
            ...(query && { query }),
            ...(tags && { tags: tags.split("\n") }),
            ...((status === "enabled" || status === "disabled") && { enabled: status === "enabled" }),
            ...(status === "suspended" && { suspended: true }),
            ...((status === "private" || status === "public") && { visibility: status }),
            sort: sort as "recent" | "name" | "usage",
            limit,
            offset,
          },
          { signal },
        );
        return { items: r.tools, total: r.total };
      },
    });
    this.#rpc = rpc;
  }

  listen(): void {
    this.start(this.#rpc, ["tools.changed", "tools.suspended"], this.#rpc.on("tools.execution", (e) => this.#ran(e)));
  }

  /** The mark of a row: a run that is going on now, else how the last one ended. */
  lastRun(row: Row): LastRun | null {
    return this.running.has(row.id) ? "running" : ((row.lastStatus as LastRun | undefined) ?? null);
  }

  #ran(e: EventData<"tools.execution">): void {
    if (!e.toolId) return;
    const on = isOpen(e.state);
    const known = this.running.get(e.toolId);
    if (on ? known === e.executionId : known === undefined) return;
    const map = new Map(this.running);
    if (on) map.set(e.toolId, e.executionId);
    else map.delete(e.toolId);
    this.running = map;
    if (!on) this.soon();
  }
}

/** Tools that are shared with everyone: those of a hub, and the public ones of this device. */
export class Market extends ListState<Row> {
  /** A hub is connected, so that tools of others are listed too. */
  hub = $state(false);

  constructor(rpc: Rpc) {
    super({
      id: (r) => r.id,
      route: route("tools/marketplace"),
      read: async ({ query, offset, limit, signal }) => {
        const r = await rpc.call("tools.search", { query, limit, offset }, { signal });
        this.hub = r.hub;
        return { items: r.tools, total: r.total };
      },
    });
  }
}

/** Templates, which are read once and searched here. */
export function templateList(rpc: Rpc): ListState<Template> {
  const all = new Load<readonly Template[]>();
  return new ListState({
    id: (x) => x.id,
    route: route("tools/templates"),
    read: async ({ query }) => {
      if (all.data === undefined) await all.run(async (signal) => (await rpc.call("tools.templates", {}, { signal })).templates);
      if (all.error) throw all.error;
      const q = query.toLowerCase();
      const items = (all.data ?? []).filter((x) => `${x.name}\n${x.description}`.toLowerCase().includes(q));
      return { items, total: items.length };
    },
  });
}
