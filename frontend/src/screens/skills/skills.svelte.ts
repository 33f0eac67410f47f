import type { Rpc } from "../../lib/rpc";
import { promptOf, type PermissionPrompt } from "../../lib/run/prompt.svelte";
import type { Notify } from "../../lib/ui/state";
import { SkillForm } from "./form.svelte";
import { SkillInspector } from "./inspector.svelte";
import { wasmList } from "./list.svelte";
import { t } from "./messages";
import { SkillRun } from "./run.svelte";
import type { Skill } from "./types";

/** Finished runs that are remembered, one a skill. */
const MAX_RUNS = 20;

/**
 * The WASM tab as a whole: its parts, and what one part does for another. It outlives the
 * component, so that runs go on and a sheet keeps what is typed when another screen is shown.
 */
export class WasmScreen {
  readonly list: ReturnType<typeof wasmList>;
  readonly inspector: SkillInspector;
  readonly form: SkillForm;
  readonly prompt: PermissionPrompt;
  readonly #runs = new Map<string, SkillRun>();
  readonly #rpc: Rpc;
  readonly #notify: Omit<Notify, "add">;
  #started = false;

  constructor(rpc: Rpc, notify: Omit<Notify, "add">) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.list = wasmList(rpc);
    this.inspector = new SkillInspector(rpc);
    this.form = new SkillForm(rpc);
    this.prompt = promptOf(rpc);
    this.prompt.onAnswer((a) => {
      for (const run of this.#runs.values()) if (run.pendingApprovalId === a.approvalId) run.resumed();
      void this.inspector.readTab();
    });
  }

  /** Starts listening; once for the life of the program. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.list.start(this.#rpc, ["skills.wasm_changed", "sandbox.status_changed"]);
    this.inspector.start();
    this.#rpc.on("approvals.changed", (e) => void (e.status === "pending" && this.#maybePrompt(e.id)));
  }

  stop(): void {
    this.list.stop();
    this.inspector.stop();
  }

  /** Shows the prompt for an approval that one of this screen's runs waits for. */
  async #maybePrompt(id: string): Promise<void> {
    if (![...this.#runs.values()].some((r) => r.active)) return;
    await this.prompt.show(id, (asked) => {
      const run = [...this.#runs.values()].find((r) => r.active && ((r.executionId !== "" && r.executionId === asked.run.id) || r.skill?.id === asked.subject.id));
      run?.waitFor(asked.id);
      return run !== undefined;
    });
  }

  // — Runs —

  /** The run of a skill; made when it is first asked for. */
  runOf(id: string): SkillRun {
    const known = this.#runs.get(id);
    if (known !== undefined) return known;
    const run = new SkillRun(this.#rpc);
    for (const [old, r] of this.#runs) {
      if (this.#runs.size < MAX_RUNS) break;
      if (!r.active) this.#runs.delete(old);
    }
    this.#runs.set(id, run);
    return run;
  }

  /** Runs a skill and shows the prompt that it may leave behind. */
  async launch(skill: Skill, input: unknown): Promise<void> {
    const run = this.runOf(skill.id);
    await run.start(skill, input);
    if (run.pendingApprovalId !== "") await this.prompt.show(run.pendingApprovalId);
  }

  // — What can be done with a skill —

  /** Installs or saves what the sheet holds. Answers the skill, or null when it was refused. */
  async save(): Promise<Skill | null> {
    const before = this.form.base;
    const replaced = this.form.replaces;
    const r = await this.form.save();
    if (r === null) return null;
    void this.list.page.reload();
    if (this.inspector.id === r.skill.id) void this.inspector.readSkill();
    if (before === null) {
      this.#notify.ok(t.installed(r.skill.name), r.skill.capabilities.length === 0 ? t.needsNothing : t.asksFirst);
      return r.skill;
    }
    const waits = r.suspended === 0 ? "" : t.permissionsWait(r.suspended);
    if (replaced) this.#notify.ok(t.savedVersion(r.skill.name, r.skill.version), waits);
    else this.#notify.undo(t.saved(r.skill.name), () => this.#restore(before), waits);
    return r.skill;
  }

  /** Puts the decisions of a skill back to what they were. */
  async #restore(before: Skill): Promise<void> {
    const { name, description, version, timeoutMs, memoryMb, capabilities, inputSchema } = before;
    await this.#rpc.call("skills.update_wasm", { skillId: before.id, patch: { name, description, version, timeoutMs, memoryMb, capabilities, inputSchema } });
    await this.#after(before.id);
  }

  /** Enables or disables a skill, with Undo. */
  async setEnabled(skill: Skill, enabled: boolean): Promise<void> {
    const set = async (isEnabled: boolean): Promise<void> => {
      await this.#rpc.call("skills.update_wasm", { skillId: skill.id, patch: { isEnabled } });
      await this.#after(skill.id);
    };
    try {
      await set(enabled);
      this.#notify.undo(enabled ? t.enabled(skill.name) : t.disabled(skill.name), () => set(!enabled));
    } catch (e) {
      this.#notify.error(e, enabled ? t.cannotEnable(skill.name) : t.cannotDisable(skill.name));
    }
  }

  /** Deletes a skill; Undo brings it back. */
  async remove(skill: Skill): Promise<void> {
    const params = { skillId: skill.id };
    await this.list.remove(
      skill.id,
      {
        act: () => this.#rpc.call("skills.delete_wasm", params),
        restore: () => this.#rpc.call("skills.restore_wasm", params),
        done: t.deleted(skill.name),
        text: skill.capabilities.length === 0 ? "" : t.permissionsRemoved,
        failed: t.cannotDelete(skill.name),
      },
      this.#notify,
    );
  }

  /** Signs the module with the key of this device. */
  async sign(skill: Skill): Promise<void> {
    try {
      await this.#rpc.call("skills.sign_wasm", { skillId: skill.id });
      await this.#after(skill.id);
      this.#notify.ok(t.signed(skill.name), t.signedText);
    } catch (e) {
      this.#notify.error(e, t.cannotSignIt(skill.name));
    }
  }

  /** Answers a missing right in place: shows the prompt that waits for it. */
  async answer(capability: string): Promise<void> {
    const id = await this.inspector.pendingFor(capability);
    if (id !== null) return this.prompt.show(id);
    if (this.inspector.error !== null) this.#notify.error(this.inspector.error);
    else this.#notify.ok(t.nothingWaits, t.nothingWaitsText);
  }

  async #after(id: string): Promise<void> {
    await Promise.all([this.list.page.reload(), this.inspector.id === id ? this.inspector.readSkill() : undefined]);
  }
}
