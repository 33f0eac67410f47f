import type { Rpc } from "../../lib/rpc";
import { CallRun } from "../../lib/run/call.svelte";
import { Load, SignIn, type Notify } from "../../lib/ui/state";
import { t } from "./messages";
import type { Credential, Execution, Operation, Row, Tool } from "./types";

const page = 100;

/** The open tool: what it may do, its operations, its credentials and its runs. */
export class OpenTool {
  id = $state<string | null>(null);
  readonly tool = new Load<Tool>();
  readonly operations = new Load<readonly Operation[]>();
  readonly runs = new Load<readonly Execution[]>();
  /** The input schemas by operation. */
  readonly schemas = new Load<Readonly<Record<string, unknown>>>();
  /** The operation whose form is shown, or "". */
  shown = $state("");
  params = $state.raw<Record<string, unknown>>({});
  readonly run = new CallRun();
  readonly signIn: SignIn;
  /** The credential whose sign-in is in progress. */
  signingIn = $state("");
  busy = $state("");
  readonly #rpc: Rpc;
  readonly #notify: Notify;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.signIn = new SignIn(notify);
  }

  show(id: string | null): void {
    if (id === this.id) return;
    this.id = id;
    for (const load of [this.tool, this.operations, this.runs, this.schemas]) load.clear();
    this.shown = this.signIn.url = "";
    this.run.clear();
    if (id !== null) void this.read();
  }

  async read(): Promise<void> {
    const manifestId = this.id;
    if (manifestId === null) return;
    await this.tool.run((signal) => this.#rpc.call("discovery.get", { manifestId }, { signal }));
    const tool = this.tool.data;
    if (this.id !== manifestId || this.tool.error || !tool) return;
    await Promise.all([
      this.operations.run(async (signal) => {
        const all: Operation[] = [];
        for (;;) {
          const r = await this.#rpc.call("discovery.operations", { manifestId, limit: page, offset: all.length }, { signal });
          all.push(...r.operations);
          if (r.operations.length === 0 || all.length >= r.total) return all;
        }
      }),
      this.schemas.run(async (signal) => {
        const { callables } = await this.#rpc.call("callables.list", { kind: "api", query: `${tool.name}.` }, { signal });
        return Object.fromEntries(callables.filter((c) => c.id.startsWith(`${manifestId}/`)).map((c) => [c.id.slice(manifestId.length + 1), c.input]));
      }),
      this.readRuns(),
    ]);
  }
  readRuns(): Promise<void> {
    const manifestId = this.id;
    return manifestId === null ? Promise.resolve() : this.runs.run(async (signal) => (await this.#rpc.call("discovery.executions", { manifestId, limit: 50 }, { signal })).executions);
  }

  toggle(name: string): void {
    this.shown = this.shown === name ? "" : name;
    this.params = {};
    this.run.clear();
  }

  call(o: Operation, params: Record<string, unknown>, dryRun = false): Promise<void> {
    const manifestId = this.id!;
    return this.run.start(async (signal) => {
      const r = await this.#rpc.call("discovery.run", { manifestId, operation: o.name, params, dryRun }, { signal });
      return { ...r, ...(dryRun ? { success: true, output: r.request } : {}) };
    });
  }

  /** Approves exactly the definition that is shown. */
  async approve(): Promise<void> {
    const x = this.tool.data;
    if (!x || this.busy !== "") return;
    this.busy = "approve";
    try {
      await this.#rpc.call("discovery.approve", { manifestId: x.manifestId, definitionHash: x.definitionHash });
      this.#notify.ok(t.approved(x.name));
    } catch (e) {
      this.#notify.error(e, t.approveFailed(x.name));
    } finally {
      this.busy = "";
      await this.read();
    }
  }

  /** Tries the samples of the tool; its state tells the end. */
  async verify(x: Pick<Row, "manifestId" | "name">): Promise<void> {
    try {
      await this.#rpc.call("discovery.verify", { manifestId: x.manifestId });
    } catch (e) {
      this.#notify.error(e, t.verifyFailed(x.name));
    }
    await this.read();
  }

  /** Stores a credential; false if it was refused. */
  async setAuth(c: Credential, value: string, user: string): Promise<boolean> {
    const manifestId = this.id!;
    this.busy = c.name;
    try {
      await this.#rpc.call("discovery.set_auth", { manifestId, scheme: c.name, value, ...(user === "" ? {} : { user }) });
      this.#notify.ok(t.credentialStored(c.name));
      return true;
    } catch (e) {
      this.#notify.error(e, t.credentialFailed(c.name));
      return false;
    } finally {
      this.busy = "";
      await this.read();
    }
  }
  beginSignIn(c: Credential, clientId: string): Promise<void> {
    const manifestId = this.id!;
    this.signingIn = c.name;
    return this.signIn.begin(() => this.#rpc.call("discovery.oauth_start", { manifestId, scheme: c.name, clientId: clientId.trim() }), t.signInFailed(c.name));
  }
  /** The sign-in of a credential has ended. */
  signedIn(scheme: string, why: string): void {
    if (scheme === this.signingIn) this.signIn.ended(why, t.signInFailed(scheme));
    void this.read();
  }
  async clearAuth(c: Credential): Promise<void> {
    try {
      await this.#rpc.call("discovery.clear_auth", { manifestId: this.id!, scheme: c.name });
      this.#notify.ok(t.credentialRemoved(c.name));
    } catch (e) {
      this.#notify.error(e, t.credentialFailed(c.name));
    }
    await this.read();
  }
}
