import { asError, type Rpc } from "../../lib/rpc";
import { Load, type Notify } from "../../lib/ui/state";
import { t } from "./messages";
import type { Binding, Channel, Code, Message, Rejection, Route, Sender, TestResult } from "./types";

type Read<T> = (signal: AbortSignal) => Promise<T>;
const page = 100;

/** The open channel: who may use it, its conversations, its queue, what was refused, and its routes. */
export class OpenChannel {
  id = $state<string | null>(null);
  readonly channel = new Load<Channel>();
  readonly senders = new Load<readonly Sender[]>();
  readonly bindings = new Load<readonly Binding[]>();
  readonly queue = new Load<readonly Message[]>();
  readonly rejected = new Load<readonly Rejection[]>();
  readonly routes = new Load<readonly Route[]>();
  readonly test = new Load<TestResult>();
  /** The pairing code that is shown, or null. */
  code = $state.raw<Code | null>(null);
  /** What is being done: its name, or "". */
  busy = $state("");
  readonly #rpc: Rpc;
  readonly #notify: Notify;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
  }

  show(id: string | null): void {
    if (id === this.id) return;
    this.id = id;
    for (const load of [this.channel, this.senders, this.bindings, this.queue, this.rejected, this.routes, this.test]) load.clear();
    this.code = null;
    if (id !== null) void this.read();
  }

  /** Something happened on a channel. */
  changed(id: string): void {
    if (id === this.id && this.busy === "") void this.read();
  }

  async read(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    const known = this.senders.data?.length;
    const call = <T>(load: Load<T>, read: Read<T>): Promise<void> => load.run(read);
    await Promise.all([
      call(this.channel, (signal) => this.#rpc.call("channels.get", { id }, { signal })),
      call(this.senders, async (signal) => (await this.#rpc.call("channels.senders", { id }, { signal })).senders),
      call(this.bindings, async (signal) => (await this.#rpc.call("channels.sessions", { id }, { signal })).bindings),
      call(this.queue, async (signal) => (await this.#rpc.call("channels.queue", { id, limit: page }, { signal })).messages),
      call(this.rejected, async (signal) => (await this.#rpc.call("channels.rejected", { id, limit: page }, { signal })).entries),
      call(this.routes, async (signal) => (await this.#rpc.call("channels.routes", {}, { signal })).routes),
    ]);
    // The code is used up once somebody was added with it.
    if (this.id === id && known !== undefined && (this.senders.data?.length ?? 0) > known) this.code = null;
  }

  /** Conversations to which notifications can go. */
  readonly contexts = $derived.by(() => {
    // A person's own conversation with a bot has the person's id.
    const direct = this.channel.data?.kind === "telegram" ? (this.senders.data ?? []).map((s) => s.senderId) : [];
    return [...new Set([...(this.bindings.data ?? []).map((b) => b.contextId), ...direct])];
  });

  /** The name of a conversation: that of its sender, or its id. */
  contextName(contextId: string): string {
    return this.senders.data?.find((s) => s.senderId === contextId)?.label || contextId;
  }

  pair(): Promise<void> {
    return this.#do("pair", t.pairFailed, async (id) => (this.code = await this.#rpc.call("channels.pair", { id })));
  }

  runTest(): Promise<void> {
    return this.#do("test", t.testFailed, async (id) => {
      this.test.clear();
      const r = await this.#rpc.call("channels.test", { id });
      if (this.id === id) await this.test.run(() => Promise.resolve(r));
    });
  }

  /** Allows a sender by id. Returns why it was refused, or "". */
  async allow(senderId: string, more: { label?: string; contextIds?: string[]; role?: string } = {}): Promise<string> {
    const id = this.id;
    if (id === null) return "";
    try {
      const r = await this.#rpc.call("channels.allow", { id, senderId, ...more });
      if (this.id === id) this.senders.data = r.senders;
      this.#notify.ok(t.allowed(senderId));
      await this.read();
      return "";
    } catch (e) {
      return asError(e).message;
    }
  }

  /** Allows a rejected sender, in the group too where it wrote in one. */
  async allowRejected(r: Rejection): Promise<void> {
    const now = this.senders.data?.find((s) => s.senderId === r.senderId);
    const groups = r.reason === "context" ? [...new Set([...(now?.contextIds ?? []), r.context])] : (now?.contextIds ?? []);
    const refused = await this.allow(r.senderId, { label: now?.label ?? "", contextIds: [...groups], role: "chat" });
    if (refused) this.#notify.error(new Error(refused), t.allowFailed(r.senderId));
  }

  disallow(s: Sender): Promise<void> {
    return this.#do("disallow", t.disallowFailed(s.label || s.senderId), async (id) => {
      await this.#rpc.call("channels.disallow", { id, senderId: s.senderId });
      this.#notify.undo(t.disallowed(s.label || s.senderId), async () => {
        await this.#rpc.call("channels.allow", { id, senderId: s.senderId, label: s.label, contextIds: [...s.contextIds], role: s.role });
        await this.read();
      });
    });
  }

  unbind(b: Binding): Promise<void> {
    return this.#do("unbind", t.unbindFailed, (id) => this.#rpc.call("channels.unbind", { id, contextId: b.contextId }));
  }

  retry(m: Message): Promise<void> {
    return this.#do("retry", t.retryFailed, () => this.#rpc.call("channels.retry", { messageId: m.messageId }));
  }

  drop(m: Message): Promise<void> {
    return this.#do("drop", t.dropFailed, () => this.#rpc.call("channels.drop", { messageId: m.messageId }));
  }

  setRoute(topic: string, target: string, when: string): Promise<void> {
    return this.#do("route", t.routeFailed, async () => (this.routes.data = (await this.#rpc.call("channels.set_route", { topic, target, when })).routes));
  }

  async #do(what: string, failed: string, act: (id: string) => Promise<unknown>): Promise<void> {
    const id = this.id;
    if (this.busy !== "" || id === null) return;
    this.busy = what;
    try {
      await act(id);
    } catch (e) {
      this.#notify.error(e, failed);
    } finally {
      this.busy = "";
      await this.read();
    }
  }
}
