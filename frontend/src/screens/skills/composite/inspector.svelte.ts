import type { Rpc } from "../../../lib/rpc";
import { Sharing } from "../../../lib/sharing/sharing.svelte";
import { Load } from "../../../lib/ui/state";
import { skillRuns, type SkillRuns } from "./history";
import type { Meta, RightsPreview, Version, VersionDiff } from "./types";

export type CompositeTab = "run" | "timeline" | "versions" | "history" | "sharing" | "details";

/** Everything about the selected skill: its details, its permissions, its versions and its runs. */
export class CompositeInspector {
  id = $state<string | null>(null);
  tab = $state<CompositeTab>("run");
  /** The run in the timeline; null is the last one. */
  executionId = $state<string | null>(null);
  readonly skill = new Load<Meta>();
  readonly rights = new Load<RightsPreview>();
  readonly versions = new Load<readonly Version[]>();
  readonly diff = new Load<VersionDiff>();
  readonly sharing: Sharing;
  history = $state.raw<SkillRuns | null>(null);
  /** Total size of the history in bytes. */
  historyBytes = $state(0);
  /** The older and the newer version that are compared. */
  from = $state<string | null>(null);
  to = $state<string | null>(null);

  readonly #rpc: Rpc;
  readonly #offs: (() => void)[] = [];
  #soon: ReturnType<typeof setTimeout> | undefined;
  #stale = new Set<string>();

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.sharing = new Sharing(rpc, "skill");
  }

  start(): void {
    if (this.#offs.length > 0) return;
    this.#offs.push(
      this.#rpc.on("skills.changed", (e) => {
        if (e.skillId === this.id) this.#again(...(e.change === "used" ? ["skill"] : ["skill", "permissions", "versions"]));
      }),
      this.#rpc.on("skills.run_event", (e) => {
        if (e.type === "run.finished" || e.type === "run.waiting" || e.type === "run.created") this.#again("skill", "history");
      }),
      this.#rpc.on("permissions.changed", () => this.#again("permissions")),
      this.#rpc.on("tools.changed", () => this.#again("permissions")),
      this.#rpc.onReload(() => this.#again("skill", "permissions", "versions", "history")),
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
    for (const load of [this.skill, this.rights, this.versions, this.diff, this.sharing.shares]) load.clear();
    this.from = this.to = null;
    this.history = id === null ? null : skillRuns(this.#rpc, id, (bytes) => (this.historyBytes = bytes));
    this.#stale.clear();
    if (id === null) return;
    void this.readSkill();
    void this.readTab();
  }

  setTab(tab: CompositeTab): void {
    if (tab === this.tab) return;
    this.tab = tab;
    void this.readTab();
  }

  /** Reads the data of a tab, unless it is loaded. */
  async readTab(): Promise<void> {
    if (this.id === null) return;
    if ((this.tab === "run" || this.tab === "details") && this.rights.data === undefined) await this.readRights();
    if (this.tab === "versions" && this.versions.data === undefined) await this.readVersions();
    if (this.tab === "sharing" && this.sharing.shares.data === undefined) await this.sharing.read(this.id);
    if (this.tab === "history" && this.history?.page.first) await this.history.page.reload();
  }

  /** Several consecutive changes cause one read; hidden data is read when it is shown. */
  #again(...what: string[]): void {
    for (const w of what) this.#stale.add(w);
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => {
      const stale = this.#stale;
      this.#stale = new Set();
      if (this.id === null) return;
      if (stale.has("skill")) void this.readSkill();
      if (stale.has("permissions")) this.tab === "run" || this.tab === "details" ? void this.readRights() : (this.rights.data = undefined);
      if (stale.has("versions")) this.tab === "versions" ? void this.readVersions() : (this.versions.data = undefined);
      if (stale.has("history")) void (this.tab === "history" && this.history?.page.reload());
    }, 80);
  }

  async readSkill(): Promise<void> {
    const skillId = this.id;
    if (skillId === null) return;
    await this.skill.run((signal) => this.#rpc.call("skills.get_metadata", { skillId }, { signal }));
  }

  /** The permissions that a run would need now. */
  async readRights(): Promise<void> {
    const skillId = this.id;
    if (skillId === null) return;
    await this.rights.run((signal) => this.#rpc.call("skills.preview_rights", { skillId }, { signal }));
  }

  async readVersions(): Promise<void> {
    const skillId = this.id;
    if (skillId === null) return;
    await this.versions.run(async (signal) => (await this.#rpc.call("skills.list_versions", { skillId }, { signal })).versions);
    const list = this.versions.data ?? [];
    // The compared versions may be gone; then the newest is compared with the previous one.
    if (!list.some((v) => v.versionId === this.to)) this.#pair(list, 0);
    await this.readDiff();
  }

  #pair(list: readonly Version[], at: number): void {
    this.to = list[at]?.versionId ?? null;
    this.from = list[at + 1]?.versionId ?? null;
  }

  /** Shows what a version changed. */
  look(versionId: string): void {
    const list = this.versions.data ?? [];
    this.#pair(list, list.findIndex((v) => v.versionId === versionId));
    void this.readDiff();
  }

  /** Compares with another version than the previous one. */
  compare(from: string): void {
    this.from = from;
    void this.readDiff();
  }

  async readDiff(): Promise<void> {
    const { from, to } = this;
    if (from === null || to === null) {
      this.diff.cancel();
      this.diff.data = undefined;
      this.diff.error = undefined;
      return;
    }
    await this.diff.run((signal) => this.#rpc.call("skills.diff_versions", { from, to }, { signal }));
  }
}
