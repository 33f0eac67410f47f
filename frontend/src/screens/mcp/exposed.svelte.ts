import type { Rpc } from "../../lib/rpc";
import { Load, type Notify } from "../../lib/ui/state";
import { t } from "./messages";
import type { Callable, Exposed } from "./types";

/** What can be offered: the kind in mcp.expose for a kind of callable. */
const kinds: Readonly<Record<string, string>> = { tool: "tool", skill: "skill", api: "discovery", builtin: "memory" };
const memorySearch = "memory.search";

export interface Offer {
  kind: string;
  id: string;
  name: string;
  description: string;
  exposed: boolean;
  problem: string;
}

/** What other MCP programs may call, and how they reach it. */
export class Serving {
  readonly state = new Load<Exposed>();
  readonly callables = new Load<readonly Callable[]>();
  query = $state("");
  /** A token that was just created; it is shown once. */
  token = $state("");
  busy = $state(false);
  readonly #rpc: Rpc;
  readonly #notify: Notify;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
  }

  read(): Promise<unknown> {
    return Promise.all([
      this.state.run((signal) => this.#rpc.call("mcp.exposed", {}, { signal })),
      this.callables.run(async (signal) => (await this.#rpc.call("callables.list", { limit: 500 }, { signal })).callables.filter((c) => c.kind in kinds && c.blocked !== "foreign" && (c.kind !== "builtin" || c.id === memorySearch))),
    ]);
  }

  /** What is offered, then what could be; filtered by the search. */
  get offers(): Offer[] {
    const tools = this.state.data?.tools ?? [];
    const key = (kind: string, id: string): string => `${kind} ${id}`;
    const on = new Map(tools.map((e) => [key(e.kind, e.id), e]));
    const q = this.query.trim().toLowerCase();
    const offered: Offer[] = tools.map((e) => ({ kind: e.kind, id: e.id, name: e.name, description: e.description ?? "", exposed: true, problem: e.problem ?? "" }));
    const others: Offer[] = (this.callables.data ?? []).map((c) => ({ kind: kinds[c.kind]!, id: c.id, name: c.title || c.name, description: c.description ?? "", exposed: false, problem: "" })).filter((o) => !on.has(key(o.kind, o.id)));
    return [...offered, ...others].filter((o) => `${o.name}\n${o.description}`.toLowerCase().includes(q));
  }

  async expose(o: Offer, exposed: boolean): Promise<void> {
    try {
      this.state.data = await this.#rpc.call("mcp.expose", { kind: o.kind, id: o.id, exposed });
    } catch (e) {
      this.#notify.error(e, exposed ? t.exposeFailed(o.name) : t.hideFailed(o.name));
    }
  }

  async createToken(): Promise<void> {
    this.busy = true;
    try {
      this.token = (await this.#rpc.call("tokens.create", { name: t.tokenName, scopes: ["read", "write"] })).token;
    } catch (e) {
      this.#notify.error(e, t.tokenFailed);
    } finally {
      this.busy = false;
    }
  }

  /** A configuration for other programs, with the token if it was just created. */
  get config(): string {
    const url = this.state.data?.url;
    const helix = url ? { type: "http", url, headers: { Authorization: `Bearer ${this.token || "TOKEN"}` } } : { command: "helix", args: ["mcp", "serve"] };
    return JSON.stringify({ mcpServers: { helix } }, null, 2);
  }
}
