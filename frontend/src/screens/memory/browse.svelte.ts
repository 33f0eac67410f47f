import type { Rpc } from "../../lib/rpc";
import { Paged } from "../../lib/ui/state";
import { rowOfConversation, rowOfDocument, rowOfMemory, type Row } from "./rows";
import type { PageParams } from "./types";

const TYPING_MS = 150;
const SOON_MS = 400;
const SIZE = 100;

/** A list of conversations or of documents, by title, latest first. */
export class Browse {
  query = $state("");
  selectedId = $state<string | null>(null);
  readonly page: Paged<Row>;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #soon: ReturnType<typeof setTimeout> | undefined;
  readonly filtered = $derived(this.query.trim() !== "");

  constructor(rpc: Rpc, of: "conversations" | "documents") {
    this.page = new Paged<Row>(async (offset, limit, signal) => {
      const params: PageParams = { limit, offset };
      if (this.filtered) params.query = this.query.trim();
      if (of === "conversations") {
        const r = await rpc.call("memory.conversations", params, { signal });
        return { items: r.conversations.map(rowOfConversation), total: r.total };
      }
      const r = await rpc.call("memory.list_documents", params, { signal });
      return { items: r.documents.map(rowOfDocument), total: r.total };
    }, SIZE);
  }

  stop(): void {
    clearTimeout(this.#typing);
    clearTimeout(this.#soon);
    this.#soon = undefined;
  }

  search(text: string): void {
    this.query = text;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.page.restart(), TYPING_MS);
  }

  /** Reads again in a moment; many changes in a row are one read. */
  soon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      void this.page.reload();
    }, SOON_MS);
  }

  /** Takes a row out; answers the one that is chosen instead, if it was the chosen one. */
  drop(id: string): Row | null {
    const at = this.page.items.findIndex((r) => r.id === id);
    if (at < 0) return null;
    const left = this.page.items.filter((r) => r.id !== id);
    this.page.items = left;
    this.page.total = Math.max(0, this.page.total - 1);
    if (this.selectedId !== id) return null;
    const next = left[Math.min(at, left.length - 1)] ?? null;
    this.selectedId = next?.id ?? null;
    return next;
  }
}

/** What was deleted and can still be brought back: memories, conversations and documents, the latest first. */
export class Trash {
  marked = $state.raw<ReadonlySet<string>>(new Set());
  selectedId = $state<string | null>(null);
  readonly memories: Paged<Row>;
  readonly conversations: Paged<Row>;
  readonly documents: Paged<Row>;
  #soon: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc) {
    this.memories = new Paged<Row>(async (offset, limit, signal) => {
      const r = await rpc.call("memory.list", { limit, offset, trash: true }, { signal });
      return { items: r.items.map(rowOfMemory), total: r.total };
    }, SIZE);
    this.conversations = new Paged<Row>(async (offset, limit, signal) => {
      const r = await rpc.call("memory.conversations", { limit, offset, trash: true }, { signal });
      return { items: r.conversations.map(rowOfConversation), total: r.total };
    }, SIZE);
    this.documents = new Paged<Row>(async (offset, limit, signal) => {
      const r = await rpc.call("memory.list_documents", { limit, offset, trash: true }, { signal });
      return { items: r.documents.map(rowOfDocument), total: r.total };
    }, SIZE);
  }

  get #all(): readonly Paged<Row>[] {
    return [this.memories, this.conversations, this.documents];
  }

  readonly total = $derived.by(() => this.#all.reduce((n, p) => n + p.total, 0));
  readonly first = $derived.by(() => this.#all.some((p) => p.first));
  readonly error = $derived.by(() => this.#all.find((p) => p.error)?.error);
  readonly rows = $derived.by(() => {
    // What is not yet read of one list must not be overtaken by what follows in the others.
    const ends = this.#all.filter((p) => p.items.length < p.total).map((p) => p.items[p.items.length - 1]?.deletedAt ?? "");
    const from = ends.length === 0 ? "" : ends.reduce((a, b) => (a > b ? a : b));
    return this.#all
      .flatMap((p) => p.items)
      .filter((r) => r.deletedAt >= from)
      .sort((a, b) => (a.deletedAt < b.deletedAt ? 1 : a.deletedAt > b.deletedAt ? -1 : a.id < b.id ? 1 : -1));
  });
  readonly selected = $derived(this.rows.find((r) => r.id === this.selectedId) ?? null);
  /** What is marked, else what is chosen. */
  readonly targets = $derived.by(() => (this.marked.size > 0 ? this.rows.filter((r) => this.marked.has(r.id)) : this.selected ? [this.selected] : []));

  stop(): void {
    clearTimeout(this.#soon);
    this.#soon = undefined;
  }

  async reload(): Promise<void> {
    await Promise.all(this.#all.map((p) => p.reload()));
    const there = new Set(this.rows.map((r) => r.id));
    if ([...this.marked].some((id) => !there.has(id))) this.marked = new Set([...this.marked].filter((id) => there.has(id)));
  }

  soon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      void this.reload();
    }, SOON_MS);
  }

  async more(): Promise<void> {
    await Promise.all(this.#all.map((p) => p.more()));
  }

  mark(id: string): void {
    const set = new Set(this.marked);
    if (!set.delete(id)) set.add(id);
    this.marked = set;
  }

  /** Takes rows out; the one after the chosen is chosen. */
  drop(ids: readonly string[]): void {
    const gone = new Set(ids);
    const at = this.rows.findIndex((r) => r.id === this.selectedId);
    const goes = this.selectedId !== null && gone.has(this.selectedId);
    for (const p of this.#all) {
      const left = p.items.filter((r) => !gone.has(r.id));
      p.total = Math.max(0, p.total - (p.items.length - left.length));
      p.items = left;
    }
    this.marked = new Set([...this.marked].filter((id) => !gone.has(id)));
    if (goes) this.selectedId = this.rows[Math.min(at, this.rows.length - 1)]?.id ?? null;
  }
}
