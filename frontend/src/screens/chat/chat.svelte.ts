import { common } from "../../lib/i18n/common";
import { ListState, route } from "../../lib/list/state";
import type { Item, Params, Result, Rpc } from "../../lib/rpc";
import { lasting, Load, type Notify } from "../../lib/ui/state";
import { Composer, type Keep } from "./composer.svelte";
import { Conversation } from "./conversation.svelte";
import { ChatInspector, type Tab } from "./inspector.svelte";
import { textOf } from "./entries";
import { imageURL, importChat, maxFileBytes, maxFiles, type Transfer } from "./files.svelte";
import { t } from "./messages";
import type { Hit, Message, Session } from "./types";

type Status = Result<"agent.status">;

/** A suggested first input, based on the user's data. */
export interface Starter {
  label: string;
  text: string;
}

export const titleOf = (s: Session): string => s.title || t.untitled;

/** The Chat screen: the list of chats, the open one, and the composer. */
export class ChatScreen {
  readonly list: ListState<Session, { show: string }>;
  readonly inspector: ChatInspector;
  readonly status = new Load<Status>();
  readonly agents = new Load<readonly Item<"agent.personas", "personas">[]>();
  readonly starters = new Load<readonly Starter[]>();
  readonly hits = new Load<readonly Hit[]>();
  /** Null: a new chat. */
  conversation = $state.raw<Conversation | null>(null);
  composer = $state.raw<Composer>()!;
  /** The tab of the inspector; null while it is closed. */
  tab = $state<Tab | null>(null);
  /** The scope of the search; null while there is none. */
  finding = $state<"chat" | "all" | null>(null);
  /** The position in the log of the message that keys apply to; 0: none. */
  at = $state(0);
  /** The chat that is being renamed. */
  renaming = $state.raw<Session | null>(null);
  busy = $state(false);
  /** How many messages were sent. */
  sent = $state(0);
  /** The composer should be focused. */
  writing = $state(false);
  readonly #rpc: Rpc;
  readonly #save: (name: string, text: string) => unknown;
  readonly #keep: Keep;
  readonly #transfer: Transfer;
  readonly #notify: Notify;
  #shown: string | null | undefined;
  /** The message to scroll to once its chat is open. */
  #target = 0;
  /** Send was pressed while a message was being sent. */
  #next = false;

  /** `save` saves a text as a file for the user, `transfer` sends a file of theirs to the backend. */
  constructor(rpc: Rpc, keep: Keep, notify: Notify, save: (name: string, text: string) => unknown, transfer: Transfer) {
    this.#transfer = transfer;
    this.#save = save;
    this.#rpc = rpc;
    this.#keep = keep;
    this.#notify = notify;
    this.inspector = new ChatInspector(rpc);
    this.composer = new Composer(keep, "new");
    this.list = new ListState({
      id: (s) => s.id,
      route: route("chat"),
      filters: { show: "" },
      read: async ({ query, filters, offset, limit, signal }) => {
        const params: Params<"chat.list"> = { limit, offset };
        if (query !== "") params.query = query;
        if (filters.show === "archived") params.includeArchived = true;
        const r = await rpc.call("chat.list", params, { signal });
        return { items: r.sessions, total: r.total };
      },
    });
  }

  start(): void {
    this.list.start(
      this.#rpc,
      ["chat.session_created", "chat.session_changed", "chat.turn_started", "chat.turn_completed", "chat.turn_cancelled", "chat.turn_failed"],
      this.#rpc.on("providers.changed", () => void this.readStatus()),
    );
    void this.list.page.reload();
    void this.readStatus();
  }

  stop(): void {
    this.list.stop();
    this.conversation?.stop();
    this.conversation = null;
    this.#shown = undefined;
  }

  /** Opens the chat in the address. */
  show(id: string | null): void {
    if (this.#shown === id) return;
    this.#shown = id;
    this.conversation?.stop();
    this.conversation = id === null ? null : lasting(() => new Conversation(this.#rpc, id, this.#notify));
    this.composer.stop();
    this.composer = new Composer(this.#keep, id ?? "new");
    this.at = this.#target;
    if (this.#target > 0) void this.conversation?.reach(this.#target);
    this.#target = 0;
    if (id === null) void this.readStarters();
    else if (this.tab) this.inspector.read(this.tab, id);
  }

  readStatus(): Promise<void> {
    if (this.#rpc.can("agent.personas")) void this.agents.run(async (signal) => (await this.#rpc.call("agent.personas", {}, { signal })).personas);
    return this.status.run((signal) => this.#rpc.call("agent.status", {}, { signal }));
  }

  /** The models assigned to roles, each once. */
  get models(): readonly string[] {
    return [...new Set((this.status.data?.roles ?? []).filter((r) => r.role !== "embed").flatMap((r) => r.chain))];
  }

  /** Creates up to three suggestions from the newest memories, skills and tools. */
  readStarters(): Promise<void> {
    const rpc = this.#rpc;
    return this.starters.run(async (signal) => {
      const none = (): [] => [];
      const [memories, skills, tools] = await Promise.all([
        rpc.can("memory.list") ? rpc.call("memory.list", { limit: 1 }, { signal }).then((r) => r.items, none) : [],
        rpc.can("callables.list") ? rpc.call("callables.list", { kind: "skill", limit: 3 }, { signal }).then((r) => r.callables, none) : [],
        rpc.call("agent.tools", {}, { signal }).then((r) => r.tools, none),
      ]);
      const short = (s: string): string => s.replace(/\s+/g, " ").slice(0, 60);
      const own = tools.filter((x) => x.origin === "tool" || x.origin === "wasm");
      return [
        ...memories.slice(0, 1).map((m) => t.starters.memory(short(m.content))),
        ...skills.filter((s) => !s.blocked).slice(0, 1).map((s) => t.starters.skill(s.name)),
        ...own.slice(0, 1).map((x) => t.starters.tool(x.title || x.name)),
        ...(tools.length > 0 ? [t.starters.tools(tools.length)] : []),
        ...(tools.some((x) => x.name === "file_list") ? [t.starters.files] : []),
      ].slice(0, 3);
    });
  }

  /** Sends the draft; a new chat is created first. What is written meanwhile stays, and is sent next if that was asked for. */
  async send(): Promise<void> {
    let { composer } = this;
    const { text, model, maxCostMicros, mode, agentName, files } = composer.draft;
    if (this.busy) return void (this.#next = true);
    if (composer.empty || composer.sending.length > 0) return;
    this.busy = true;
    this.#next = false;
    let sent = false;
    try {
      if (!this.conversation) {
        const { session } = await this.#rpc.call("chat.create", { mode, ...(agentName ? { agentName } : {}) }, { idempotencyKey: crypto.randomUUID() });
        this.list.select(session.id);
        this.show(session.id);
        this.composer.set({ ...composer.draft, mode: "ask", agentName: "" });
        composer.set({ text: "", files: [], mode: "ask", agentName: "", maxCostMicros: 0, model: "" });
        ({ composer } = this);
      }
      sent = await this.conversation!.send(text, {
        ...(model ? { model } : {}),
        ...(maxCostMicros > 0 ? { budget: { maxCostMicros } } : {}),
        ...(files.length > 0 ? { attachments: files.map(({ blob, name }) => ({ blob, name })) } : {}),
      });
      if (sent) {
        composer.sent(text, files);
        this.sent++;
      }
    } catch (e) {
      this.#notify.error(e, t.cannotSend);
    } finally {
      this.busy = false;
    }
    if (sent && this.#next && composer === this.composer) await this.send();
  }

  /** Attaches files to the draft. A rejected file is reported; the others are attached. */
  async attach(files: readonly File[]): Promise<void> {
    const { composer } = this;
    await Promise.all(
      files.map(async (f) => {
        const problem = !composer.hasRoom ? t.tooManyFiles(f.name, maxFiles) : f.size > maxFileBytes ? t.fileTooLarge(f.name) : "";
        if (problem !== "") return void this.#notify.add({ title: t.cannotAttach, text: problem, tone: "warn" });
        await composer.attach(f, this.#transfer).catch((e: unknown) => this.#notify.error(e, t.cannotAttach));
      }),
    );
  }

  image(blob: string, mime: string): Promise<string> {
    return imageURL(this.#rpc, blob, mime);
  }

  /** Shows a tab of the inspector, or closes it. */
  inspect(tab: Tab | null): void {
    this.tab = tab;
    if (tab && this.conversation) this.inspector.read(tab, this.conversation.id);
  }

  /** Goes to a message, in this chat or another. */
  goTo(sessionId: string, seq: number): void {
    if (this.conversation?.id === sessionId) {
      void this.conversation.reach(seq).then(() => (this.at = seq));
      return;
    }
    this.#target = seq;
    this.list.select(sessionId);
  }

  find(query: string): Promise<void> {
    const here = this.finding === "chat" ? this.conversation?.id : undefined;
    return this.hits.run(async (signal) => {
      if (query.trim() === "") return [];
      const { hits } = await this.#rpc.call("chat.search", { query, limit: 50, ...(here ? { sessionId: here } : {}) }, { signal });
      return here ? [...hits].sort((a, b) => a.seq - b.seq) : hits;
    });
  }

  /** Focuses the composer. */
  write(): void {
    this.writing = true;
  }

  /** The message that keys apply to: the selected one, else the newest message of a person or the model. */
  get current(): Message | null {
    const said = (this.conversation?.chat.messages ?? []).filter((m) => !m.hidden && (m.role === "user" || m.role === "assistant"));
    return said.find((m) => m.seq === this.at) ?? said.at(-1) ?? null;
  }

  /** The text that the person sent last. It may still be waiting for its turn. */
  get lastText(): string {
    const waiting = this.conversation?.chat.queue.at(-1);
    if (waiting) return waiting.text;
    const m = this.conversation?.chat.messages.filter((x) => x.role === "user" && !x.hidden).at(-1);
    return m ? textOf(m) : "";
  }

  /** Selects the message `by` places away. */
  move(by: number): void {
    const places = (this.conversation?.entries ?? []).flatMap((e) => (e.kind === "user" || e.kind === "answer" ? [e.message.seq] : []));
    const now = places.indexOf(this.at);
    this.at = places[now < 0 ? places.length - 1 : Math.min(Math.max(now + by, 0), places.length - 1)] ?? 0;
  }

  /** Retries a turn with the model that is selected in the composer. */
  async retry(turnId: string, more: { moreTurns?: number; moreCostMicros?: number } = {}): Promise<void> {
    const { model } = this.composer.draft;
    await this.conversation?.retry(turnId, { ...more, ...(model ? { model } : {}) });
  }

  // Actions on a chat

  async rename(s: Session, title: string): Promise<boolean> {
    return this.#change(() => this.#rpc.call("chat.rename", { sessionId: s.id, title }));
  }

  pin(s: Session): Promise<boolean> {
    return this.#change(() => this.#rpc.call("chat.pin", { sessionId: s.id, pinned: !s.pinned }));
  }

  archive(s: Session): Promise<boolean> {
    const { id } = s;
    const back = (): Promise<unknown> => this.#rpc.call("chat.unarchive", { sessionId: id });
    if (s.archivedAt) return this.#change(back as () => Promise<{ session: Session }>);
    return this.list.remove(id, { act: () => this.#rpc.call("chat.archive", { sessionId: id }), restore: back, done: t.archived(titleOf(s)), failed: t.cannotSave }, this.#notify);
  }

  remove(s: Session): Promise<boolean> {
    const sessionId = s.id;
    return this.list.remove(sessionId, { act: () => this.#rpc.call("chat.delete", { sessionId }), restore: () => this.#rpc.call("chat.restore", { sessionId }), done: common.movedToTrash(titleOf(s)), trash: true, failed: t.cannotDelete }, this.#notify);
  }

  /** Copies the open chat up to a message, and opens the copy. */
  async fork(atSeq: number): Promise<void> {
    const sessionId = this.conversation?.id;
    if (!sessionId) return;
    try {
      const { session } = await this.#rpc.call("chat.fork", { sessionId, ...(atSeq > 0 ? { atSeq } : {}) });
      this.list.select(session.id);
    } catch (e) {
      this.#notify.error(e, t.cannotFork);
    }
  }

  /** Saves the open chat as a file: `md` to read, `jsonl` to import again. */
  async export(format: "md" | "jsonl" = "md"): Promise<void> {
    const sessionId = this.conversation?.id;
    if (!sessionId) return;
    try {
      const { blob, name } = await this.#rpc.call("chat.export", { sessionId, format });
      const { url } = await this.#rpc.call("blobs.url", { sha256: blob });
      await this.#save(name, await (await fetch(url)).text());
    } catch (e) {
      this.#notify.error(e, t.cannotExport);
    }
  }

  /** Creates a chat from an exported file. */
  async import(file: File): Promise<void> {
    try {
      const { session } = await importChat(this.#rpc, file, this.#transfer);
      await this.list.page.reload();
      this.list.select(session.id);
    } catch (e) {
      this.#notify.error(e, t.cannotImport);
    }
  }

  async #change(act: () => Promise<{ session: Session }>): Promise<boolean> {
    try {
      this.list.put((await act()).session);
      await this.list.page.reload();
      return true;
    } catch (e) {
      this.#notify.error(e, t.cannotSave);
      return false;
    }
  }
}
