import type { Rpc } from "../../../lib/rpc";
import type { Notify } from "../../../lib/ui/state";
import { ModuleForm } from "./form.svelte";
import { t } from "./messages";
import type { Module } from "./module";

/** Actions that only modules have: installing, editing and signing them. */
export class Modules {
  readonly form: ModuleForm;

  constructor(
    private readonly rpc: Rpc,
    private readonly notify: Pick<Notify, "ok" | "error" | "undo">,
    /** Reads the list and the shown tool again. */
    private readonly refresh: () => Promise<unknown>,
  ) {
    this.form = new ModuleForm(rpc);
  }

  /** Installs or saves the module in the form. Returns it, or null if it was refused. */
  async save(): Promise<Module | null> {
    const before = this.form.base;
    const replaced = this.form.replaces;
    const r = await this.form.save();
    if (r === null) return null;
    const { skill: module, suspended } = r;
    void this.refresh();
    if (before === null) {
      this.notify.ok(t.installed(module.name), module.capabilities.length === 0 ? t.needsNothing : t.asksFirst);
      return module;
    }
    const waits = suspended === 0 ? "" : t.permissionsWait(suspended);
    if (replaced) this.notify.ok(t.savedVersion(module.name, module.version), waits);
    else this.notify.undo(t.saved(module.name), () => this.#restore(before), waits);
    return module;
  }

  /** Restores the previous settings of a module. */
  async #restore(before: Module): Promise<void> {
    const { name, description, version, timeoutMs, memoryMb, capabilities, inputSchema } = before;
    await this.rpc.call("skills.update_wasm", { skillId: before.id, patch: { name, description, version, timeoutMs, memoryMb, capabilities, inputSchema } });
    await this.refresh();
  }

  /** Signs a module with the key of this device. */
  async sign(module: Pick<Module, "id" | "name">): Promise<void> {
    try {
      await this.rpc.call("skills.sign_wasm", { skillId: module.id });
      await this.refresh();
      this.notify.ok(t.signed(module.name), t.signedText);
    } catch (e) {
      this.notify.error(e, t.cannotSignIt(module.name));
    }
  }
}
