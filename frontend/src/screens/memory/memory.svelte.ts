import type { Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import type { ToastInit } from "../../lib/ui/toasts.svelte";
import { Browse, Trash } from "./browse.svelte";
import { Edit } from "./edit.svelte";
import { Embedding } from "./embedding.svelte";
import { AddForm } from "./form.svelte";
import { Importing } from "./importing.svelte";
import { MemoryList } from "./list.svelte";
import type { Row } from "./rows";
import { ThingState } from "./thing.svelte";
import { Timeline } from "./timeline.svelte";
import type { Memory, Revision, Stats, Tier, View } from "./types";
import { firstLine, tierWord, titleOf } from "./words";
import { plural } from "../../lib/ui/format";

/** How the screen tells the user about something that it did. */
export interface Notify {
  ok(title: string, text?: string): void;
  add(t: ToastInit): void;
  error(e: unknown, title?: string): void;
  undo(title: string, restore: () => Promise<unknown> | void, text?: string): void;
}

/** So many ids in one call. */
const MAX_IDS = 1000;
const STATS_MS = 1000;

/** The Memory screen as a whole. It outlives the component, so that drafts and imports go on. */
export class MemoryScreen {
  readonly list: MemoryList;
  readonly thing: ThingState;
  readonly edit: Edit;
  readonly conversations: Browse;
  readonly documents: Browse;
  readonly trash: Trash;
  readonly timeline: Timeline;
  readonly form: AddForm;
  readonly importing: Importing;
  readonly embedding: Embedding;
  readonly stats = new Load<Stats>();
  /** Which part of the screen is shown, so that only that is read again. */
  view = $state<View>("list");
  /** The memories whose tags are being changed; null: none. */
  tagging = $state.raw<readonly string[] | null>(null);
  /** What is to be removed for good, once that is confirmed. */
  purging = $state.raw<readonly Row[] | null>(null);
  /** Leads to what the next act chose; the page sets it. */
  go: (row: Row | null) => void = () => {};
  readonly #rpc: Rpc;
  readonly #notify: Notify;
  #offs: (() => void)[] = [];
  #soon: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.list = new MemoryList(rpc);
    this.thing = new ThingState(rpc);
    this.edit = new Edit(rpc);
    this.conversations = new Browse(rpc, "conversations");
    this.documents = new Browse(rpc, "documents");
    this.trash = new Trash(rpc);
    this.timeline = new Timeline(rpc);
    this.form = new AddForm(rpc);
    this.embedding = new Embedding(rpc);
    this.importing = new Importing(rpc, {
      done: (title, text, job) => notify.add({ title, text, tone: job.status === "failed" ? "danger" : "ok", ms: 12_000, action: { label: "Show", run: () => this.importing.show(job.jobId) } }),
      error: (e, title) => notify.error(e, title),
    });
  }

  /** There is nothing at all yet. */
  readonly bare = $derived.by(() => this.stats.data !== undefined && this.stats.data.total === 0 && this.stats.data.memories === 0 && this.stats.data.conversations === 0 && this.stats.data.documents === 0);
  /** Tags that are in use, the most used first. */
  readonly knownTags = $derived.by(() => (this.stats.data?.tags ?? []).map((t) => t.value));

  /** Starts listening; once for the life of the screen's component. */
  start(): void {
    if (this.#offs.length > 0) return;
    this.importing.start();
    this.#offs = [
      this.#rpc.on("memory.changed", (e) => this.#changed(e.many ? null : e.ids, e.op)),
      this.#rpc.on("memory.embedding_progress", (e) => this.embedding.progress(e)),
      this.#rpc.on("memory.import_done", () => {
        this.#changed(null, "import");
        void this.readStats();
      }),
      this.#rpc.onReload(() => this.reload()),
    ];
    this.reload();
  }

  stop(): void {
    for (const off of this.#offs.splice(0)) off();
    clearTimeout(this.#soon);
    this.#soon = undefined;
    this.list.stop();
    this.conversations.stop();
    this.documents.stop();
    this.trash.stop();
    this.timeline.stop();
  }

  reload(): void {
    void this.readStats();
    void this.embedding.read();
    this.#readView();
    if (this.thing.thing !== null) this.thing.touched(null, "update");
  }

  show(view: View): void {
    if (this.view === view) return;
    this.view = view;
    this.#readView();
  }

  async readStats(): Promise<void> {
    await this.stats.run((signal) => this.#rpc.call("memory.stats", {}, { signal }));
    if (this.stats.data) this.timeline.set(this.stats.data.byMonth);
    else if (this.stats.error) this.timeline.error = this.stats.error;
  }

  #readView(): void {
    if (this.view === "list") this.list.soon();
    else if (this.view === "conversations") void this.conversations.page.reload();
    else if (this.view === "documents") void this.documents.page.reload();
    else if (this.view === "trash") void this.trash.reload();
    else void this.readStats();
  }

  #changed(ids: readonly string[] | null, op: string): void {
    this.thing.touched(ids, op);
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      void this.readStats();
    }, STATS_MS);
    // Results do not move under the eyes of somebody who reads them because something was added.
    const grows = op === "add" || op === "import" || op === "documents";
    if (this.view === "list" && !(grows && this.list.query.searching && this.list.slots.length > 0)) this.list.soon();
    if (this.view === "conversations" && op !== "update") this.conversations.soon();
    if (this.view === "documents" && op !== "update") this.documents.soon();
    if (this.view === "trash" && !grows && op !== "update") this.trash.soon();
  }

  #put(items: readonly Memory[]): void {
    this.list.put(items);
    for (const m of items) this.thing.put(m);
  }

  async #act<T>(title: string, act: () => Promise<T>): Promise<T | null> {
    try {
      return await act();
    } catch (e) {
      this.#notify.error(e, title);
      return null;
    }
  }

  #undo(token: string | undefined): () => Promise<unknown> {
    return () => this.#rpc.call("memory.undo", { undoToken: token ?? "" });
  }

  /** Moves memories to the trash; for ten seconds one key brings them back. */
  async remove(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const some = ids.slice(0, MAX_IDS);
    const one = some.length === 1 ? (this.list.row(some[0]!)?.name ?? (this.thing.memory.data ? titleOf(this.thing.memory.data) : "")) : "";
    const r = await this.#act("Couldn't move to the trash", () => this.#rpc.call("memory.delete", { ids: [...some] }));
    if (!r) return;
    const chosen = this.thing.thing !== null && some.includes(this.thing.thing.id);
    this.timeline.drop(some);
    const next = this.list.drop(some);
    if (chosen) this.go(this.view === "list" ? next : null);
    this.#notify.undo(one !== "" ? `Moved “${firstLine(one, 40)}” to the trash` : `Moved ${plural(r.count, "memory", "memories")} to the trash`, this.#undo(r.undoToken));
  }

  /** Moves a conversation or a document to the trash. */
  async removeWhole(row: Pick<Row, "id" | "kind" | "name">): Promise<void> {
    const r = await this.#act("Couldn't move it to the trash", () =>
      row.kind === "conversation" ? this.#rpc.call("memory.delete_conversation", { id: row.id }) : this.#rpc.call("memory.delete_document", { documentId: row.id }),
    );
    if (!r) return;
    const chosen = this.thing.thing?.id === row.id;
    const next = (row.kind === "conversation" ? this.conversations : this.documents).drop(row.id);
    this.timeline.drop([row.id]);
    if (chosen) this.go(this.view === "timeline" ? null : next);
    this.#notify.undo(`Moved “${firstLine(row.name, 40)}” to the trash`, this.#undo(r.undoToken));
  }

  /** Brings things back from the trash. */
  async restore(rows: readonly Pick<Row, "id" | "name">[]): Promise<void> {
    if (rows.length === 0) return;
    const ids = rows.slice(0, MAX_IDS).map((r) => r.id);
    const r = await this.#act("Couldn't restore", () => this.#rpc.call("memory.restore", { ids }));
    if (!r) return;
    this.trash.drop(ids);
    this.#notify.ok(rows.length === 1 ? `Restored “${firstLine(rows[0]!.name, 40)}”` : `Restored ${plural(ids.length, "item")}`);
  }

  /** Removes for good what was confirmed. */
  async purge(): Promise<void> {
    const rows = this.purging;
    if (rows === null || rows.length === 0) return;
    const ids = rows.slice(0, MAX_IDS).map((r) => r.id);
    const r = await this.#act("Couldn't delete", () => this.#rpc.call("memory.purge", { ids }));
    this.purging = null;
    if (!r) return;
    this.trash.drop(ids);
    this.#notify.ok(rows.length === 1 ? `Deleted “${firstLine(rows[0]!.name, 40)}” permanently` : `Deleted ${plural(ids.length, "item")} permanently`);
  }

  async pin(ids: readonly string[], on: boolean): Promise<void> {
    if (ids.length === 0) return;
    const r = await this.#act(on ? "Couldn't pin it" : "Couldn't unpin it", () => this.#rpc.call("memory.pin", { ids: [...ids], on }));
    if (!r) return;
    this.#put(r.items);
    if (ids.length > 1) this.#notify.undo(`${on ? "Pinned" : "Unpinned"} ${plural(ids.length, "memory", "memories")}`, r.undoToken ? this.#undo(r.undoToken) : () => this.pin(ids, !on));
  }

  /** Pins what is not, and the other way round: all go the way of the first. */
  togglePin(ids: readonly string[]): Promise<void> {
    const first = ids[0];
    const on = first !== undefined && (this.list.row(first)?.pinned ?? (this.thing.memory.data?.id === first && this.thing.memory.data.pinned));
    return this.pin(ids, !on);
  }

  async setTier(ids: readonly string[], tier: Tier): Promise<void> {
    if (ids.length === 0) return;
    const r = await this.#act("Couldn't change the salience", () => this.#rpc.call("memory.set_salience", { ids: [...ids], tier }));
    if (!r) return;
    this.#put(r.items);
    if (ids.length > 1) {
      const title = `${tierWord(tier)} salience for ${plural(ids.length, "memory", "memories")}`;
      if (r.undoToken) this.#notify.undo(title, this.#undo(r.undoToken));
      else this.#notify.ok(title);
    }
  }

  /** Adds and removes tags. */
  async tag(ids: readonly string[], add: readonly string[], remove: readonly string[]): Promise<boolean> {
    if (ids.length === 0 || add.length + remove.length === 0) return true;
    const r = await this.#act("Couldn't change the tags", () => this.#rpc.call("memory.tag", { ids: [...ids], add: [...add], remove: [...remove] }));
    if (!r) return false;
    this.#put(r.items);
    if (ids.length > 1) {
      const title = `Changed the tags of ${plural(ids.length, "memory", "memories")}`;
      if (r.undoToken) this.#notify.undo(title, this.#undo(r.undoToken));
      else this.#notify.ok(title);
    }
    return true;
  }

  /** Says whether what is shown is quoted as untrusted. */
  async setUntrusted(untrusted: boolean): Promise<void> {
    const { thing, memory, reader } = this.thing;
    if (thing === null) return;
    const title = "Couldn't change the trust";
    if (thing.kind === "memory") {
      const m = memory.data;
      if (!m) return;
      const r = await this.#act(title, () => this.#rpc.call("memory.update", { id: m.id, version: m.version, untrusted }));
      if (r) this.#put([r]);
      else void this.thing.read();
      return;
    }
    const id = reader.id;
    const r = await this.#act(title, () => this.#rpc.call("memory.set_untrusted", { untrusted, ...(reader.of === "conversation" ? { conversationId: id } : { documentId: id }) }));
    if (!r) return;
    void reader.reload();
    if (this.view !== "timeline") this.#readView();
  }

  /** Saves what was changed in place; for ten seconds one key takes it back. */
  async save(mine = false): Promise<boolean> {
    const r = mine ? await this.edit.keepMine() : await this.edit.save();
    if (r === null) return this.edit.base === null;
    this.#put([r.after]);
    this.thing.history.data = undefined;
    if (this.thing.tab === "history") void this.thing.readHistory();
    const { before, after } = r;
    this.#notify.undo("Saved", async () => {
      const back = await this.#rpc.call("memory.update", { id: after.id, version: after.version, content: before.content, type: before.type, layer: before.layer ?? 0, occurredAt: before.occurredAt ?? null });
      this.#put([back]);
    });
    return true;
  }

  /** Makes a memory say again what it said in an earlier revision. */
  async bringBack(rev: Revision): Promise<void> {
    const m = this.thing.memory.data;
    if (!m) return;
    const after = await this.#act("Couldn't restore it", () => this.#rpc.call("memory.update", { id: m.id, version: m.version, content: rev.content, tags: rev.tags }));
    if (!after) return void this.thing.read();
    this.#put([after]);
    this.thing.revision = null;
    void this.thing.readHistory();
    this.#notify.undo("Restored the earlier text", async () => {
      this.#put([await this.#rpc.call("memory.update", { id: after.id, version: after.version, content: m.content, tags: m.tags })]);
      if (this.thing.tab === "history") void this.thing.readHistory();
    });
  }

  /** Stores what was written in the sheet. Answers its id, or "". */
  async add(): Promise<string> {
    const r = await this.form.save();
    if (r === null) return "";
    if (r.known) this.#notify.ok("You already have this", "The tags were added to it.");
    else this.#notify.ok("Saved");
    return r.memory.id;
  }

  async pause(on: boolean): Promise<void> {
    await this.#act(on ? "Couldn't pause it" : "Couldn't start it", () => this.embedding.pause(on));
  }

  async retryFailed(): Promise<void> {
    await this.#act("Couldn't retry it", () => this.embedding.retry());
  }
}
