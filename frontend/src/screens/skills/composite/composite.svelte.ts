import { common } from "../../../lib/i18n/common";
import { asError, type RpcError } from "../../../lib/rpc/errors";
import type { Rpc } from "../../../lib/rpc";
import { promptOf, type PermissionPrompt } from "../../../lib/run/prompt.svelte";
import type { Notify } from "../../../lib/ui/state";
import { t } from "../messages";
import { RunFeed } from "./feed.svelte";
import { dropRuns, pinRun } from "./history";
import { CompositeInspector } from "./inspector.svelte";
import { SkillList } from "./list.svelte";
import { SkillExport, SkillImport, SkillTemplates } from "./sharing.svelte";
import { RunStart } from "./start.svelte";
import type { Execution, Meta, Template, Version } from "./types";

/** Actions that wait for ten seconds, because they cannot be undone. */
export interface Defer {
  deferred(act: { title: string; text?: string; commit(): Promise<unknown> | void; revert(): void }): void;
}

/** The maximum number of runs kept while others are viewed, and of skills whose form is kept. */
const MAX_FEEDS = 8;
const MAX_STARTS = 20;

/**
 * The Skills tab as a whole: its parts, and their interaction. It outlives the component, so that a run is
 * followed and a form keeps its input when another screen is shown.
 */
export class CompositeScreen {
  readonly list: SkillList;
  readonly inspector: CompositeInspector;
  readonly importing: SkillImport;
  readonly exporting: SkillExport;
  readonly templates: SkillTemplates;
  readonly prompt: PermissionPrompt;
  readonly #feeds = new Map<string, RunFeed>();
  readonly #starts = new Map<string, RunStart>();
  readonly #rpc: Rpc;
  readonly #notify: Omit<Notify, "add"> & Defer;
  #started = false;

  constructor(rpc: Rpc, notify: Omit<Notify, "add"> & Defer) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.list = new SkillList(rpc);
    this.inspector = new CompositeInspector(rpc);
    this.importing = new SkillImport(rpc);
    this.exporting = new SkillExport(rpc);
    this.templates = new SkillTemplates(rpc);
    this.prompt = promptOf(rpc);
    this.prompt.onAnswer(() => {
      void this.inspector.readRights();
      for (const feed of this.#feeds.values()) if (!feed.over) void feed.refresh();
    });
  }

  /** Starts listening; once for the lifetime of the program. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.list.listen();
    this.inspector.start();
  }

  stop(): void {
    this.list.stop();
    this.inspector.stop();
    for (const feed of this.#feeds.values()) feed.close();
  }

  // — Runs —

  /** The input for a skill; created on first use. */
  startOf(skillId: string): RunStart {
    const known = this.#starts.get(skillId);
    if (known) return known;
    const made = new RunStart(this.#rpc);
    for (const old of this.#starts.keys()) {
      if (this.#starts.size < MAX_STARTS) break;
      this.#starts.delete(old);
    }
    this.#starts.set(skillId, made);
    return made;
  }

  /** The followed run; it is read and followed from first use. */
  feed(executionId: string): RunFeed {
    const known = this.#feeds.get(executionId);
    if (known) return known;
    const feed = new RunFeed(this.#rpc, executionId);
    this.#keep(feed);
    void feed.open();
    return feed;
  }

  #keep(feed: RunFeed): void {
    for (const [id, old] of this.#feeds) {
      if (this.#feeds.size < MAX_FEEDS) break;
      old.close();
      this.#feeds.delete(id);
    }
    this.#feeds.set(feed.id, feed);
  }

  /** Starts a run or a dry run of a skill; returns the run to show, or null if it was refused. */
  async launch(skill: Meta, input: unknown): Promise<string | null> {
    const start = this.startOf(skill.skillId);
    if (!start.dry) return start.run(skill, input);
    const recorded = start.fromLast && skill.lastExecutionId ? skill.lastExecutionId : null;
    const result = await start.rehearse(skill, input, recorded);
    if (result === null) return null;
    this.#keep(RunFeed.ofResult(result, { skillName: skill.name, version: skill.version, versionId: skill.versionId, skill: { steps: skill.steps }, createdAt: new Date().toISOString() }));
    return result.executionId;
  }

  /** Makes a dry run with the results of a run. */
  async rehearse(skill: Meta, run: Execution): Promise<string | null> {
    const start = this.startOf(skill.skillId);
    const result = await start.rehearse(skill, run.input, run.executionId);
    if (result === null) {
      if (start.error) this.#notify.error(start.error, t.cannotDryRun);
      return null;
    }
    this.#keep(RunFeed.ofResult(result, { skillName: skill.name, version: skill.version, versionId: skill.versionId, skill: { steps: skill.steps }, createdAt: new Date().toISOString() }));
    return result.executionId;
  }

  /** Runs again from a step, with the results of the previous steps; returns the new run, or why it was refused. */
  async restart(run: Execution, fromStepId: string, more: { versionId?: string; input?: unknown } = {}): Promise<string | RpcError> {
    try {
      const { executionId, warnings } = await this.#rpc.call("skills.restart", { executionId: run.executionId, fromStepId, ...more });
      this.#notify.ok(t.restarted(fromStepId), warnings.join(" "));
      return executionId;
    } catch (e) {
      return asError(e);
    }
  }

  /** The skill and the run of an execution, for links that contain only the run. */
  async locate(executionId: string): Promise<string | null> {
    try {
      return (await this.#rpc.call("skills.get_execution", { executionId })).skillId ?? null;
    } catch (e) {
      this.#notify.error(e, t.cannotOpenRun);
      return null;
    }
  }

  // — Actions on a skill —

  /** Enables or disables a skill, with Undo. */
  async setEnabled(skill: Meta, enabled: boolean): Promise<void> {
    const set = async (isEnabled: boolean): Promise<void> => {
      await this.#rpc.call("skills.update_composite", { skill: { skillId: skill.skillId, isEnabled } }, { inOrder: skill.skillId });
      await this.#after(skill.skillId);
    };
    try {
      await set(enabled);
      this.#notify.undo(enabled ? t.enabled(skill.name) : t.disabled(skill.name), () => set(!enabled));
    } catch (e) {
      await this.#after(skill.skillId);
      this.#notify.error(e, enabled ? t.cannotEnable(skill.name) : t.cannotDisable(skill.name));
    }
  }

  /** Deletes a skill; Undo restores it. */
  async remove(skill: Meta): Promise<void> {
    const params = { skillId: skill.skillId };
    const schedules = this.list.schedulesOf(skill).length;
    await this.list.remove(
      skill.skillId,
      {
        act: () => this.#rpc.call("skills.delete_composite", params),
        restore: () => this.#rpc.call("skills.restore_composite", params),
        done: common.movedToTrash(skill.name),
        trash: true,
        text: schedules === 0 ? "" : t.schedulesLeft(schedules),
        failed: t.cannotDelete(skill.name),
      },
      this.#notify,
    );
  }

  /** Creates a private copy; returns it, or null if it was refused. */
  async clone(skill: Meta): Promise<Meta | null> {
    try {
      const copy = await this.#rpc.call("skills.clone_composite", { skillId: skill.skillId });
      await this.list.page.reload();
      this.#notify.ok(t.created(copy.name), t.createdDisabled);
      return copy;
    } catch (e) {
      this.#notify.error(e, t.cannotCopy(skill.name));
      return null;
    }
  }

  /** Creates a skill from a template, with the template's sample as input; null if it was refused. */
  async use(template: Template): Promise<Meta | null> {
    const skill = await this.templates.make(template);
    if (skill === null) return null;
    const start = this.startOf(skill.skillId);
    start.params = template.sampleInput ?? {};
    await this.list.page.reload();
    this.#notify.ok(t.created(skill.name), template.tools.length === 0 ? "" : t.withTools(template.tools));
    return skill;
  }

  /** Creates a skill from the first template; null if it was refused. */
  async tryTemplate(): Promise<Meta | null> {
    if (this.templates.list.data === undefined) await this.templates.read();
    const template = this.templates.list.data?.[0];
    const skill = template ? await this.use(template) : null;
    const error = this.templates.list.error ?? this.templates.error;
    if (error) this.#notify.error(error, t.templateFailed);
    return skill;
  }

  /** Makes an old definition the current one, as a new version. Undo restores the present one. */
  async rollback(skill: Meta, version: Version): Promise<void> {
    const now = skill.versionId;
    const to = async (versionId: string): Promise<Meta> => {
      const made = await this.#rpc.call("skills.rollback", { skillId: skill.skillId, versionId });
      await this.#after(skill.skillId);
      await this.inspector.readVersions();
      return made;
    };
    try {
      const made = await to(version.versionId);
      const newest = this.inspector.versions.data?.[0];
      if (newest) this.inspector.look(newest.versionId);
      this.#notify.undo(t.rolledBack(skill.name, version.version), () => to(now), t.savedAs(made.version));
    } catch (e) {
      this.#notify.error(e, t.cannotRollBack(skill.name));
    }
  }

  /** Pins a run, which protects it from removal, or unpins it. */
  async pin(run: Execution, pinned: boolean): Promise<void> {
    try {
      await pinRun(this.#rpc, this.inspector.history, run, pinned);
    } catch (e) {
      this.#notify.error(e, pinned ? t.noLongerPinned : t.stillPinned);
    }
  }

  /** Removes runs that have ended, after ten seconds in which this can be canceled. */
  purge(before: string | null, title: string): void {
    const { history, id } = this.inspector;
    if (history === null || id === null) return;
    const commit = async (): Promise<void> => {
      await this.#rpc.call("skills.purge_history", { skillId: id, ...(before === null ? {} : { before }) });
      await history.page.reload();
    };
    this.#notify.deferred({ title, text: t.pinnedStay, commit, revert: dropRuns(history, before) });
  }

  async #after(id: string): Promise<void> {
    await Promise.all([this.list.page.reload(), this.inspector.id === id ? this.inspector.readSkill() : undefined]);
  }
}
