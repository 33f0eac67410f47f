import { asError, type Params, type Rpc, type RpcError } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import type { Inspection, Operation, Origin, Preview } from "./types";

type Source = Params<"discovery.inspect_openapi">;

/** With more operations than this none is chosen at first. */
const mostChosen = 40;
const page = 100;
const typingMs = 200;

/** Adding a tool: inspect a description, choose operations, review what would be imported, import it. */
export class AddTool {
  open = $state(false);
  step = $state<"source" | "operations" | "review">("source");
  inspection = $state.raw<Inspection | null>(null);
  readonly operations = new Load<readonly Operation[]>();
  total = $state(0);
  query = $state("");
  tag = $state("");
  /** The chosen operations by key, each with its tokens. */
  chosen = $state.raw<ReadonlyMap<string, number>>(new Map());
  name = $state("");
  server = $state("");
  /** Values of the server's variables, by name. */
  variables = $state<Record<string, string>>({});
  onConflict = $state<"" | "upgrade" | "rename">("");
  preview = $state.raw<Preview | null>(null);
  /** The candidate of a request that is added. */
  origin = $state.raw<Origin | null>(null);
  /** When the current work began, or 0. */
  since = $state(0);
  error = $state.raw<RpcError | null>(null);
  #abort: AbortController | null = null;
  #typing: ReturnType<typeof setTimeout> | undefined;
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  get busy(): boolean {
    return this.since > 0;
  }
  readonly tokens = $derived.by(() => [...this.chosen.values()].reduce((a, b) => a + b, 0));

  /** Opens the sheet; with a source it is inspected at once. */
  begin(source: Source | null = null, origin: Origin | null = null): void {
    this.cancel();
    this.origin = origin;
    this.open = true;
    this.step = "source";
    this.inspection = this.preview = null;
    this.error = null;
    this.chosen = new Map();
    this.query = this.tag = this.name = this.server = this.onConflict = "";
    this.variables = {};
    this.operations.clear();
    if (source) void this.inspect(source);
  }

  cancel(): void {
    this.#abort?.abort();
  }

  /** Reads a description; nothing is stored as a tool. */
  inspect(source: Source): Promise<void> {
    return this.#work(async (signal) => {
      const r = await this.#rpc.call("discovery.inspect_openapi", source, { signal });
      this.inspection = r;
      this.setServer(r.servers[0]?.url ?? "");
      this.step = "operations";
      await this.read();
      if (r.counts.operations <= mostChosen) this.#choose(this.operations.data ?? [], true);
    });
  }

  /** Reads the operations that match the search and the tag. */
  read(): Promise<void> {
    const specId = this.inspection?.specId;
    if (!specId) return Promise.resolve();
    return this.operations.run((signal) => this.#page(specId, 0, signal));
  }
  async more(): Promise<void> {
    const have = this.operations.data ?? [];
    const specId = this.inspection?.specId;
    if (specId) await this.operations.run(async (signal) => [...have, ...(await this.#page(specId, have.length, signal))]);
  }
  async #page(specId: string, offset: number, signal: AbortSignal): Promise<readonly Operation[]> {
    const q = this.query.trim();
    const r = await this.#rpc.call("discovery.operations", { specId, limit: page, offset, ...(q === "" ? {} : { query: q }), ...(this.tag === "" ? {} : { tag: this.tag }) }, { signal });
    this.total = r.total;
    return r.operations;
  }
  /** Searches when typing pauses. */
  search(query: string): void {
    this.query = query;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.read(), typingMs);
  }
  setTag(tag: string): void {
    this.tag = tag;
    void this.read();
  }

  /** The variables of the chosen server; none if its address was written by hand. */
  get asked(): NonNullable<Inspection["servers"][number]["variables"]> {
    return this.inspection?.servers.find((s) => s.url === this.server)?.variables ?? [];
  }
  /** Chooses a server. What was entered for variables of the same name stays. */
  setServer(url: string): void {
    this.server = url;
    this.variables = Object.fromEntries(this.asked.map((v) => [v.name, this.variables[v.name] ?? v.default ?? ""]));
  }
  get #where(): { server?: string; serverVariables?: Record<string, string> } {
    if (this.server === "") return {};
    return this.asked.length === 0 ? { server: this.server } : { server: this.server, serverVariables: { ...this.variables } };
  }

  #choose(list: readonly Operation[], on: boolean): void {
    const next = new Map(this.chosen);
    for (const o of list) {
      if (on) next.set(o.key, o.tokens);
      else next.delete(o.key);
    }
    this.chosen = next;
  }
  choose(o: Operation, on: boolean): void {
    this.#choose([o], on);
  }
  /** Chooses all that are shown, or none. */
  chooseShown(on: boolean): void {
    if (on) this.#choose(this.operations.data ?? [], true);
    else this.chosen = new Map();
  }

  get #params(): Params<"discovery.import_openapi"> {
    const name = this.name.trim();
    return { specId: this.inspection!.specId, operations: [...this.chosen.keys()], ...(name === "" ? {} : { name }), ...this.#where, ...(this.onConflict === "" ? {} : { onConflict: this.onConflict }) };
  }

  /** Shows what would be imported. */
  review(): Promise<void> {
    return this.#work(async (signal) => {
      this.preview = await this.#rpc.call("discovery.import_openapi", { ...this.#params, dryRun: true }, { signal });
      this.name = this.preview.manifest.name;
      this.step = "review";
    });
  }

  /** Imports it; it waits for approval. Returns its id, or null if it was refused. */
  async add(): Promise<string | null> {
    let id: string | null = null;
    await this.#work(async (signal) => {
      const { operations, name } = this.#params;
      const made = this.origin ? await this.#rpc.call("discovery.accept", { ...this.origin, operations, name, ...this.#where }, { signal }) : await this.#rpc.call("discovery.import_openapi", { ...this.#params, dryRun: false }, { signal });
      id = made.manifestId ?? null;
      this.open = false;
    });
    return id;
  }

  back(): void {
    this.error = null;
    this.step = this.step === "review" ? "operations" : "source";
  }

  async #work(act: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (this.busy) return;
    this.since = Date.now();
    this.error = null;
    const abort = (this.#abort = new AbortController());
    try {
      await act(abort.signal);
    } catch (e) {
      if (!abort.signal.aborted) this.error = asError(e);
    } finally {
      this.since = 0;
    }
  }
}
