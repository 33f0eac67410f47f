import type { Rpc } from "../../lib/rpc";
import { Load, type Notify } from "../../lib/ui/state";
import { entriesOf, isDelegation } from "./entries";
import { t } from "./messages";
import { empty, hasGap, next, type Chat, type Fact } from "./state";
import type { Budget, TreeNode } from "./types";

/** Deltas within this time are drawn together. */
const frameMs = 16;
/** Consecutive events cause one read. */
const eventsMs = 20;
const pageSize = 100;

/** The options of an input. */
export interface SendOptions {
  queueMode?: string;
  model?: string;
  budget?: Budget;
  attachments?: { blob: string; name: string }[];
}

/** One open chat: its messages, the streaming answer, and its actions. */
export class Conversation {
  readonly id: string;
  chat = $state.raw<Chat>(empty);
  /** The first read. */
  readonly load = new Load<true>();
  /** Turns whose replaced answers are shown. */
  opened = $state.raw<ReadonlySet<string>>(new Set());
  /** The tokens of what was undone. */
  undone = $state.raw<ReadonlySet<string>>(new Set());
  /** The subagents, if there are any. */
  tree = $state.raw<readonly TreeNode[]>([]);
  readonly entries = $derived.by(() => entriesOf(this.chat, this.opened, this.tree));
  /** A turn runs; its text may arrive before the read that names it. */
  readonly active = $derived(this.chat.turn !== null || this.chat.live !== null);
  readonly #rpc: Rpc;
  readonly #notify: Pick<Notify, "error" | "add">;
  readonly #off: (() => void)[];
  /** The newest state; `chat` follows it frame by frame. */
  #now: Chat = empty;
  #frame: ReturnType<typeof setTimeout> | undefined;
  #soon: ReturnType<typeof setTimeout> | undefined;
  #reading: Promise<void> | null = null;
  #again = false;
  #older: Promise<void> | null = null;
  #retrying = false;

  constructor(rpc: Rpc, id: string, notify: Pick<Notify, "error" | "add">) {
    this.id = id;
    this.#rpc = rpc;
    this.#notify = notify;
    const here = <E extends { sessionId: string }>(fn: (e: E) => void) => (e: E): void => void (e.sessionId === id && fn(e));
    const changed = here(() => this.#later());
    this.#off = [
      rpc.on("chat.assistant_delta", here((e) => this.#delta({ type: "delta", ...e }))),
      rpc.on("chat.reasoning_delta", here((e) => this.#delta({ type: "reasoning", ...e }))),
      rpc.on("chat.attempt_discarded", here((e) => this.#put({ type: "discarded", ...e }))),
      rpc.on("chat.turn_progress", here((e) => this.#put({ type: "progress", ...e }))),
      rpc.on("chat.turn_started", here(() => this.#later(true))),
      ...(["chat.session_changed", "chat.tool_started", "chat.tool_finished", "chat.notice", "chat.turn_completed", "chat.turn_cancelled", "chat.turn_failed"] as const).map((e) => rpc.on(e, changed)),
      rpc.on("chat.budget", here((e) => void (e.level === "warn" && this.#notify.add({ title: t.budgetWarning(t.scopes[e.scope] ?? e.scope), text: t.spentOf(e.spentMicros, e.limitMicros), tone: "warn" })))),
      rpc.onReload(() => this.lost()),
    ];
    void this.load.run(async () => (await this.#read(), true as const));
  }

  stop(): void {
    for (const off of this.#off) off();
    clearTimeout(this.#frame);
    clearTimeout(this.#soon);
    this.load.cancel();
  }

  /** The connection was lost and restored: deltas may be missing. */
  lost(): void {
    this.#put({ type: "lost" });
    this.#later(true);
  }

  #put(f: Fact): void {
    clearTimeout(this.#frame);
    this.#frame = undefined;
    this.chat = this.#now = next(this.#now, f);
  }

  #delta(f: Fact): void {
    this.#now = next(this.#now, f);
    this.#frame ??= setTimeout(() => {
      this.#frame = undefined;
      this.chat = this.#now;
      if (hasGap(this.chat)) this.#later();
    }, frameMs);
  }

  /** Reads soon; `whole` reads the newest messages again, because a retry elsewhere may have replaced some. */
  #whole = false;
  #later(whole = false): void {
    this.#whole ||= whole;
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      void this.#read().catch((e: unknown) => this.#notify.error(e, t.cannotLoad));
    }, eventsMs);
  }

  /** Reads what has changed. Only one read runs at a time; a call during one makes it continue. */
  #read(): Promise<void> {
    this.#again = true;
    this.#reading ??= (async () => {
      try {
        while (this.#again) {
          this.#again = false;
          await this.#readOnce();
        }
      } finally {
        this.#reading = null;
      }
    })();
    return this.#reading;
  }

  async #readOnce(): Promise<void> {
    const sessionId = this.id;
    const { epoch } = this.#now;
    const last = this.#now.messages.at(-1)?.seq ?? 0;
    const whole = this.#whole;
    this.#whole = false;
    // Messages are read second, so that they include what ended in between.
    const get = await this.#rpc.call("chat.get", { sessionId });
    const page = await this.#rpc.call("chat.messages", last === 0 || whole ? { sessionId, limit: pageSize } : { sessionId, after: last, limit: pageSize });
    const joins = (page.messages[0]?.seq ?? 0) <= last || !page.more;
    if (last === 0) this.#put({ type: "older", messages: page.messages, more: page.more });
    else if (whole && !joins) this.#put({ type: "restart", messages: page.messages });
    else this.#put({ type: "messages", messages: page.messages });
    this.#put({ type: "get", epoch, get });
    if (this.#now.messages.some((m) => m.parts.some(isDelegation)) && this.#rpc.can("agent.tree")) this.tree = (await this.#rpc.call("agent.tree", { sessionId })).nodes;
    if (page.more && last > 0 && !whole) this.#again = true;
    if (hasGap(this.#now) || epoch !== this.#now.epoch) this.#later();
  }

  /** Reads messages before the first, at most once at a time. */
  older(): Promise<void> {
    const before = this.#now.messages[0]?.seq;
    if (before === undefined || !this.#now.more) return Promise.resolve();
    this.#older ??= this.#rpc
      .call("chat.messages", { sessionId: this.id, before, limit: 2 * pageSize })
      .then((r) => this.#put({ type: "older", messages: r.messages, more: r.more }))
      .catch((e: unknown) => this.#notify.error(e, t.cannotLoad))
      .finally(() => (this.#older = null));
    return this.#older;
  }

  /** Reads back until a message is loaded. */
  async reach(seq: number): Promise<void> {
    await this.#reading;
    for (let first = Infinity; this.#now.more && (this.#now.messages[0]?.seq ?? 0) > seq && first !== this.#now.messages[0]?.seq; ) {
      first = this.#now.messages[0]?.seq ?? 0;
      await this.older();
    }
  }

  /** Returns true if the backend has the input. */
  async send(text: string, o: SendOptions = {}): Promise<boolean> {
    return this.#act(async () => {
      await this.#rpc.call("chat.send", { sessionId: this.id, text, ...o }, { idempotencyKey: crypto.randomUUID() });
    }, t.cannotSend);
  }

  /** Stops the turn, or removes an input from the queue. */
  cancel(turnId?: string): Promise<boolean> {
    return this.#act(() => this.#rpc.call("chat.cancel", { sessionId: this.id, ...(turnId ? { turnId } : {}) }), t.cannotStop);
  }

  /** Retries the input of a turn; `more` adds to the limits that stopped it. */
  async retry(turnId: string, more: { moreTurns?: number; moreCostMicros?: number; model?: string } = {}): Promise<boolean> {
    if (this.#retrying) return false;
    this.#retrying = true;
    const done = await this.#act(async () => {
      await this.#rpc.call("chat.retry", { turnId, ...more });
      this.#put({ type: "retried", turnId });
      await this.#read(); // until the new turn is known, another press would retry the turn before
    }, t.cannotRetry);
    this.#retrying = false;
    return done;
  }

  setMode(mode: string): Promise<boolean> {
    return this.#act(() => this.#rpc.call("chat.set_mode", { sessionId: this.id, mode }), t.cannotSave);
  }

  setQueueMode(queueMode: string): Promise<boolean> {
    return this.#act(() => this.#rpc.call("chat.set_queue_mode", { sessionId: this.id, queueMode }), t.cannotSave);
  }

  /** Undoes what a tool did, with the token of its result. */
  async undo(tool: string, token: string): Promise<void> {
    const done = await this.#act(() => (tool.startsWith("memory") ? this.#rpc.call("memory.undo", { undoToken: token }) : this.#rpc.call("workspace.undo", { token })), t.cannotUndo);
    if (done) this.undone = new Set([...this.undone, token]);
  }

  /** Shows or hides the answers that a retry replaced. */
  toggle(turnId: string): void {
    const set = new Set(this.opened);
    if (!set.delete(turnId)) set.add(turnId);
    this.opened = set;
  }

  async #act(act: () => Promise<unknown>, failed: string): Promise<boolean> {
    try {
      await act();
      this.#later();
      return true;
    } catch (e) {
      this.#notify.error(e, failed);
      return false;
    }
  }
}
