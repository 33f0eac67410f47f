import { common } from "../../lib/i18n/common";
import { asError, type RpcError } from "../../lib/rpc/errors";
import type { Rpc } from "../../lib/rpc";
import { draftFrom, ToolEditor, type DraftStore } from "./editor.svelte";
import { ToolImport } from "./importing.svelte";
import { ToolInspector } from "./inspector.svelte";
import { Market, templateList, ToolList } from "./list.svelte";
import { t } from "./messages";
import { promptOf, type PermissionPrompt } from "../../lib/run/prompt.svelte";
import { ToolRun, type RunTarget } from "./run.svelte";
import { ToolSecrets } from "./secrets.svelte";
import type { Notify } from "../../lib/ui/state";
import { keyOf } from "./address";
import { limitsFor } from "./profiles";
import type { Approval, LogLine, Row, Template, Tool } from "./types";
import { limitsOf, type Module } from "./wasm/module";
import { Modules } from "./wasm/modules.svelte";

/** Saves a text as a file; the browser downloads it. */
export type SaveFile = (name: string, text: string) => void;

/** Asks where to save, in the window, whose web view cannot download. "" if the user cancels. */
export type PickFile = (title: string, name: string) => Promise<string>;

/** The number of finished runs that are kept, one per tool. */
const MAX_RUNS = 20;

/**
 * The Tools screen as a whole: its parts, and their interaction. It outlives the component, so that runs
 * continue and unsaved work is kept when another screen is shown.
 */
export class ToolsScreen {
  readonly list: ToolList;
  readonly market: Market;
  readonly templates: ReturnType<typeof templateList>;
  readonly inspector: ToolInspector;
  readonly editor: ToolEditor;
  readonly prompt: PermissionPrompt;
  readonly importing: ToolImport;
  readonly secrets: ToolSecrets;
  readonly modules: Modules;

  /** The run of the editor's draft. */
  readonly draftRun: ToolRun;
  /** The tool to open in the editor could not be read. */
  openError = $state.raw<RpcError | null>(null);
  opening = $state(false);

  readonly #runs = new Map<string, ToolRun>();
  readonly #rpc: Rpc;
  readonly #notify: Omit<Notify, "add">;
  readonly #save: SaveFile;
  readonly #pick: PickFile | null;
  #started = false;
  #prepared = false;

  constructor(rpc: Rpc, store: DraftStore, notify: Omit<Notify, "add">, save: SaveFile, pick: PickFile | null = null) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.#save = save;
    this.#pick = pick;
    this.list = new ToolList(rpc);
    this.market = new Market(rpc);
    this.templates = templateList(rpc);
    this.inspector = new ToolInspector(rpc);
    this.editor = new ToolEditor(rpc, store);
    this.prompt = promptOf(rpc);
    this.importing = new ToolImport(rpc);
    this.secrets = new ToolSecrets(rpc);
    this.modules = new Modules(rpc, notify, () => Promise.all([this.list.page.reload(), this.inspector.isModule ? this.inspector.readTool() : undefined]));
    this.draftRun = new ToolRun(rpc);
    this.prompt.onAnswer((a) => {
      const run = this.#allRuns().find((r) => r.pendingApprovalId === a.approvalId);
      if (run === undefined) return;
      run.resumed();
      if (a.runId !== "") void run.follow(a.runId);
      void this.inspector.readTab("permissions");
    });
  }

  /** Starts listening; once for the lifetime of the program. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.list.listen();
    this.market.start(this.#rpc, ["tools.changed"]);
    this.templates.start(this.#rpc, []);
    this.inspector.start();
    this.#rpc.on("approvals.changed", (e) => void (e.status === "pending" && this.#maybePrompt(e.id)));
    this.#rpc.on("tools.changed", (e) => {
      void this.editor.changedElsewhere(e.toolId);
    });
  }

  stop(): void {
    for (const part of [this.list, this.market, this.templates, this.inspector]) part.stop();
  }

  #allRuns(): ToolRun[] {
    return [this.draftRun, ...this.#runs.values()];
  }

  /** Shows the prompt for an approval that a run of this screen waits for. */
  async #maybePrompt(id: string): Promise<void> {
    if (!this.#allRuns().some((r) => r.active)) return;
    await this.prompt.show(id, (asked) => {
      const run = this.#runFor(asked);
      run?.waitFor(asked.id);
      return run !== undefined;
    });
  }

  #runFor(asked: Approval): ToolRun | undefined {
    const active = this.#allRuns().filter((r) => r.active);
    return (
      active.find((r) => r.executionId !== "" && r.executionId === asked.run.id) ??
      active.find((r) => r.target?.toolId !== undefined && r.target.toolId === asked.subject.id) ??
      active.find((r) => r.isDraft && asked.run.kind === "draft")
    );
  }

  // — Runs —

  /** The run of a tool; created on first use. */
  runOf(toolId: string): ToolRun {
    const known = this.#runs.get(toolId);
    if (known !== undefined) return known;
    const run = new ToolRun(this.#rpc);
    for (const [id, r] of this.#runs) {
      if (this.#runs.size < MAX_RUNS) break;
      if (!r.active) this.#runs.delete(id);
    }
    this.#runs.set(toolId, run);
    return run;
  }

  /** The log lines of a run, if it was the last run of its tool here; else null. */
  linesOf(executionId: string): readonly LogLine[] | null {
    return [...this.#runs.values()].find((r) => r.executionId === executionId)?.logs ?? null;
  }

  /** Cancels a run in the history. */
  async cancelRun(executionId: string): Promise<void> {
    try {
      await this.#rpc.call(this.inspector.isModule ? "skills.cancel" : "tools.cancel", { executionId });
    } catch (e) {
      this.#notify.error(e);
    }
  }

  /** Runs something and shows the prompt that it may leave behind. */
  async launch(run: ToolRun, target: RunTarget, params: unknown): Promise<void> {
    await run.start(target, params);
    if (run.pendingApprovalId !== "") await this.prompt.show(run.pendingApprovalId);
  }

  /**
   * Creates a tool from the first template that needs no permission, runs it with its sample, and returns its
   * id; null if that was refused.
   */
  async tryTemplate(): Promise<string | null> {
    try {
      const { templates } = await this.#rpc.call("tools.templates", {});
      const x = templates.find((x) => x.capabilities.length === 0);
      if (!x) return null;
      const { name, code, description, language, icon, sandboxProfile, samples } = draftFrom(x);
      const known = (await this.#rpc.call("tools.list", { query: name, limit: 100 })).tools.find((y) => y.name === name);
      const { tool } = known ? await this.#rpc.call("tools.get", { toolId: known.id }) : await this.#rpc.call("tools.create", { name, code, description, language, icon, sandboxProfile, samples, parameters: x.parameters });
      void this.launch(this.runOf(tool.id), this.targetOf(tool), x.sampleParams);
      return tool.id;
    } catch (e) {
      this.#notify.error(e, t.cannotTry);
      return null;
    }
  }

  /** The target for running a stored tool. */
  targetOf(tool: Tool | Module): RunTarget {
    if ("wasmSize" in tool) return { toolId: tool.id, isModule: true, name: tool.name, limits: limitsOf(tool) };
    return { toolId: tool.id, name: tool.name, profile: tool.sandboxProfile, limits: limitsFor(tool.sandboxProfile, tool.limits) };
  }

  /** The target for running the editor's text. */
  draftTarget(): RunTarget {
    const d = this.editor.draft;
    return {
      name: d.name || t.draft,
      profile: d.sandboxProfile,
      limits: limitsFor(d.sandboxProfile, d.limits),
      draft: {
        code: d.code,
        language: d.language,
        parameters: this.editor.schema ?? { type: "object" },
        capabilities: [...d.capabilities],
        sandboxProfile: d.sandboxProfile,
        ...(d.limits === null ? {} : { limits: { ...d.limits } }),
      },
    };
  }

  // — Actions on a tool —

  /** Opens a stored tool in the editor. */
  async edit(toolId: string): Promise<boolean> {
    this.openError = null;
    if (this.editor.base?.id === toolId) {
      // It is already open, for example because it was just saved for the first time.
      void this.editor.changedElsewhere(toolId);
      return true;
    }
    this.opening = true;
    try {
      const { tool } = await this.#rpc.call("tools.get", { toolId });
      this.draftRun.clear();
      this.editor.open(tool);
      return true;
    } catch (e) {
      this.openError = asError(e);
      return false;
    } finally {
      this.opening = false;
    }
  }

  /** Opens the editor on a new tool. */
  editNew(template?: Template): void {
    this.openError = null;
    // The address is applied after a template was used, and must not remove it again.
    const prepared = this.#prepared && this.editor.base === null;
    this.#prepared = template !== undefined;
    if (template === undefined && (prepared || (this.editor.base === null && this.editor.dirty))) return;
    this.draftRun.clear();
    this.editor.openNew(template === undefined ? undefined : draftFrom(template));
  }

  /** Deletes a tool; Undo restores it completely. */
  remove(tool: Pick<Row, "id" | "name" | "module">): Promise<boolean> {
    const code = { toolId: tool.id };
    const module = { skillId: tool.id };
    return this.list.remove(
      keyOf(tool),
      {
        act: () => (tool.module ? this.#rpc.call("skills.delete_wasm", module) : this.#rpc.call("tools.delete", code)),
        restore: () => (tool.module ? this.#rpc.call("skills.restore_wasm", module) : this.#rpc.call("tools.restore", code)),
        done: common.movedToTrash(tool.name),
        trash: true,
        ...(tool.module && tool.module.capabilities.length > 0 ? { text: t.permissionsRemoved } : {}),
        failed: t.cannotDelete(tool.name),
      },
      this.#notify,
    );
  }

  /** Creates a copy; returns it. */
  async clone(toolId: string): Promise<Tool | null> {
    try {
      const { tool } = await this.#rpc.call("tools.clone", { toolId });
      await this.list.page.reload();
      this.#notify.ok(t.created(tool.name), t.copyText);
      return tool;
    } catch (e) {
      this.#notify.error(e, t.cannotClone);
      return null;
    }
  }

  /** Enables or disables a tool, with Undo. */
  async setEnabled(tool: Pick<Row, "id" | "name" | "module">, enabled: boolean): Promise<void> {
    const set = async (on: boolean): Promise<void> => {
      if (tool.module) await this.#rpc.call("skills.update_wasm", { skillId: tool.id, patch: { isEnabled: on } }, { inOrder: tool.id });
      else await this.#rpc.call("tools.set_enabled", { toolId: tool.id, enabled: on }, { inOrder: tool.id });
      await Promise.all([this.list.page.reload(), this.inspector.key === keyOf(tool) ? this.inspector.readTool() : undefined]);
    };
    try {
      await set(enabled);
      this.#notify.undo(enabled ? t.enabledNamed(tool.name) : t.disabledNamed(tool.name), () => set(!enabled));
    } catch (e) {
      this.#notify.error(e, enabled ? t.cannotEnable(tool.name) : t.cannotDisable(tool.name));
    }
  }

  /** Signs the shown tool with this device's key. */
  async sign(): Promise<void> {
    if (await this.inspector.sign()) this.#notify.ok(t.signed);
    else if (this.inspector.error) this.#notify.error(this.inspector.error, t.cannotSign);
  }

  /** Trusts, or no longer trusts, the key that signed the shown tool. */
  async trust(on: boolean): Promise<void> {
    if (await this.inspector.trustSigner(on)) this.#notify.ok(on ? t.keyTrusted : t.keyNotTrusted);
    else if (this.inspector.error) this.#notify.error(this.inspector.error);
  }

  /** Writes tools to a file that `Import` reads. */
  async export(toolIds: readonly string[], name: string): Promise<boolean> {
    try {
      const file = `${slug(name)}.helix-tools.json`;
      if (this.#pick) {
        const pick = this.#pick;
        if (!(await unlessTaken(t.exportTools, (title) => pick(title, file), (path) => this.#rpc.call("tools.export", { toolIds: [...toolIds], path })))) return false;
      } else {
        const { bundle } = await this.#rpc.call("tools.export", { toolIds: [...toolIds] });
        this.#save(file, JSON.stringify(bundle, null, 2) + "\n");
      }
      this.#notify.ok(this.#pick ? t.savedTool : t.savedFile(file), t.savedWithout);
      return true;
    } catch (e) {
      this.#notify.error(e, t.cannotExport);
      return false;
    }
  }

  /** Writes the shown audit entries to a file; in the window, which cannot do that, the whole signed log. */
  async exportAudit(name: string): Promise<void> {
    if (!this.#pick) return this.#save(`${slug(name)}-audit.jsonl`, this.inspector.auditLines());
    try {
      const pick = this.#pick;
      const r = await unlessTaken(t.exportLog, (title) => pick(title, "helix-audit.jsonl"), (path) => this.#rpc.call("audit.export", { path }));
      if (r === null) return;
      this.#notify.ok(t.exported(r.entries), t.exportedText);
    } catch (e) {
      this.#notify.error(e, t.cannotExportLog);
    }
  }

  /** The code of a tool, for the clipboard. */
  async code(toolId: string): Promise<string | null> {
    try {
      return (await this.#rpc.call("tools.get", { toolId })).tool.code;
    } catch (e) {
      this.#notify.error(e, t.cannotLoadCode);
      return null;
    }
  }

  /** Clears a tool's state, with Undo. */
  async clearState(key?: string): Promise<void> {
    const undo = await this.inspector.clearState(key);
    if (undo === null) {
      if (this.inspector.error !== null) this.#notify.error(this.inspector.error, t.cannotClear);
      return;
    }
    this.#notify.undo(key === undefined ? t.clearedAll : t.cleared(key), undo);
  }

  /** Makes an old version the newest again, with Undo. */
  async rollback(version: string): Promise<void> {
    const before = this.inspector.tool.data?.version;
    const done = await this.inspector.rollback(version);
    if (done === null) {
      if (this.inspector.error !== null) this.#notify.error(this.inspector.error, t.cannotRollBack);
      return;
    }
    this.#notify.undo(
      t.rolledBack(version),
      async () => {
        if (before !== undefined) await this.inspector.rollback(before);
      },
      t.rolledBackText(done.tool.version, done.suspended),
    );
  }

  /** Answers a missing permission in place: shows the waiting prompt. */
  async answer(capability: string): Promise<void> {
    const { permissions } = this.inspector;
    const id = await permissions.pendingFor(capability);
    if (id !== null) return this.prompt.show(id);
    if (permissions.error !== null) this.#notify.error(permissions.error);
    else this.#notify.ok(t.nothingWaits, t.nothingWaitsText);
  }
}

/**
 * Asks for a path and writes there. An existing file is never replaced: another name is requested. Null if
 * the user cancels.
 */
async function unlessTaken<T>(title: string, pick: (title: string) => Promise<string>, write: (path: string) => Promise<T>): Promise<T | null> {
  for (let asked = title; ; asked = t.nameTaken) {
    const path = await pick(asked);
    if (path === "") return null;
    try {
      return await write(path);
    } catch (e) {
      if (asError(e).kind !== "conflict") throw e;
    }
  }
}

/** A name that is safe as a file name. */
export function slug(name: string): string {
  const s = name
    .normalize("NFKD")
    .replace(/[^\w.-]+/g, "-")
    .replace(/^[-.]+|[-.]+$/g, "")
    .toLowerCase();
  return s === "" ? "tools" : s;
}
