import type { Route } from "../../lib/list/state";
import type { Rpc } from "../../lib/rpc";
import { Load, nav, type Notify } from "../../lib/ui/state";
import { addressOf, itemWith, placeOf, sameItem, type Place } from "./address";
import { Edit } from "./edit.svelte";
import { Embedding } from "./embedding.svelte";
import { AddForm } from "./form.svelte";
import { Importing } from "./importing.svelte";
import { ItemInspector } from "./inspector.svelte";
import { resolveLink } from "./links";
import { MemoryList } from "./list.svelte";
import { parentList, type RowList } from "./lists.svelte";
import { t } from "./messages";
import { SampleDiary } from "./sample/sample.svelte";
import { rowOfMemory, type Row } from "./rows";
import { WatchedFolders } from "./watched.svelte";
import { Timeline } from "./timeline.svelte";
import type { ImportJob, Memory, Revision, Stats, Tier, View } from "./types";
import { firstLine, titleOf, viewOfFormat } from "./words";

/** The maximum number of ids per call. */
const maxIds = 1000;
const statsMs = 1000;
/** Rows that are selected in shorter intervals are passed by a held key. */
const quickMs = 160;
/** How long a held key must rest before its row is shown. */
const restMs = 120;

/** The Memory screen as a whole. It outlives the component, so that drafts and imports continue. */
export class MemoryScreen {
  readonly list: MemoryList;
  readonly inspector: ItemInspector;
  readonly edit: Edit;
  readonly conversations: RowList;
  readonly documents: RowList;
  readonly timeline: Timeline;
  readonly form: AddForm;
  readonly importing: Importing;
  readonly sample: SampleDiary;
  readonly embedding: Embedding;
  readonly stats = new Load<Stats>();
  /** The memories whose tags are being changed; null: none. */
  tagging = $state.raw<readonly string[] | null>(null);
  /** What is deleted permanently once that is confirmed. */
  /** The row that a held key has moved to. It is selected at once, and shown when the key rests. */
  #passing = $state.raw<Row | null>(null);
  /** The next address. WebKit allows a hundred changes in half a minute, so the address may never change to it. */
  #ahead = $state.raw<{ path: readonly string[]; place: Place } | null>(null);
  #resting: ReturnType<typeof setTimeout> | undefined;
  #selectedAt = 0;
  /** The view whose rows were read last. */
  #shown: View = "list";
  readonly #rpc: Rpc;
  readonly #notify: Notify;
  #offs: (() => void)[] = [];
  #soon: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.list = new MemoryList(rpc, () => (this.view === "list" ? this.selectedId : null));
    this.inspector = new ItemInspector(rpc);
    this.edit = new Edit(rpc);
    this.conversations = parentList(rpc, "conversations", this.#route("conversations"));
    this.documents = parentList(rpc, "documents", this.#route("documents"));
    this.timeline = new Timeline(rpc);
    this.form = new AddForm(rpc);
    this.embedding = new Embedding(rpc);
    this.importing = new Importing(rpc, {
      done: (title, text, job) => notify.add({ title, text, tone: job.status === "failed" ? "danger" : "ok", ms: 12_000, action: { label: t.show, run: () => this.importing.show(job.jobId) } }),
      error: (e, title) => notify.error(e, title),
    }, undefined, new WatchedFolders(rpc, notify));
    this.sample = new SampleDiary(rpc, notify);
  }

  // — Display —

  /** The place in the address. */
  readonly place = $derived.by((): Place => (this.#ahead?.path === nav.path ? this.#ahead.place : placeOf(nav.screen === "memory" ? nav.rest : [])));
  get view(): View {
    return this.place.view;
  }
  /** The selected row of the view. */
  readonly selectedId = $derived.by(() => this.#passing?.id ?? this.place.item?.id ?? null);

  #route(view: View): Route {
    return { selected: () => (this.view === view ? this.selectedId : undefined), to: (id) => addressOf(view, id === null ? null : itemWith("memory", id)) };
  }

  /** Selects a row. While a key is held, the rows that it passes are selected but not shown. */
  select(row: Row): void {
    const quick = this.place.item !== null && performance.now() - this.#selectedAt < quickMs;
    this.#selectedAt = performance.now();
    if (!quick) return this.goTo(row);
    clearTimeout(this.#resting);
    this.#passing = row;
    this.#resting = setTimeout(() => this.settle(), restMs);
  }

  /** Shows the row that a held key has moved to. */
  settle(): void {
    if (this.#passing !== null) this.goTo(this.#passing);
  }

  /** Shows a row in the inspector. */
  goTo(row: Pick<Row, "item"> | null): void {
    clearTimeout(this.#resting);
    this.#passing = null;
    const { view, item } = this.place;
    this.#ahead = { path: nav.path, place: { view, item: row?.item ?? null } };
    try {
      nav.go(addressOf(view, row?.item ?? null), item === null ? "push" : "replace");
    } catch {
      // The place is shown without its address.
    }
  }

  /** Shows a memory and starts editing it. */
  async startEdit(row: Pick<Row, "id" | "item">): Promise<void> {
    this.goTo(row);
    this.show(this.place);
    if (this.inspector.memory.data?.id !== row.id) await this.inspector.read();
    const m = this.inspector.memory.data;
    if (m?.id !== row.id || m.deletedAt) return;
    this.inspector.setTab("text");
    this.edit.begin(m);
  }

  /** Reads the data of a place. */
  show({ view, item }: Place): void {
    if (!sameItem(item, this.inspector.item)) this.edit.leave();
    if (view !== this.#shown) {
      this.#shown = view;
      this.#readView();
    }
    const row = view === "list" ? this.list.selected : view === "timeline" && item ? this.timeline.row(item.id) : null;
    this.inspector.show(item, view === "list" ? (row?.hit ?? null) : null, row?.memory);
  }

  /** The selected row: of the list, or built from what the inspector shows. */
  get current(): Row | null {
    if (this.view === "conversations" || this.view === "documents") return this[this.view].selected;
    const m = this.inspector.memory.data;
    const row = this.view === "list" ? this.list.selected : this.timeline.row(this.selectedId ?? "");
    return row ?? (m && m.id === this.selectedId && !m.deletedAt ? rowOfMemory(m) : null);
  }

  /** Opens the document that a link in a text refers to. */
  async openLink(target: string): Promise<void> {
    const d = await this.#act(t.cannotOpenLink, async () => ({ found: await resolveLink(this.#rpc, target, this.inspector.reader.document?.sourceUri) }));
    if (d === null) return;
    if (d.found) nav.go(addressOf("documents", itemWith("document", d.found.id)));
    else this.#notify.add({ title: t.linkMissing(firstLine(target, 60)), text: t.linkMissingHelp, tone: "warn" });
  }

  /** Shows what an import added, newest first. */
  showImported(job: Pick<ImportJob, "format">): void {
    const view = viewOfFormat(job.format);
    if (view !== "list") this[view].clearFilters();
    else {
      this.list.sort = "recent";
      this.list.clear();
    }
    nav.go(addressOf(view));
  }

  /** Nothing has been stored yet. */
  readonly bare = $derived.by(() => {
    const s = this.stats.data;
    return s !== undefined && s.total + s.memories + s.conversations + s.documents === 0;
  });
  /** Used tags, most frequent first. */
  readonly knownTags = $derived.by(() => (this.stats.data?.tags ?? []).map((x) => x.value));

  // — Following the backend —

  /** Starts listening; once for the lifetime of the screen's component. */
  start(): void {
    if (this.#offs.length > 0) return;
    this.importing.start();
    this.importing.watched.start();
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
    clearTimeout(this.#resting);
    clearTimeout(this.#soon);
    this.#passing = null;
    this.#soon = undefined;
    for (const part of [this.list, this.conversations, this.documents]) part.stop();
  }

  reload(): void {
    void this.readStats();
    void this.embedding.read();
    this.#readView();
    if (this.inspector.item !== null) this.inspector.touched(null, "update");
  }

  async readStats(): Promise<void> {
    await this.stats.run((signal) => this.#rpc.call("memory.stats", {}, { signal }));
    if (this.stats.data) this.timeline.set(this.stats.data.byMonth);
    else if (this.stats.error) this.timeline.error = this.stats.error;
  }

  #readView(): void {
    if (this.#shown === "list") this.list.soon();
    else if (this.#shown === "timeline") void this.readStats();
    else void this[this.#shown].page.reload();
  }

  #changed(ids: readonly string[] | null, op: string): void {
    this.inspector.touched(ids, op);
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      void this.readStats();
    }, statsMs);
    const grows = op === "add" || op === "import" || op === "documents";
    const view = this.#shown;
    // Results that are being read do not move because something was added.
    if (view === "list" && !(grows && this.list.query.searching && this.list.slots.length > 0)) this.list.soon();
    if ((view === "conversations" || view === "documents") && op !== "update") this[view].soon();
  }

  #put(items: readonly Memory[]): void {
    this.list.put(items);
    for (const m of items) this.inspector.put(m);
  }

  // — Actions —

  async #act<T>(failed: string, act: () => Promise<T>): Promise<T | null> {
    try {
      return await act();
    } catch (e) {
      this.#notify.error(e, failed);
      return null;
    }
  }

  #undo(token: string | undefined): () => Promise<unknown> {
    return () => this.#rpc.call("memory.undo", { undoToken: token ?? "" });
  }

  /** Announces that several memories were changed, with Undo if the backend can undo it. */
  #changedMany(title: string, token: string | undefined, undo?: () => Promise<unknown>): void {
    const back = token ? this.#undo(token) : undo;
    if (back) this.#notify.undo(title, async () => void (await back()));
    else this.#notify.ok(title);
  }

  /** Moves memories to the trash, with Undo. */
  async remove(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const some = ids.slice(0, maxIds);
    const shown = this.inspector.memory.data;
    const name = some.length > 1 ? "" : (this.list.row(some[0]!)?.name ?? (shown ? titleOf(shown) : ""));
    const r = await this.#act(t.cannotTrash, () => this.#rpc.call("memory.delete", { ids: [...some] }));
    if (!r) return;
    const selected = some.includes(this.selectedId ?? "");
    this.timeline.drop(some);
    const next = this.list.drop(some);
    if (selected) this.goTo(next);
    this.#notify.undo(name === "" ? t.manyToTrash(r.count) : t.toTrash(firstLine(name, 40)), async () => void (await this.#undo(r.undoToken)()), "", true);
  }

  /** Moves a conversation or a document to the trash, with Undo. */
  async removeParent(row: Pick<Row, "id" | "kind" | "name">): Promise<void> {
    const conversation = row.kind === "conversation";
    const list = conversation ? this.conversations : this.documents;
    let token = "";
    const removed = await list.remove(
      row.id,
      {
        act: async () => {
          const r = await (conversation ? this.#rpc.call("memory.delete_conversation", { id: row.id }) : this.#rpc.call("memory.delete_document", { documentId: row.id }));
          token = r.undoToken ?? "";
        },
        restore: () => this.#undo(token)(),
        done: t.toTrash(firstLine(row.name, 40)),
        trash: true,
        failed: t.cannotTrash,
      },
      this.#notify,
    );
    if (!removed || this.view !== "timeline") return;
    this.timeline.drop([row.id]);
    if (this.selectedId === row.id) this.goTo(null);
  }

  async pin(ids: readonly string[], on: boolean): Promise<void> {
    if (ids.length === 0) return;
    const r = await this.#act(on ? t.cannotPin : t.cannotUnpin, () => this.#rpc.call("memory.pin", { ids: [...ids], on }));
    if (!r) return;
    this.#put(r.items);
    if (ids.length > 1) this.#changedMany((on ? t.pinned : t.unpinned)(ids.length), r.undoToken, () => this.pin(ids, !on));
  }

  /** Pins or unpins memories, all like the first. */
  togglePin(ids: readonly string[]): Promise<void> {
    const first = ids[0];
    const shown = this.inspector.memory.data;
    const on = first !== undefined && (this.list.row(first)?.pinned ?? (shown?.id === first && shown.pinned));
    return this.pin(ids, !on);
  }

  async setTier(ids: readonly string[], tier: Tier): Promise<void> {
    if (ids.length === 0) return;
    const r = await this.#act(t.cannotSetSalience, () => this.#rpc.call("memory.set_salience", { ids: [...ids], tier }));
    if (!r) return;
    this.#put(r.items);
    if (ids.length > 1) this.#changedMany(t.salienceSet(t.salienceOf[tier], ids.length), r.undoToken);
  }

  /** Adds and removes tags. */
  async tag(ids: readonly string[], add: readonly string[], remove: readonly string[]): Promise<boolean> {
    if (ids.length === 0 || add.length + remove.length === 0) return true;
    const r = await this.#act(t.cannotTag, () => this.#rpc.call("memory.tag", { ids: [...ids], add: [...add], remove: [...remove] }));
    if (!r) return false;
    this.#put(r.items);
    if (ids.length > 1) this.#changedMany(t.tagsChanged(ids.length), r.undoToken);
    return true;
  }

  /** Sets whether the shown item is quoted to agents as untrusted. */
  async setUntrusted(untrusted: boolean): Promise<void> {
    const { item, memory, reader } = this.inspector;
    if (item === null) return;
    if (item.kind === "memory") {
      const m = memory.data;
      if (!m) return;
      const r = await this.#act(t.cannotTrust, () => this.#rpc.call("memory.update", { id: m.id, version: m.version, untrusted }));
      if (r) this.#put([r]);
      else void this.inspector.read();
      return;
    }
    const { id } = reader;
    const r = await this.#act(t.cannotTrust, () => this.#rpc.call("memory.set_untrusted", { untrusted, ...(reader.of === "conversation" ? { conversationId: id } : { documentId: id }) }));
    if (!r) return;
    void reader.reload();
    if (this.view !== "timeline") this.#readView();
  }

  /** Saves the edited memory, with Undo. */
  async save(mine = false): Promise<boolean> {
    const r = mine ? await this.edit.keepMine() : await this.edit.save();
    if (r === null) return this.edit.base === null;
    this.#put([r.after]);
    this.inspector.history.data = undefined;
    if (this.inspector.tab === "history") void this.inspector.readHistory();
    const { before, after } = r;
    this.#notify.undo(t.saved, async () => {
      this.#put([await this.#rpc.call("memory.update", { id: after.id, version: after.version, content: before.content, type: before.type, layer: before.layer ?? 0, occurredAt: before.occurredAt ?? null })]);
    });
    return true;
  }

  /** Restores the text and the tags of an earlier revision, with Undo. */
  async restoreRevision(rev: Revision): Promise<void> {
    const m = this.inspector.memory.data;
    if (!m) return;
    const after = await this.#act(t.cannotRestoreText, () => this.#rpc.call("memory.update", { id: m.id, version: m.version, content: rev.content, tags: rev.tags }));
    if (!after) return void this.inspector.read();
    this.#put([after]);
    this.inspector.revision = null;
    void this.inspector.readHistory();
    this.#notify.undo(t.textRestored, async () => {
      this.#put([await this.#rpc.call("memory.update", { id: after.id, version: after.version, content: m.content, tags: m.tags })]);
      if (this.inspector.tab === "history") void this.inspector.readHistory();
    });
  }

  /** Saves the sheet and shows the new memory. */
  async add(): Promise<string> {
    const r = await this.form.save();
    if (r === null) return "";
    if (r.known) this.#notify.ok(t.known, t.knownHelp);
    else this.#notify.ok(t.saved);
    nav.go(addressOf("list", itemWith("memory", r.memory.id)));
    return r.memory.id;
  }

  async pause(on: boolean): Promise<void> {
    await this.#act(on ? t.cannotPause : t.cannotResume, () => this.embedding.pause(on));
  }

  async retryFailed(): Promise<void> {
    await this.#act(t.cannotRetry, () => this.embedding.retry());
  }
}
