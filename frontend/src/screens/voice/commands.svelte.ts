import { ListState, route } from "../../lib/list/state";
import { asError, fieldErrors, type EventData, type Params, type Rpc } from "../../lib/rpc";
import { Load, nav, type Notify } from "../../lib/ui/state";
import { memoAt } from "./address";
import { t } from "./messages";
import { readBack } from "./speech";
import type { ActionType, Callable, Command, Match, RiskTier } from "./types";

type Heard = EventData<"voice.command">;

const typingMs = 250;

/** The fields of a command while it is edited. */
export interface CommandForm {
  name: string;
  triggerPhrase: string;
  triggerConfidence: number;
  actionType: ActionType;
  /** A callable as kind:id, the id of a skill, a screen, or a system action. */
  target: string;
  /** The input of the target as an object; "{slot}" in it stands for the value of a slot. */
  params: Record<string, unknown>;
  riskTier: RiskTier | "";
}

const blank: CommandForm = { name: "", triggerPhrase: "", triggerConfidence: 0.8, actionType: "skill", target: "", params: {}, riskTier: "" };

/** The slots in a phrase: {name:type}. */
export function slotsOf(phrase: string): { name: string; type: string }[] {
  return [...phrase.matchAll(/\{\s*([^:{}]+?)\s*(?::\s*([^{}]+?)\s*)?\}/g)].map((m) => ({ name: m[1]!, type: m[2] ?? "text" }));
}

export const targetOf = (c: Command): string => ({ tool: c.toolId, skill: c.skillId, navigation: c.navigationTarget, system: c.systemAction })[c.actionType as ActionType] ?? "";

/** Voice commands: the list, the one that is edited, the box to try a text, and the question that waits for an answer. */
export class Commands {
  readonly list: ListState<Command>;
  readonly callables = new Load<readonly Callable[]>();
  /** Screens and actions that a command can use. */
  targets = $state.raw<{ navigation: readonly string[]; system: readonly string[] }>({ navigation: [], system: [] });
  form = $state<CommandForm | null>(null);
  /** Why the input of the target isn't complete, or "". */
  incomplete = $state("");
  /** Refused fields with the reason; "" is the whole form. */
  refused = $state.raw<Readonly<Record<string, string>>>({});
  busy = $state(false);
  /** The text in the box to try. */
  tried = $state("");
  readonly match = new Load<Match>();
  /** The command that waits for Yes or No. */
  pending = $state.raw<Heard | null>(null);
  #editing = $state<string | null>(null);
  #typing: ReturnType<typeof setTimeout> | undefined;
  readonly #rpc: Rpc;
  readonly #notify: Notify;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.list = new ListState<Command>({
      id: (c) => c.id,
      route: route("voice/commands"),
      read: async ({ query, signal }) => {
        const r = await rpc.call("voice.list_commands", {}, { signal });
        this.targets = { navigation: r.navigationTargets, system: r.systemActions };
        const q = query.toLowerCase();
        const items = r.commands.filter((c) => `${c.name}\n${c.triggerPhrase}`.toLowerCase().includes(q));
        return { items, total: items.length };
      },
    });
  }

  start(): void {
    this.#rpc.on("voice.command", (e) => this.heard(e));
  }

  readCallables(): Promise<void> {
    return this.callables.run(async (signal) => (await this.#rpc.call("callables.list", { limit: 500 }, { signal })).callables.filter((c) => c.blocked !== "foreign" && c.kind !== "agent"));
  }

  /** The callables of a type of action, each with its value in the form. */
  choices(type: ActionType): { value: string; callable: Callable }[] {
    return (this.callables.data ?? []).filter((c) => (c.kind === "skill") === (type === "skill")).map((callable) => ({ value: type === "skill" ? callable.id : `${callable.kind}:${callable.id}`, callable }));
  }

  get isNew(): boolean {
    return this.#editing === null;
  }

  /** Opens the form for a new command, or to edit one. */
  edit(c: Command | null): void {
    this.#editing = c?.id ?? null;
    this.refused = {};
    this.incomplete = "";
    this.form = c
      ? { name: c.name, triggerPhrase: c.triggerPhrase, triggerConfidence: c.triggerConfidence, actionType: c.actionType as ActionType, target: targetOf(c), params: c.actionParams as Record<string, unknown>, riskTier: c.riskTier as RiskTier }
      : { ...blank };
    void this.readCallables();
  }

  async save(): Promise<void> {
    const f = this.form;
    if (!f || this.busy) return;
    const target = (type: ActionType): string => (f.actionType === type ? f.target : "");
    const fields: Params<"voice.create_command"> = {
      name: f.name.trim() || f.triggerPhrase.replace(/[{}]/g, "").slice(0, 100),
      triggerPhrase: f.triggerPhrase,
      triggerConfidence: f.triggerConfidence,
      actionType: f.actionType,
      toolId: target("tool"),
      skillId: target("skill"),
      navigationTarget: target("navigation"),
      systemAction: target("system"),
      actionParams: f.actionType === "tool" || f.actionType === "skill" ? f.params : {},
      ...(f.riskTier === "" ? {} : { riskTier: f.riskTier }),
    };
    this.busy = true;
    try {
      const saved = this.#editing === null ? await this.#rpc.call("voice.create_command", fields) : await this.#rpc.call("voice.update_command", { ...fields, commandId: this.#editing });
      this.form = null;
      await this.list.page.reload();
      this.list.select(saved.id);
      if (this.tried !== "") void this.try();
    } catch (e) {
      const error = asError(e);
      const errors = fieldErrors(error);
      const place = (path: string): string => (/^(toolId|skillId|navigationTarget|systemAction)$/.test(path) ? "target" : path.split(/[.[]/)[0]!);
      this.refused = errors.length > 0 ? Object.fromEntries(errors.map((x) => [place(x.path), x.message])) : { "": error.message };
    } finally {
      this.busy = false;
    }
  }

  async setEnabled(c: Command, enabled: boolean): Promise<void> {
    // Shown at once, so that the same key pressed again turns it back.
    this.list.put({ ...c, enabled });
    try {
      await this.#rpc.call("voice.update_command", { commandId: c.id, enabled }, { inOrder: c.id });
    } catch (e) {
      this.list.put(c);
      this.#notify.error(e, t.commandNotSaved);
    }
  }

  remove(c: Command): Promise<boolean> {
    return this.list.remove(
      c.id,
      {
        act: () => this.#rpc.call("voice.delete_command", { commandId: c.id }),
        restore: () => this.#rpc.call("trash.restore", { items: [{ kind: "command", id: c.id }] }),
        done: t.deleted(c.name),
        failed: t.deleteFailed(c.name),
        trash: true,
      },
      this.#notify,
    );
  }

  /** Tries the typed text when typing pauses. */
  type(text: string): void {
    this.tried = text;
    clearTimeout(this.#typing);
    if (text.trim() === "") this.match.clear();
    else this.#typing = setTimeout(() => void this.try(), typingMs);
  }
  /** What would happen if the text were said. Nothing runs. */
  try(): Promise<void> {
    clearTimeout(this.#typing);
    return this.match.run((signal) => this.#rpc.call("voice.test_command", { text: this.tried }, { signal }));
  }

  /** A command was said, answered, or has expired. */
  heard(e: Heard): void {
    if (e.pendingId && !e.status) return void (this.pending = e);
    if (this.pending?.pendingId === e.pendingId) this.pending = null;
    const name = e.name ?? "";
    if (e.decision === "none" && !e.status) this.#notify.add({ title: t.notUnderstood(e.text), text: t.keptAsMemo });
    else if (e.status === "started") this.#notify.add({ title: t.commandStarted(name), tone: "ok", ...(e.runId ? { action: { label: t.openRun, run: () => nav.go(`activity/run/${e.runId}`) } } : {}) });
    else if (e.status === "done") {
      if (e.navigationTarget) void this.#open(e.navigationTarget, e.sessionId);
      else if (e.systemAction === "read_last") void this.#readLast();
      else this.#notify.ok(t.commandDone(name));
    } else if (e.status === "expired") this.#notify.add({ title: t.commandExpired(name), tone: "warn" });
    else if (e.status === "declined") this.#notify.add({ title: t.commandDeclined(name) });
    else if (e.status === "failed") this.#notify.add({ title: t.commandFailed(name), text: e.error ?? "", tone: "danger" });
  }

  /** Opens a screen, if the command was said here or not in any page. */
  async #open(target: string, said: string | undefined): Promise<void> {
    try {
      if (said === undefined || (await this.#rpc.call("session.get", {})).sessionId === said) nav.go(target);
    } catch (e) {
      this.#notify.error(e, t.commandFailed(""));
    }
  }

  /** Whether the settings let texts be read aloud. If they can't be read, nothing is. */
  async readsAloud(): Promise<boolean> {
    try {
      return (await this.#rpc.call("voice.get_settings", {})).ttsProvider === "system";
    } catch {
      return false;
    }
  }

  /** Reads the newest memo aloud, since the loudspeaker is here, or opens it if nothing is to be read aloud. */
  async #readLast(): Promise<void> {
    try {
      const [memo] = (await this.#rpc.call("voice.list_memos", { limit: 1 })).memos;
      if (!memo) return;
      if (await this.readsAloud()) readBack((await this.#rpc.call("voice.get_memo", { memoId: memo.id })).text, Promise.resolve(true));
      else nav.go(memoAt(memo.id));
    } catch (e) {
      this.#notify.error(e, t.commandFailed(""));
    }
  }

  /** Answers the question. `commandId` is the choice among several candidates. */
  async answer(accept: boolean, commandId?: string): Promise<void> {
    const p = this.pending;
    if (!p?.pendingId) return;
    this.pending = null;
    try {
      await this.#rpc.call("voice.confirm", { pendingId: p.pendingId, accept, ...(commandId ? { commandId } : {}) });
    } catch (e) {
      this.#notify.error(e, t.commandFailed(p.name ?? ""));
    }
  }

  /** Treats the text of a memo as a command. */
  async runMemo(recordingId: string): Promise<void> {
    try {
      await this.#rpc.call("voice.process", { recordingId, mode: "command" });
    } catch (e) {
      this.#notify.error(e, t.commandFailed(""));
    }
  }
}
