import { asError, type RpcError } from "../../lib/rpc/errors";
import type { Item, Result, Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import type { Execution, Report, Skill, Status } from "./types";

export type InspectorTab = "run" | "details" | "permissions" | "history";
export type HistoryFilter = "" | Exclude<Status, "running">;

const PAGE = 50;

/** Everything about the skill that is chosen: its details, its rights and its runs. */
export class SkillInspector {
  id = $state<string | null>(null);
  tab = $state<InspectorTab>("run");
  readonly skill = new Load<Skill>();
  readonly report = new Load<Report | null>();
  readonly preview = new Load<Result<"permissions.preview">>();
  readonly held = new Load<{ grants: readonly Item<"permissions.list", "grants">[]; denials: readonly Item<"permissions.list", "denials">[] }>();
  readonly history = new Load<{ executions: readonly Execution[]; more: boolean }>();
  status = $state<HistoryFilter>("");
  /** The run whose input and output are shown. */
  executionId = $state<string | null>(null);
  moreBusy = $state(false);
  /** Why the last act in here was refused. */
  error = $state.raw<RpcError | null>(null);

  readonly #rpc: Rpc;
  readonly #offs: (() => void)[] = [];
  #soon: ReturnType<typeof setTimeout> | undefined;
  #stale = new Set<"skill" | InspectorTab>();

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly execution = $derived(this.history.data?.executions.find((e) => e.id === this.executionId) ?? null);

  start(): void {
    if (this.#offs.length > 0) return;
    this.#offs.push(
      this.#rpc.on("skills.wasm_changed", (e) => {
        if (e.skillId === this.id) this.#again("skill", "details", "permissions");
      }),
      this.#rpc.on("skills.execution_changed", (e) => {
        if (e.skillId === this.id && e.status !== "running") this.#again("skill", "history");
      }),
      this.#rpc.on("approvals.changed", () => this.#again("permissions", "skill")),
      this.#rpc.on("permissions.changed", (e) => {
        if (e.subjectId === this.id || !e.subjectId) this.#again("permissions");
      }),
      this.#rpc.onReload(() => this.#again("skill", "details", "permissions", "history")),
    );
  }

  stop(): void {
    for (const off of this.#offs.splice(0)) off();
    clearTimeout(this.#soon);
  }

  /** Shows a skill, or nothing. */
  show(id: string | null): void {
    if (id === this.id) return;
    this.id = id;
    for (const load of [this.skill, this.report, this.preview, this.held, this.history]) {
      load.cancel();
      load.data = undefined;
      load.error = undefined;
    }
    this.executionId = null;
    this.status = "";
    this.error = null;
    this.#stale.clear();
    if (id === null) return;
    void this.readSkill();
    void this.readTab();
  }

  setTab(tab: InspectorTab): void {
    this.tab = tab;
    void this.readTab();
  }

  /** Reads what a tab shows, unless it is there. */
  async readTab(): Promise<void> {
    if (this.id === null) return;
    if (this.tab === "details" && this.report.data === undefined) await this.readReport();
    if (this.tab === "permissions" && this.preview.data === undefined) await this.readRights();
    if (this.tab === "history" && this.history.data === undefined) await this.readHistory();
  }

  /** Several changes in a row are one read; tabs that are not shown are read when they are. */
  #again(...what: ("skill" | InspectorTab)[]): void {
    for (const w of what) this.#stale.add(w);
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => {
      const stale = this.#stale;
      this.#stale = new Set();
      if (this.id === null) return;
      if (stale.has("skill")) void this.readSkill();
      if (stale.has("details")) this.tab === "details" ? void this.readReport() : (this.report.data = undefined);
      if (stale.has("permissions")) this.tab === "permissions" ? void this.readRights() : (this.preview.data = undefined);
      if (stale.has("history")) this.tab === "history" ? void this.readHistory() : (this.history.data = undefined);
    }, 50);
  }

  async readSkill(): Promise<void> {
    const skillId = this.id;
    if (skillId === null) return;
    await this.skill.run(async (signal) => (await this.#rpc.call("skills.get_wasm", { skillId }, { signal })).skill);
  }

  /** Looks at the module again; null when it is not on this device. */
  async readReport(): Promise<void> {
    const skillId = this.id;
    if (skillId === null) return;
    await this.report.run(async (signal) => (await this.#rpc.call("skills.get_wasm", { skillId, report: true }, { signal })).report ?? null);
  }

  async readRights(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await Promise.all([
      this.preview.run((signal) => this.#rpc.call("permissions.preview", { subject: { kind: "wasm", id } }, { signal })),
      this.held.run(async (signal) => {
        const r = await this.#rpc.call("permissions.list", { subjectId: id, limit: 100 }, { signal });
        return { grants: r.grants.filter((g) => g.state === "active" || g.state === "suspended"), denials: r.denials };
      }),
    ]);
  }

  async readHistory(): Promise<void> {
    const skillId = this.id;
    if (skillId === null) return;
    const limit = Math.min(100, Math.max(PAGE, this.history.data?.executions.length ?? 0));
    await this.history.run(async (signal) => {
      const r = await this.#rpc.call("skills.wasm_executions", { skillId, limit, ...(this.status === "" ? {} : { status: this.status }) }, { signal });
      return { executions: r.executions, more: r.more };
    });
  }

  /** Reads older runs. */
  async moreHistory(): Promise<void> {
    const skillId = this.id;
    const now = this.history.data;
    const before = now?.executions.at(-1)?.id;
    if (skillId === null || now === undefined || before === undefined || !now.more || this.moreBusy) return;
    this.moreBusy = true;
    try {
      const r = await this.#rpc.call("skills.wasm_executions", { skillId, limit: PAGE, before, ...(this.status === "" ? {} : { status: this.status }) });
      if (this.id !== skillId || this.history.data !== now) return;
      this.history.data = { executions: [...now.executions, ...r.executions], more: r.more };
    } catch (e) {
      this.error = asError(e);
    } finally {
      this.moreBusy = false;
    }
  }

  setStatus(status: HistoryFilter): void {
    this.status = status;
    this.executionId = null;
    void this.readHistory();
  }

  /** Takes a granted right back. Answers how to give it again, or null when it was refused. */
  async revoke(grantId: string): Promise<(() => Promise<void>) | null> {
    this.error = null;
    try {
      const { undoToken } = await this.#rpc.call("permissions.revoke", { grantId });
      void this.readRights();
      return async () => {
        await this.#rpc.call("permissions.revoke", { undoToken });
        await this.readRights();
      };
    } catch (e) {
      this.error = asError(e);
      return null;
    }
  }

  /** The request that a run waits for, or null. */
  async pendingFor(capability: string): Promise<string | null> {
    const id = this.id;
    if (id === null) return null;
    try {
      const { approvals } = await this.#rpc.call("approvals.list", { status: "pending", subjectId: id, limit: 50 });
      return approvals.find((a) => a.requested.some((r) => (r.resource === "" || r.capability.includes("(") ? r.capability : `${r.capability}(${r.resource})`) === capability))?.id ?? approvals[0]?.id ?? null;
    } catch (e) {
      this.error = asError(e);
      return null;
    }
  }
}
