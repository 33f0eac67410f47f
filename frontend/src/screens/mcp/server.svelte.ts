import type { Rpc } from "../../lib/rpc";
import { CallRun } from "../../lib/run/call.svelte";
import { Load, SignIn, type Notify } from "../../lib/ui/state";
import { t } from "./messages";
import type { LogLine, Server, TestSteps, Tier, Tool } from "./types";

const page = 100;
const mostLines = 2000;

/** Tools that can be approved. */
export const undecided = (x: Tool): boolean => x.state === "new" || x.state === "changed";

/** The open server: its tools with their review, its log, its test. */
export class OpenServer {
  name = $state<string | null>(null);
  readonly server = new Load<Server>();
  readonly tools = new Load<readonly Tool[]>();
  readonly test = new Load<TestSteps>();
  readonly logFailed = new Load<void>();
  lines = $state.raw<readonly LogLine[]>([]);
  /** Names of the tools that are chosen for Approve. */
  chosen = $state.raw<ReadonlySet<string>>(new Set());
  tier = $state<Tier>("");
  /** The tool whose details are shown, or "". */
  shown = $state("");
  params = $state.raw<Record<string, unknown>>({});
  readonly run = new CallRun();
  readonly signIn: SignIn;
  /** The client ID for a sign-in, if the server asks for one. */
  clientId = $state("");
  /** What is being done: its name, or "". */
  busy = $state("");
  #abort: AbortController | null = null;
  #reading = false;
  #again = false;
  readonly #rpc: Rpc;
  readonly #notify: Notify;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.signIn = new SignIn(notify);
  }

  show(name: string | null): void {
    if (name === this.name) return;
    this.name = name;
    for (const load of [this.server, this.tools, this.test, this.logFailed]) load.clear();
    this.lines = [];
    this.chosen = new Set();
    this.shown = "";
    this.clientId = this.signIn.url = "";
    this.run.clear();
    if (name !== null) void this.read();
  }

  /** Reads the server, then its tools: what is approved is at least as old as what is shown. */
  async read(): Promise<void> {
    const name = this.name;
    if (name === null) return;
    await this.server.run((signal) => this.#rpc.call("mcp.server", { name }, { signal }));
    if (this.name !== name || this.server.error) return;
    await this.tools.run(async (signal) => {
      const all: Tool[] = [];
      for (;;) {
        const r = await this.#rpc.call("mcp.tools", { name, limit: page, offset: all.length }, { signal });
        all.push(...r.tools);
        if (r.tools.length === 0 || all.length >= r.total) return all;
      }
    });
    if (this.name !== name) return;
    const known = new Set(this.tools.data?.filter(undecided).map((x) => x.name));
    this.chosen = new Set([...this.chosen].filter((n) => known.has(n)));
    // The first list starts the server, which changes what is known of it.
    await this.server.run((signal) => this.#rpc.call("mcp.server", { name }, { signal }));
  }

  /** Reads the new lines of the log; calls during a read cause one more. */
  async readLog(): Promise<void> {
    const name = this.name;
    if (name === null) return;
    if (this.#reading) return void (this.#again = true);
    this.#reading = true;
    await this.logFailed.run(async (signal) => {
      const last = this.lines.at(-1)?.seq ?? 0;
      const r = await this.#rpc.call("mcp.logs", { name, afterSeq: last, limit: last === 0 ? 500 : mostLines }, { signal });
      if (this.name === name) this.lines = [...this.lines, ...r.lines].slice(-mostLines);
    });
    this.#reading = false;
    if (this.#again) {
      this.#again = false;
      await this.readLog();
    }
  }

  choose(name: string, on: boolean): void {
    const next = new Set(this.chosen);
    if (on) next.add(name);
    else next.delete(name);
    this.chosen = next;
  }

  /** Chooses all undecided tools, or those that claim to only read. */
  chooseAll(readOnly = false): void {
    this.chosen = new Set(this.tools.data?.filter((x) => undecided(x) && !x.problem && (!readOnly || x.hints.readOnlyHint)).map((x) => x.name));
  }

  /** Shows the details of a tool, or hides them. */
  toggle(name: string): void {
    this.shown = this.shown === name ? "" : name;
    this.params = {};
    this.run.clear();
  }

  /** Approves the entry as it is shown, and the named tools. */
  approve(names: readonly string[] = [...this.chosen]): Promise<void> {
    const s = this.server.data;
    if (!s) return Promise.resolve();
    return this.#do("approve", t.approveFailed(s.name), async () => {
      const r = await this.#rpc.call("mcp.approve_server", { name: s.name, definitionHash: s.definitionHash, tools: [...names], ...(this.tier === "" ? {} : { tier: this.tier }) });
      this.chosen = new Set();
      this.#notify.ok(r.tools.length > 0 ? t.approvedTools(r.tools.length) : t.approvedServer(s.name));
    });
  }

  /** Excludes a tool from the entry, with Undo; or includes it again. */
  deny(x: Tool, on: boolean): Promise<void> {
    const deny = (list: readonly string[]): Promise<unknown> => this.#rpc.call("mcp.update", { name: x.server, patch: { tools: { deny: [...list] } } });
    const now = this.server.data?.server.tools?.deny ?? [];
    return this.#do("deny", t.denyFailed(x.name), async () => {
      await deny(on ? [...now, x.name] : now.filter((n) => n !== x.name));
      if (on) {
        this.#notify.undo(t.denied(x.name), async () => {
          await deny(now);
          await this.read();
        });
      }
    });
  }

  beginSignIn(): Promise<void> {
    const name = this.name;
    if (name === null) return Promise.resolve();
    const clientId = this.clientId.trim();
    return this.signIn.begin(() => this.#rpc.call("mcp.auth_start", { name, ...(clientId === "" ? {} : { clientId }) }), t.signInFailed(name));
  }

  /** The sign-in at the open server has ended. */
  signedIn(why: string): void {
    this.signIn.ended(why, t.signInFailed(this.name ?? ""));
    void this.read();
  }

  signOut(): Promise<void> {
    const name = this.name;
    if (name === null) return Promise.resolve();
    return this.#do("signOut", t.signOutFailed(name), async () => {
      const r = await this.#rpc.call("mcp.auth_clear", { name });
      this.#notify.ok(r.revoked ? t.signedOut(name) : t.signedOutHere(name));
    });
  }

  runTest(): Promise<void> {
    const name = this.name;
    if (name === null) return Promise.resolve();
    return this.#do("test", t.testFailed(name), async (signal) => {
      this.test.clear();
      await this.test.run(() => this.#rpc.call("mcp.test", { name }, { signal }));
    });
  }

  /** Starts or restarts the server and waits until it is ready; `cancel` stops waiting. */
  start(how: "start" | "restart"): Promise<void> {
    const name = this.name;
    if (name === null) return Promise.resolve();
    return this.#do(how, t.startFailed(name), (signal) => this.#rpc.call(`mcp.${how}`, { name }, { signal }));
  }

  cancel(): void {
    this.#abort?.abort();
    this.tools.cancel();
  }

  call(x: Tool, params: Record<string, unknown>): Promise<void> {
    return this.run.start(async (signal) => {
      const r = await this.#rpc.call("mcp.call", { server: x.server, tool: x.name, arguments: params }, { signal });
      const text = r.output.map((p) => p.text ?? p.uri ?? p.mimeType ?? p.type).join("\n");
      return { ...r, output: r.structured ?? text, error: r.error ?? (r.isError ? text : "") };
    });
  }

  async #do(what: string, failed: string, act: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
    if (this.busy !== "") return;
    this.busy = what;
    const abort = (this.#abort = new AbortController());
    try {
      await act(abort.signal);
    } catch (e) {
      if (!abort.signal.aborted) this.#notify.error(e, failed);
    } finally {
      this.busy = "";
      await this.read();
    }
  }
}
