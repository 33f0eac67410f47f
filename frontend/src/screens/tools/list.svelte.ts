import { shipped } from "../../lib/i18n";
import { ListState, route } from "../../lib/list/state";
import type { Rpc } from "../../lib/rpc";
import { isOpen } from "../../lib/run/states";
import { Load } from "../../lib/ui/state";
import { keyOf, moduleKey, toolRoute } from "./address";
import type { Row, Template } from "./types";
import { allModules, rowOf } from "./wasm/module";

/** The lists of the screen, each at an address of its own. */
export type Tab = "mine" | "marketplace" | "templates";

interface Filters extends Record<string, string> {
  kind: string;
  status: string;
  tags: string;
  sort: string;
}

/** The orders of the backend's list. */
const orders: Readonly<Record<string, (a: Row, b: Row) => number>> = {
  recent: (a, b) => b.updatedAt.localeCompare(a.updatedAt),
  name: (a, b) => a.name.localeCompare(b.name),
  usage: (a, b) => b.usageCount - a.usageCount,
};

/** The user's tools: code in pages from the backend, with the modules, which are few, sorted into it. */
export class ToolList extends ListState<Row, Filters> {
  /** Active runs: the run's id by the key of its tool. */
  running = $state.raw<ReadonlyMap<string, string>>(new Map());
  /** Tags of the rows seen so far, for the filter. */
  readonly tags: readonly string[] = $derived.by(() => {
    for (const row of this.page.items) for (const tag of row.tags) this.#tags.add(tag);
    return [...this.#tags].sort((a, b) => a.localeCompare(b));
  });
  readonly #tags = new Set<string>();
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    const merged = new MergedRows(rpc);
    super({
      id: keyOf,
      route: toolRoute,
      filters: { kind: "any", status: "any", tags: "", sort: "recent" },
      read: ({ query, filters, offset, limit, signal }) => merged.page(query, filters, offset, limit, signal),
    });
    this.#rpc = rpc;
  }

  listen(): void {
    this.start(
      this.#rpc,
      ["tools.changed", "tools.suspended", "skills.wasm_changed", "sandbox.status_changed"],
      this.#rpc.on("tools.execution", (e) => e.toolId && this.#ran(e.toolId, e.executionId, e.state)),
      this.#rpc.on("skills.execution_changed", (e) => this.#ran(moduleKey(e.skillId), e.executionId, e.status)),
    );
  }

  /** The status of an active run, else how the last one ended; "" for none. */
  lastRun(row: Row): string {
    return this.running.has(keyOf(row)) ? "running" : (row.lastStatus ?? "");
  }

  #ran(key: string, run: string, state: string): void {
    const on = isOpen(state);
    const known = this.running.get(key);
    if (on ? known === run : known === undefined) return;
    const map = new Map(this.running);
    if (on) map.set(key, run);
    else map.delete(key);
    this.running = map;
    if (!on) this.soon();
  }
}

/** Pages of code and modules in one order. */
class MergedRows {
  #modules: Row[] = [];
  /** The number of modules before an offset. */
  #before = new Map<number, number>();

  constructor(private readonly rpc: Rpc) {}

  async page(query: string, filters: Filters, offset: number, limit: number, signal: AbortSignal): Promise<{ items: Row[]; total: number }> {
    const order = orders[filters.sort] ?? orders["recent"]!;
    if (offset === 0) {
      const modules = filters.kind === "code" || filters.tags !== "" || !this.rpc.can("skills.list_wasm") ? [] : await allModules(this.rpc, query, signal);
      this.#modules = modules.map(rowOf).filter((m) => fits(m, filters.status)).sort(order);
      this.#before = new Map([[0, 0]]);
    }
    const taken = this.#before.get(offset) ?? 0;
    const code = filters.kind === "wasm" ? { tools: [], total: 0 } : await this.#code(query, filters, offset - taken, limit, signal);
    const items: Row[] = [];
    for (let c = 0, m = taken; items.length < limit && (c < code.tools.length || m < this.#modules.length); ) {
      const tool = code.tools[c];
      const module = this.#modules[m];
      if (tool !== undefined && (module === undefined || order(tool, module) <= 0)) items.push((c++, tool));
      else if (module !== undefined) items.push((m++, module));
    }
    this.#before.set(offset + items.length, taken + items.filter((r) => r.module).length);
    return { items, total: code.total + this.#modules.length };
  }

  #code(query: string, { status, tags, sort }: Filters, offset: number, limit: number, signal: AbortSignal): Promise<{ tools: Row[]; total: number }> {
    return this.rpc.call(
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
  }
}

/** Whether a module matches the status filter. */
function fits(m: Row, status: string): boolean {
  if (status === "enabled" || status === "disabled") return m.isEnabled === (status === "enabled");
  return status === "suspended" ? m.suspended : status !== "public";
}

/** Tools that are shared with everyone: those of a hub, and the public ones of this device. */
export class Market extends ListState<Row> {
  /** A hub is connected, so tools of other users are listed too. */
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
      const items = (all.data ?? []).filter((x) => `${shipped(x.name)}\n${shipped(x.description)}`.toLowerCase().includes(q));
      return { items, total: items.length };
    },
  });
}
