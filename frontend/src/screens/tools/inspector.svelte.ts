import { asError, type RpcError } from "../../lib/rpc/errors";
import { Load } from "../../lib/ui/load.svelte";
import type { Rpc } from "../../lib/rpc";
import { Permissions } from "../../lib/run/permissions.svelte";
import { isOpen } from "../../lib/run/states";
import { moduleKey } from "./address";
import { toolRuns, type ToolRuns } from "./history";
import { Sharing } from "../../lib/sharing/sharing.svelte";
import type { AuditEntry, Diff, Rights, StateEntry, Tool, UsageSummary, VersionInfo } from "./types";
import type { Module, Report } from "./wasm/module";

/** The tabs of the inspector, in their order. */
export const INSPECTOR_TABS = ["details", "permissions", "versions", "history", "audit", "state", "sharing"] as const;
export type InspectorTab = (typeof INSPECTOR_TABS)[number];
/** The tabs of a module. */
const MODULE_TABS: readonly InspectorTab[] = ["details", "permissions", "history"];

const EVENTS_MS = 60;

interface Versions {
  versions: readonly VersionInfo[];
  total: number;
}

interface Audit {
  entries: readonly AuditEntry[];
  verified: boolean;
  head: number;
}

interface Stored {
  entries: readonly StateEntry[];
  usedBytes: number;
  quotaBytes: number;
}

/**
 * Everything about the selected tool, of code or of a module. A tab is read when it is first shown, and again
 * after the backend reports a change.
 */
export class ToolInspector {
  /** The key of the shown tool in the address. */
  key = $state<string | null>(null);
  tab = $state<InspectorTab>("details");

  /** The tool, if it is code. */
  readonly tool = new Load<Tool>();
  /** The tool, if it is a module. */
  readonly module = new Load<Module>();
  /** The content of the module; null if it is not on this device. */
  readonly report = new Load<Report | null>();
  readonly rights = new Load<Rights>();
  readonly permissions: Permissions;
  readonly versions = new Load<Versions>();
  readonly diff = new Load<Diff>();
  /** The code of both compared versions. */
  codes = $state.raw<readonly [string, string] | null>(null);
  history = $state.raw<ToolRuns | null>(null);
  /** The summary of all runs that match the history's filter; modules have none. */
  summary = $state.raw<UsageSummary | null>(null);
  readonly audit = new Load<Audit>();
  readonly stored = new Load<Stored>();
  readonly sharing: Sharing;

  /** The two compared versions, the older first. */
  compare = $state.raw<readonly [string, string] | null>(null);
  /** Only the audit entries of this run; empty for all. */
  auditRun = $state("");
  /** Why the last action was refused. */
  error = $state.raw<RpcError | null>(null);
  moreBusy = $state(false);

  readonly #rpc: Rpc;
  readonly #offs: (() => void)[] = [];
  readonly #read = new Set<InspectorTab>();
  readonly #dirty = new Set<InspectorTab | "tool">();
  #pending: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.sharing = new Sharing(rpc, "tool");
    this.permissions = new Permissions(rpc);
  }

  get isModule(): boolean {
    return this.key?.startsWith(moduleKey("")) === true;
  }
  get id(): string | null {
    return this.key?.split("/").at(-1) ?? null;
  }
  get tabs(): readonly InspectorTab[] {
    return this.isModule ? MODULE_TABS : INSPECTOR_TABS;
  }
  /** The common fields of both kinds; null until it is read. */
  get shown(): Tool | Module | null {
    return (this.isModule ? this.module.data : this.tool.data) ?? null;
  }

  start(): void {
    if (this.#offs.length > 0) return;
    this.#offs.push(
      this.#rpc.on("tools.changed", (e) => {
        if (e.toolId === this.id) this.#soon("tool", ...changedTabs(e.kind));
      }),
      this.#rpc.on("tools.execution", (e) => {
        if (e.toolId === this.id && !isOpen(e.state)) this.#soon("tool", "history", "audit", "state");
      }),
      this.#rpc.on("tools.suspended", (e) => {
        if (e.toolId === this.id) this.#soon("tool", "permissions", "versions");
      }),
      this.#rpc.on("skills.wasm_changed", (e) => {
        if (e.skillId === this.id) this.#soon("tool", "details", "permissions");
      }),
      this.#rpc.on("skills.execution_changed", (e) => {
        if (e.skillId === this.id && !isOpen(e.status)) this.#soon("tool", "history");
      }),
      this.#rpc.on("approvals.changed", () => this.#soon("permissions", ...(this.isModule ? (["tool"] as const) : []))),
      this.#rpc.on("permissions.changed", (e) => {
        if (e.subjectId === this.id || !e.subjectId) this.#soon("permissions");
      }),
      this.#rpc.onReload(() => this.#soon("tool", ...INSPECTOR_TABS)),
    );
  }

  stop(): void {
    for (const off of this.#offs.splice(0)) off();
    clearTimeout(this.#pending);
  }

  /** Shows a tool, or nothing. */
  show(key: string | null): void {
    if (key === this.key) return;
    this.key = key;
    this.#read.clear();
    this.#dirty.clear();
    for (const load of [this.tool, this.module, this.report, this.rights, this.versions, this.diff, this.audit, this.stored, this.sharing.shares]) load.clear();
    this.compare = null;
    this.codes = null;
    this.auditRun = "";
    this.error = null;
    this.summary = null;
    const { id, isModule } = this;
    this.permissions.show(id === null ? null : { kind: isModule ? "wasm" : "tool", id });
    this.history = id === null ? null : toolRuns(this.#rpc, { id, isModule }, (s) => (this.summary = s));
    if (!this.tabs.includes(this.tab)) this.tab = "details";
    if (id === null) return;
    void this.readTool();
    this.#readTab();
  }

  setTab(tab: InspectorTab): void {
    if (!this.tabs.includes(tab)) return;
    this.tab = tab;
    if (this.key !== null) this.#readTab();
  }

  #readTab(): void {
    if (this.#read.has(this.tab)) return;
    this.#read.add(this.tab);
    void this.readTab(this.tab);
  }

  /** Reads a tab again. */
  async readTab(tab: InspectorTab): Promise<void> {
    switch (tab) {
      case "details":
        return this.isModule ? this.readReport() : this.readRights();
      case "permissions":
        await Promise.all([this.isModule ? undefined : this.readRights(), this.permissions.read()]);
        return;
      case "versions":
        return this.readVersions();
      case "history":
        return this.history?.page.reload();
      case "audit":
        return this.readAudit();
      case "state":
        return this.readState();
      case "sharing":
        if (this.id !== null) await this.sharing.read(this.id);
    }
  }

  #soon(...what: (InspectorTab | "tool")[]): void {
    if (this.id === null) return;
    for (const w of what) this.#dirty.add(w);
    clearTimeout(this.#pending);
    this.#pending = setTimeout(() => {
      const dirty = [...this.#dirty];
      this.#dirty.clear();
      for (const w of dirty) {
        if (w === "tool") void this.readTool();
        else if (w === this.tab) void this.readTab(w);
        else this.#read.delete(w);
      }
    }, EVENTS_MS);
  }

  async readTool(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    if (this.isModule) await this.module.run(async (signal) => (await this.#rpc.call("skills.get_wasm", { skillId: id }, { signal })).skill);
    else await this.tool.run(async (signal) => (await this.#rpc.call("tools.get", { toolId: id }, { signal })).tool);
  }

  /** Reads the module's content again. */
  async readReport(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.report.run(async (signal) => (await this.#rpc.call("skills.get_wasm", { skillId: id, report: true }, { signal })).report ?? null);
  }

  async readRights(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.rights.run((signal) => this.#rpc.call("tools.capabilities", { toolId: id }, { signal }));
  }

  // — Versions —

  async readVersions(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.versions.run((signal) => this.#rpc.call("tools.versions", { toolId: id, limit: 50 }, { signal }));
    const v = this.versions.data?.versions ?? [];
    if (this.compare === null && v.length > 1) await this.setCompare(v[1]!.version, v[0]!.version);
    else if (this.compare !== null) await this.setCompare(...this.compare);
  }

  /** Reads versions before the oldest one shown. */
  async moreVersions(): Promise<void> {
    const id = this.id;
    const now = this.versions.data;
    const last = now?.versions.at(-1);
    if (id === null || now === undefined || last === undefined) return;
    await this.#more(async () => {
      const page = await this.#rpc.call("tools.versions", { toolId: id, limit: 50, before: last.createdAt });
      this.versions.data = { total: page.total, versions: [...now.versions, ...page.versions] };
    });
  }

  /** Compares two versions. */
  async setCompare(from: string, to: string): Promise<void> {
    const id = this.id;
    if (id === null) return;
    this.compare = [from, to];
    this.codes = null;
    await this.diff.run((signal) => this.#rpc.call("tools.diff", { toolId: id, from, to }, { signal }));
    // Another pair or another tool may have been selected meanwhile.
    const current = (): boolean => this.id === id && this.compare?.[0] === from && this.compare[1] === to;
    const diff = this.diff.data;
    if (diff === undefined || !current()) return;
    if (diff.code === "") {
      this.codes = ["", ""];
      return;
    }
    // The diff contains only the changed lines; both texts show them in context.
    const r = await this.#act(() => Promise.all([from, to].map((version) => this.#rpc.call("tools.get", { toolId: id, version }))));
    if (r !== null && current()) this.codes = [r[0]!.tool.code, r[1]!.tool.code];
  }

  /** Makes the definition of an old version the newest again. */
  async rollback(version: string): Promise<{ tool: Tool; suspended: number } | null> {
    const id = this.id;
    if (id === null) return null;
    const r = await this.#act(() => this.#rpc.call("tools.rollback", { toolId: id, version }));
    if (r === null) return null;
    this.tool.data = r.tool;
    this.compare = null;
    void this.readVersions();
    return { tool: r.tool, suspended: r.suspendedGrants.length };
  }

  /** Shows the entries of a run in the audit log. */
  auditOf(runId: string): void {
    this.auditRun = runId;
    this.#read.delete("audit");
    this.setTab("audit");
  }

  // — Audit —

  async readAudit(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.audit.run((signal) => this.#rpc.call("tools.audit", { ...this.#auditOf(id), limit: 100 }, { signal }));
  }

  #auditOf(id: string) {
    return { toolId: id, ...(this.auditRun === "" ? {} : { executionId: this.auditRun }) };
  }

  setAuditRun(runId: string): void {
    this.auditRun = runId;
    void this.readAudit();
  }

  async moreAudit(): Promise<void> {
    const id = this.id;
    const now = this.audit.data;
    const last = now?.entries.at(-1);
    if (id === null || now === undefined || last === undefined) return;
    await this.#more(async () => {
      const page = await this.#rpc.call("tools.audit", { ...this.#auditOf(id), limit: 100, beforeSeq: last.seq });
      this.audit.data = { ...page, entries: [...now.entries, ...page.entries] };
    });
  }

  /** The shown entries as JSON lines, for a file. */
  auditLines(): string {
    return (this.audit.data?.entries ?? []).map((e) => JSON.stringify(e)).join("\n") + "\n";
  }

  // — State —

  async readState(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.stored.run((signal) => this.#rpc.call("tools.state", { toolId: id }, { signal }));
  }

  /** Clears the tool's state, all or one key. Returns a function that undoes this. */
  async clearState(key?: string): Promise<(() => Promise<void>) | null> {
    const id = this.id;
    if (id === null) return null;
    const r = await this.#act(() => this.#rpc.call("tools.state_clear", { toolId: id, ...(key === undefined ? {} : { key }) }));
    if (r === null) return null;
    void this.readState();
    return async () => {
      await this.#rpc.call("tools.state_restore", { undoToken: r.undoToken });
      if (this.id === id) await this.readState();
    };
  }

  // — Signature —

  /** Signs the tool with this device's key. */
  async sign(): Promise<string | null> {
    const id = this.id;
    if (id === null) return null;
    const r = await this.#act(() => this.#rpc.call("tools.sign", { toolId: id }));
    if (r !== null) void this.readTool();
    return r?.fingerprint ?? null;
  }

  /** Trusts, or no longer trusts, the key that signed this tool. */
  async trustSigner(trusted: boolean): Promise<boolean> {
    const s = this.tool.data?.signature;
    if (s?.publicKey === undefined) return false;
    const publicKey = s.publicKey;
    const r = await this.#act(() => this.#rpc.call("tools.trust_signer", { publicKey, name: s.signer ?? "", trusted }));
    if (r !== null) void this.readTool();
    return r !== null;
  }

  async #act<T>(fn: () => Promise<T>): Promise<T | null> {
    this.error = null;
    try {
      return await fn();
    } catch (e) {
      this.error = asError(e);
      return null;
    }
  }

  async #more(fn: () => Promise<void>): Promise<void> {
    if (this.moreBusy) return;
    this.moreBusy = true;
    await this.#act(fn);
    this.moreBusy = false;
  }
}

function changedTabs(kind: string): InspectorTab[] {
  switch (kind) {
    case "state":
      return ["state"];
    case "shared":
    case "unshared":
      return ["sharing"];
    case "updated":
      return ["versions", "permissions", "details"];
    default:
      return ["permissions", "details"];
  }
}
