import { asError, type RpcError } from "../../lib/rpc/errors";
import { Load } from "../../lib/ui/load.svelte";
import type { Rpc } from "../../lib/rpc";
import { isOpen } from "../../lib/run/states";
import { ToolSharing } from "./sharing.svelte";
import type { Approval, AuditEntry, Diff, HeldDenial, HeldGrant, Preview, Rights, StateEntry, Tool, UsageEntry, UsageSummary, VersionInfo } from "./types";

/** The tabs of the inspector, in their order. */
export const INSPECTOR_TABS = ["details", "permissions", "versions", "history", "audit", "state", "sharing"] as const;
export type InspectorTab = (typeof INSPECTOR_TABS)[number];

const EVENTS_MS = 60;

interface Held {
  grants: readonly HeldGrant[];
  denials: readonly HeldDenial[];
}

interface Versions {
  versions: readonly VersionInfo[];
  total: number;
}

interface Usage {
  entries: readonly UsageEntry[];
  summary: UsageSummary;
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
 * Everything about the selected tool. A tab is read when it is first looked at, and again
 * when the backend says that something about it changed.
 */
export class ToolInspector {
  id = $state<string | null>(null);
  tab = $state<InspectorTab>("details");

  readonly tool = new Load<Tool>();
  readonly rights = new Load<Rights>();
  readonly preview = new Load<Preview>();
  readonly held = new Load<Held>();
  readonly versions = new Load<Versions>();
  readonly diff = new Load<Diff>();
  /** The code of both versions that are compared. */
  codes = $state.raw<readonly [string, string] | null>(null);
  readonly usage = new Load<Usage>();
  readonly audit = new Load<Audit>();
  readonly stored = new Load<Stored>();
  readonly sharing: ToolSharing;

  /** The two versions that are compared, the older first. */
  compare = $state.raw<readonly [string, string] | null>(null);
  /** The run whose parameters, output and logs are shown. */
  runId = $state<string | null>(null);
  usageStatus = $state<"" | "success" | "failure" | "timeout">("");
  /** Only the audit entries of this run; empty for all. */
  auditRun = $state("");
  /** Why the last action in here was refused. */
  error = $state.raw<RpcError | null>(null);
  moreBusy = $state(false);

  readonly #rpc: Rpc;
  readonly #offs: (() => void)[] = [];
  readonly #read = new Set<InspectorTab>();
  readonly #dirty = new Set<InspectorTab | "tool">();
  #pending: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.sharing = new ToolSharing(rpc);
  }

  readonly run = $derived(this.usage.data?.entries.find((e) => e.id === this.runId) ?? null);

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
      this.#rpc.on("approvals.changed", () => this.#soon("permissions")),
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
  show(id: string | null): void {
    if (id === this.id) return;
    this.id = id;
    this.#read.clear();
    this.#dirty.clear();
    for (const load of [this.tool, this.rights, this.preview, this.held, this.versions, this.diff, this.usage, this.audit, this.stored]) forget(load);
    forget(this.sharing.shares);
    this.compare = null;
    this.codes = null;
    this.runId = null;
    this.auditRun = "";
    this.usageStatus = "";
    this.error = null;
    if (id === null) return;
    void this.readTool();
    this.#readTab();
  }

  setTab(tab: InspectorTab): void {
    this.tab = tab;
    if (this.id !== null) this.#readTab();
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
      case "permissions":
        await Promise.all([this.readRights(), ...(tab === "permissions" ? [this.readPreview(), this.readHeld()] : [])]);
        return;
      case "versions":
        return this.readVersions();
      case "history":
        return this.readUsage();
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
    await this.tool.run(async (signal) => (await this.#rpc.call("tools.get", { toolId: id }, { signal })).tool);
  }

  async readRights(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.rights.run((signal) => this.#rpc.call("tools.capabilities", { toolId: id }, { signal }));
  }

  async readPreview(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.preview.run((signal) => this.#rpc.call("permissions.preview", { subject: { kind: "tool", id } }, { signal }));
  }

  /** Reads the grants and remembered refusals that are in force or suspended. */
  async readHeld(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.held.run(async (signal) => {
      const r = await this.#rpc.call("permissions.list", { subjectId: id, limit: 100 }, { signal });
      const live = (r.grants as HeldGrant[]).filter((g) => g.state === "active" || g.state === "suspended");
      return { grants: live, denials: r.denials };
    });
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

  /** Reads the versions before the oldest that is shown. */
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
    // Meanwhile another pair or another tool can have been chosen.
    const current = (): boolean => this.id === id && this.compare?.[0] === from && this.compare[1] === to;
    const diff = this.diff.data;
    if (diff === undefined || !current()) return;
    if (diff.code === "") {
      this.codes = ["", ""];
      return;
    }
    // The diff holds the changed lines only; both texts show them in their place.
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

  // — Runs —

  async readUsage(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    const status = this.usageStatus;
    await this.usage.run((signal) => this.#rpc.call("tools.usage", { toolId: id, limit: 100, ...(status === "" ? {} : { status }) }, { signal }));
  }

  setUsageStatus(status: "" | "success" | "failure" | "timeout"): void {
    this.usageStatus = status;
    this.runId = null;
    void this.readUsage();
  }

  /** Reads the runs before the oldest that is shown. */
  async moreUsage(): Promise<void> {
    const id = this.id;
    const now = this.usage.data;
    const last = now?.entries.at(-1);
    if (id === null || now === undefined || last === undefined) return;
    const status = this.usageStatus;
    await this.#more(async () => {
      const page = await this.#rpc.call("tools.usage", { toolId: id, limit: 100, before: last.timestamp, ...(status === "" ? {} : { status }) });
      this.usage.data = { summary: now.summary, entries: [...now.entries, ...page.entries] };
    });
  }

  /** Jumps from a run to its entries in the audit log. */
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

  /** The entries that are shown as JSON lines, for a file. */
  auditLines(): string {
    return (this.audit.data?.entries ?? []).map((e) => JSON.stringify(e)).join("\n") + "\n";
  }

  // — State —

  async readState(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.stored.run((signal) => this.#rpc.call("tools.state", { toolId: id }, { signal }));
  }

  /** Clears what the tool remembers, all or one key. Answers how to take it back. */
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

  // — Rights —

  /** The approval that waits for this capability; null when none does. */
  async pendingFor(capability: string): Promise<string | null> {
    const id = this.id;
    if (id === null) return null;
    const r = await this.#act(() => this.#rpc.call("approvals.list", { subjectId: id, status: "pending", limit: 100 }));
    if (r === null) return null;
    const list = r.approvals as Approval[];
    const hit = list.find((a) => a.requested.some((q) => q.capability === capability || `${q.capability}(${q.resource})` === capability));
    return hit?.id ?? list[0]?.id ?? null;
  }

  /** Takes a granted right back. Answers how to give it again. */
  async revoke(grantId: string): Promise<(() => Promise<void>) | null> {
    const r = await this.#act(() => this.#rpc.call("permissions.revoke", { grantId }));
    if (r === null) return null;
    void this.readTab("permissions");
    return async () => {
      await this.#rpc.call("permissions.revoke", { undoToken: r.undoToken });
      await this.readTab("permissions");
    };
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

function forget(load: { cancel(): void; data: unknown; error: unknown }): void {
  load.cancel();
  load.data = undefined;
  load.error = undefined;
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
