import { asError, type Params, type Rpc, type RpcError } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import type { Found, Source } from "./types";

type From = Pick<Params<"mcp.import">, "source" | "path" | "content">;

/** Importing servers from the configuration of another program: choose one, read what it has, add the chosen. */
export class McpImport {
  open = $state(false);
  readonly sources = new Load<readonly Source[]>();
  found = $state.raw<readonly Found[] | null>(null);
  chosen = $state.raw<ReadonlySet<string>>(new Set());
  busy = $state(false);
  error = $state.raw<RpcError | null>(null);
  #from: From = {};
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  begin(): void {
    this.back();
    this.open = true;
    void this.sources.run(async (signal) => (await this.#rpc.call("mcp.sources", {}, { signal })).sources);
  }

  /** Returns to the choice of a configuration. */
  back(): void {
    this.found = null;
    this.error = null;
    this.chosen = new Set();
  }

  /** Reads a configuration; nothing is added. */
  async read(from: From): Promise<void> {
    this.busy = true;
    this.error = null;
    try {
      const { found } = await this.#rpc.call("mcp.import", { ...from, dryRun: true });
      this.#from = from;
      this.found = found;
      this.chosen = new Set(found.filter((f) => !f.conflict && !f.skipped).map((f) => f.name));
    } catch (e) {
      this.error = asError(e);
    } finally {
      this.busy = false;
    }
  }

  choose(name: string, on: boolean): void {
    const next = new Set(this.chosen);
    if (on) next.add(name);
    else next.delete(name);
    this.chosen = next;
  }

  /** Adds the chosen servers; returns their names, or null if it was refused. */
  async add(): Promise<readonly string[] | null> {
    if (this.busy || this.chosen.size === 0) return null;
    this.busy = true;
    this.error = null;
    try {
      const { added } = await this.#rpc.call("mcp.import", { ...this.#from, names: [...this.chosen], dryRun: false });
      this.open = false;
      return added;
    } catch (e) {
      this.error = asError(e);
      return null;
    } finally {
      this.busy = false;
    }
  }
}
