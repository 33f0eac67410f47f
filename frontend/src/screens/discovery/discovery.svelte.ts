import { ListState, route } from "../../lib/list/state";
import type { Rpc } from "../../lib/rpc";
import { Load, nav, toasts, type Notify } from "../../lib/ui/state";
import { AddTool } from "./adding.svelte";
import { parts, toolAt } from "./address";
import { Catalogs } from "./catalogs.svelte";
import { FindApis } from "./find.svelte";
import { t } from "./messages";
import { OpenTool } from "./tool.svelte";
import { Requests } from "./requests.svelte";
import type { Candidate, Execution, Row } from "./types";

export type Filters = { status: string };
export type LogFilters = { status: string };

/** The Discovery screen: tools from API descriptions, the open one, adding one, and the log of runs. */
export class DiscoveryScreen {
  readonly list: ListState<Row, Filters>;
  readonly log: ListState<Execution, LogFilters>;
  readonly execution = new Load<Execution>();
  readonly open: OpenTool;
  readonly adding: AddTool;
  readonly find: FindApis;
  readonly catalogs: Catalogs;
  readonly requests: Requests;
  readonly #rpc: Rpc;
  readonly #notify: Notify & Pick<typeof toasts, "deferred">;

  constructor(rpc: Rpc, notify: Notify & Pick<typeof toasts, "deferred"> = toasts) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.open = new OpenTool(rpc, notify);
    this.adding = new AddTool(rpc);
    this.find = new FindApis(rpc, notify);
    this.catalogs = new Catalogs(rpc, notify, () => void this.find.search());
    this.requests = new Requests(rpc, notify);
    this.list = new ListState<Row, Filters>({
      id: (x) => x.manifestId,
      route: route("discovery", parts),
      filters: { status: "" },
      read: async ({ query, filters, offset, limit, signal }) => {
        const r = await rpc.call("discovery.list", { limit, offset, ...(query === "" ? {} : { query }), ...(filters.status === "" ? {} : { status: filters.status }) }, { signal });
        return { items: r.tools, total: r.total };
      },
    });
    this.log = new ListState<Execution, LogFilters>({
      id: (x) => x.executionId,
      route: route("discovery/log"),
      filters: { status: "" },
      read: async ({ filters, signal }) => {
        // The newest hundred; the log is read by time, not by number.
        const { executions } = await rpc.call("discovery.executions", { limit: 100, ...(filters.status === "" ? {} : { status: filters.status }) }, { signal });
        return { items: executions, total: executions.length };
      },
    });
  }

  start(): void {
    this.list.start(
      this.#rpc,
      ["discovery.changed"],
      this.#rpc.on("discovery.changed", ({ manifestId }) => void (manifestId === this.open.id && this.open.busy === "" && this.open.read())),
      this.#rpc.on("discovery.auth_changed", ({ manifestId, scheme, error }) => void (manifestId === this.open.id && this.open.busy === "" && this.open.signedIn(scheme, error ?? ""))),
      this.#rpc.on("discovery.execution", ({ manifestId }) => void (manifestId === this.open.id && this.open.readRuns())),
      this.#rpc.onReload(() => void this.open.read()),
    );
    this.log.start(this.#rpc, ["discovery.execution"]);
    this.requests.list.start(this.#rpc, ["discovery.request_changed"]);
    void this.requests.list.page.reload();
    void this.list.page.reload();
  }

  get waiting(): number {
    return this.list.page.items.filter((x) => x.status === "pending_approval").length;
  }

  /** Imports a manifest of a catalog. It waits for approval. */
  async addManifest(c: Candidate): Promise<void> {
    try {
      const { manifestId } = await this.#rpc.call("discovery.import_manifest", { url: c.ref, dryRun: false });
      await this.#added(manifestId ?? null);
    } catch (e) {
      this.#notify.error(e, t.acceptFailed(c.title));
    }
  }

  async add(): Promise<void> {
    await this.#added(await this.adding.add());
  }
  async #added(id: string | null): Promise<void> {
    if (id === null) return;
    await this.list.page.reload();
    nav.go(toolAt(id)); // also from a request, whose tool it is
    if (this.open.id === id) void this.open.read();
  }

  showExecution(executionId: string | null): void {
    if (executionId === null) this.execution.clear();
    else void this.execution.run((signal) => this.#rpc.call("discovery.execution", { executionId }, { signal }));
  }

  async setEnabled(x: Row, enabled: boolean): Promise<void> {
    // Shown at once, so that the same key pressed again turns it back.
    this.list.put({ ...x, status: enabled ? "active" : "disabled" });
    try {
      await this.#rpc.call("discovery.set_enabled", { manifestId: x.manifestId, enabled }, { inOrder: x.manifestId });
    } catch (e) {
      this.list.put(x);
      this.#notify.error(e, t.notSaved(x.name));
    }
  }

  verify(x: Row): void {
    this.open.show(x.manifestId);
    void this.open.verify(x);
  }

  /** Turns a tool off at once and revokes it after the time for Undo: a revocation is final. */
  async revoke(x: Row): Promise<void> {
    const { manifestId } = x;
    const wasOn = x.status === "active";
    this.list.hide(manifestId);
    try {
      if (wasOn) await this.#rpc.call("discovery.set_enabled", { manifestId, enabled: false });
    } catch (e) {
      await this.list.unhide(manifestId);
      return this.#notify.error(e, t.revokeFailed(x.name));
    }
    this.#notify.deferred({
      title: t.revoked(x.name),
      text: t.revokedText,
      commit: () => this.#rpc.call("discovery.revoke", { manifestId, state: "destroy" }).finally(() => this.list.unhide(manifestId)),
      revert: async () => {
        if (wasOn) await this.#rpc.call("discovery.set_enabled", { manifestId, enabled: true });
        await this.list.unhide(manifestId);
        this.list.select(manifestId);
      },
    });
  }
}
