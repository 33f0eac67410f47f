import { ListState } from "../../lib/list/state";
import type { Rpc } from "../../lib/rpc";
import { JobList, nav, toasts, type Notify } from "../../lib/ui/state";
import { serverAt, serverRoute } from "./address";
import { Serving } from "./exposed.svelte";
import { EntryForm } from "./form.svelte";
import { McpImport } from "./importing.svelte";
import { t } from "./messages";
import { OpenServer } from "./server.svelte";
import type { Row } from "./types";

export type Filters = { state: string };

/** The MCP screen: the servers, the open one, the form, the import and what other programs may call. */
export class McpScreen {
  readonly list: ListState<Row, Filters>;
  readonly open: OpenServer;
  readonly form: EntryForm;
  readonly importing: McpImport;
  readonly serving: Serving;
  readonly jobs = new JobList();
  readonly #rpc: Rpc;
  readonly #notify: Notify;

  constructor(rpc: Rpc, notify: Notify = toasts) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.open = new OpenServer(rpc, notify);
    this.form = new EntryForm(rpc);
    this.importing = new McpImport(rpc);
    this.serving = new Serving(rpc, notify);
    this.list = new ListState<Row, Filters>({
      id: (s) => s.name,
      route: serverRoute,
      filters: { state: "" },
      read: async ({ query, filters, signal }) => {
        const r = await rpc.call("mcp.servers", { limit: 100, ...(filters.state === "" ? {} : { state: filters.state }) }, { signal });
        const q = query.toLowerCase();
        const items = r.servers.filter((s) => `${s.name}\n${s.target}`.toLowerCase().includes(q));
        return { items, total: items.length };
      },
    });
  }

  start(): void {
    this.list.start(
      this.#rpc,
      ["mcp.changed", "mcp.tools_changed", "permissions.changed"],
      this.#rpc.on("mcp.changed", ({ name, state }) => {
        if (state === "starting") this.jobs.put({ id: `mcp.${name}`, title: t.startingServer(name), step: "", target: serverAt(name) });
        else this.jobs.remove(`mcp.${name}`);
        this.#changed(name);
      }),
      this.#rpc.on("mcp.tools_changed", ({ name }) => this.#changed(name)),
      this.#rpc.on("mcp.auth_changed", ({ name, error }) => void (name === this.open.name && this.open.signedIn(error ?? ""))),
      this.#rpc.on("mcp.log", ({ name }) => void (name === this.open.name && this.open.lines.length > 0 && this.open.readLog())),
      this.#rpc.onReload(() => void this.open.read()),
    );
    void this.list.page.reload();
  }

  #changed(name: string): void {
    if (name === this.open.name && this.open.busy === "" && !this.open.tools.busy && !this.open.server.busy) void this.open.read();
  }

  /** Servers with tools that wait for approval. */
  get waiting(): number {
    return this.list.page.items.filter((s) => s.enabled && s.waiting > 0).length;
  }

  async save(): Promise<void> {
    const saved = await this.form.save();
    if (!saved) return;
    await this.list.page.reload();
    nav.go(serverAt(saved.name));
    if (this.open.name === saved.name) void this.open.read();
    for (const w of saved.warnings) this.#notify.add({ title: w, tone: "warn" });
  }

  async edit(name: string): Promise<void> {
    try {
      this.form.begin((await this.#rpc.call("mcp.server", { name })).server);
    } catch (e) {
      this.#notify.error(e, t.list.failed);
    }
  }

  async addImported(): Promise<void> {
    const added = await this.importing.add();
    if (!added) return;
    this.#notify.ok(t.imported(added.length));
    await this.list.page.reload();
    if (added[0]) nav.go(serverAt(added[0]));
  }

  async setEnabled(s: Row, enabled: boolean): Promise<void> {
    // Shown at once, so that the same key pressed again turns it back.
    this.list.put({ ...s, enabled });
    try {
      await this.#rpc.call("mcp.update", { name: s.name, patch: { enabled } }, { inOrder: s.name });
      await this.list.page.reload();
      if (this.open.name === s.name) void this.open.read();
    } catch (e) {
      this.list.put(s);
      this.#notify.error(e, t.notSaved(s.name));
    }
  }

  async stop(s: Row): Promise<void> {
    try {
      await this.#rpc.call("mcp.stop", { name: s.name });
    } catch (e) {
      this.#notify.error(e, t.stopFailed(s.name));
    }
    if (this.open.name === s.name) void this.open.read();
  }

  /** Starts a server that may not be the open one. */
  startServer(s: Row, how: "start" | "restart" = "start"): void {
    nav.go(serverAt(s.name));
    this.open.show(s.name);
    void this.open.start(how);
  }

  remove(s: Row): Promise<boolean> {
    let undoToken = "";
    return this.list.remove(
      s.name,
      {
        act: async () => void ({ undoToken } = await this.#rpc.call("mcp.remove", { name: s.name })),
        restore: () => this.#rpc.call("mcp.undo", { undoToken }),
        done: t.removed(s.name),
        failed: t.removeFailed(s.name),
      },
      this.#notify,
    );
  }

  async export(): Promise<string | null> {
    try {
      return (await this.#rpc.call("mcp.export", {})).content;
    } catch (e) {
      this.#notify.error(e, t.exportFailed);
      return null;
    }
  }
}
