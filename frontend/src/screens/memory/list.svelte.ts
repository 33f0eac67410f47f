import { asError, type Params, type Rpc, type RpcError } from "../../lib/rpc";
import { Marks } from "../../lib/list/state";
import { Query } from "./query.svelte";
import { rowOfHit, rowOfMemory, type Row } from "./rows";
import type { Enhanced, Facets, Memory, Mode } from "./types";

export type Sort = "recent" | "occurred" | "salience";

/** Delay between the last key and the search. */
const typingMs = 80;
/** Several consecutive changes cause one read. */
const soonMs = 250;
/** Memories that are read at once. */
export const pageSize = 100;
/** Rows that are read before they come into view. */
const ahead = 30;
const hits = 50;
const mostHits = 100;

/** A row of the list; null until it was read. */
export interface Slot {
  key: string;
  row: Row | null;
}

/** Empty slots. A long list has many, so each is created once and shared by all lists. */
const blanks: Slot[] = [];
function blankRun(from: number, to: number): Slot[] {
  for (let i = blanks.length; i < to; i++) blanks.push({ key: `#${i}`, row: null });
  return blanks.slice(from, to);
}
const blank = (i: number): Slot => blankRun(i, i + 1)[0]!;

/** How the last search was done. */
export interface Answer {
  tookMs: number;
  mode: Mode;
  degraded: string;
  modelId: string;
}

/**
 * The list: search results, or without a search everything, latest first. Every memory has a slot from the
 * start, so that the scroll bar is correct; slots are read when they come into view.
 */
export class MemoryList {
  readonly query = new Query();
  sort = $state<Sort>("recent");
  slots = $state.raw<readonly Slot[]>([]);
  total = $state(0);
  error = $state.raw<RpcError | undefined>(undefined);
  busy = $state(false);
  loaded = $state(false);
  answer = $state.raw<Answer | null>(null);
  facets = $state.raw<Facets | null>(null);
  /** Rows selected together for one action. */
  readonly marks = new Marks();
  /** The search of the shown results; "" for none. */
  shownFor = $state("");
  readonly #rpc: Rpc;
  #abort: AbortController | undefined;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #soon: ReturnType<typeof setTimeout> | undefined;
  /** Incremented whenever loaded pages may be out of date. */
  #age = 0;
  #read = new Map<number, number>();
  readonly #pages = new Map<number, AbortController>();
  /** A page that is read because a key moved to it, wherever the list is scrolled. */
  #wanted = -1;
  /** The index of each loaded row; it is verified against the slots. */
  readonly #at = new Map<string, number>();
  #seen: [number, number] = [0, 1];
  #limit = hits;

  readonly #selectedId: () => string | null;

  /** `selectedId` is the row in the address. */
  constructor(rpc: Rpc, selectedId: () => string | null = () => null) {
    this.#rpc = rpc;
    this.#selectedId = selectedId;
    this.query.changed = () => void this.run();
  }

  get selectedId(): string | null {
    return this.#selectedId();
  }
  readonly selected = $derived.by(() => (this.selectedId === null ? null : this.row(this.selectedId)));
  readonly first = $derived(!this.loaded && !this.error);
  readonly empty = $derived(this.loaded && this.slots.length === 0);
  /** There may be more hits than are shown. */
  readonly mayBeMore = $derived(this.shownFor !== "" && this.slots.length >= hits && this.slots.length < mostHits);

  row(id: string): Row | null {
    const { slots } = this;
    const row = slots[this.#at.get(id) ?? -1]?.row;
    return row?.id === id ? row : null;
  }

  /** The index of a row; -1 if unknown. */
  placeOf(id: string | null): number {
    return id !== null && this.row(id) !== null ? this.#at.get(id)! : -1;
  }

  /** Replaces all slots. */
  #set(slots: readonly Slot[]): void {
    this.#at.clear();
    slots.forEach((s, i) => s.row !== null && this.#at.set(s.row.id, i));
    this.slots = slots;
  }

  stop(): void {
    clearTimeout(this.#typing);
    clearTimeout(this.#soon);
    this.#soon = undefined;
    this.#abort?.abort();
    this.#abort = undefined;
    this.busy = false;
  }

  /** Searches when typing pauses; an older search is canceled. */
  type(text: string): void {
    this.query.text = text;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.run(), typingMs);
  }

  setMode(m: Mode): void {
    this.query.mode = m;
    if (this.query.searching) void this.run();
  }

  setSort(s: Sort): void {
    this.sort = s;
    void this.run();
  }

  clear(): void {
    this.query.text = "";
    this.query.clear();
  }

  /** Searches, or lists from the start. */
  run(): Promise<void> {
    clearTimeout(this.#typing);
    this.#limit = hits;
    this.marks.clear();
    this.#seen = [0, 1];
    return this.#again();
  }

  /** Shows more hits. */
  more(): Promise<void> {
    this.#limit = mostHits;
    return this.#search();
  }

  /** Reads again soon; many consecutive changes, as during an import, cause one read. */
  soon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      void this.#again();
    }, soonMs);
  }

  #again(): Promise<void> {
    this.#age++;
    return this.query.searching ? this.#search() : this.#browse();
  }

  async #search(): Promise<void> {
    const abort = this.#begin();
    const words = this.query.words;
    const filters = this.query.wire();
    const params: Params<"memory.search_enhanced"> = { query: words, limit: this.#limit, mode: this.query.mode, facets: true, expand: 1, ...(filters ? { filters } : {}) };
    try {
      const r: Enhanced = await this.#rpc.call("memory.search_enhanced", params, { signal: abort.signal });
      if (this.#abort !== abort) return;
      this.#set(r.results.map((h) => ({ key: h.id, row: rowOfHit(h) })));
      this.total = r.results.length;
      this.facets = r.facets ?? null;
      this.answer = { tookMs: r.tookMs, mode: r.mode as Mode, degraded: r.degraded ?? "", modelId: r.modelId };
      this.shownFor = words;
      this.error = undefined;
      this.loaded = true;
    } catch (e) {
      this.#failed(abort, e);
    } finally {
      this.#end(abort);
    }
  }

  async #browse(): Promise<void> {
    const abort = this.#begin();
    this.#forget(() => true);
    if (this.shownFor !== "" || this.answer !== null) this.#seen = [0, 1];
    const from = Math.floor(this.#seen[0] / pageSize);
    const to = Math.floor(Math.max(this.#seen[0], this.#seen[1] - 1) / pageSize);
    try {
      for (let n = from; n <= to; n++) {
        const page = await this.#page(n, abort.signal);
        if (this.#abort !== abort) return;
        const anew = this.shownFor !== "" || !this.loaded;
        this.answer = null;
        this.facets = null;
        this.shownFor = "";
        this.#put(n, page.items, page.total, anew);
        this.error = undefined;
        this.loaded = true;
      }
    } catch (e) {
      this.#failed(abort, e);
    } finally {
      this.#end(abort);
    }
  }

  /** Reads what comes into view. Pages that were scrolled past are canceled. */
  ensure(from: number, to: number): void {
    if (this.shownFor !== "" || this.query.searching) return;
    this.#seen = [Math.max(0, from), Math.max(1, to)];
    const first = Math.floor(Math.max(0, from - ahead) / pageSize);
    const last = Math.floor((Math.min(this.slots.length, to + ahead) - 1) / pageSize);
    this.#forget((n) => n !== this.#wanted && (n < first || n > last));
    for (let n = first; n <= last; n++) {
      if (this.#pages.has(n) || this.#read.get(n) === this.#age) continue;
      void this.#fill(n);
    }
  }

  /** Cancels pages that are being read. */
  #forget(which: (n: number) => boolean): void {
    for (const [n, abort] of this.#pages) {
      if (!which(n)) continue;
      this.#pages.delete(n);
      abort.abort();
    }
  }

  /** Reads an empty slot that a key moved to; returns its row. */
  async reach(slot: Slot): Promise<Row | null> {
    const at = Number(slot.key.slice(1));
    if (slot.row !== null || !Number.isInteger(at)) return slot.row;
    this.#wanted = Math.floor(at / pageSize);
    await this.#fill(this.#wanted);
    this.#wanted = -1;
    return this.slots[at]?.row ?? null;
  }

  async #fill(n: number): Promise<void> {
    const age = this.#age;
    const abort = new AbortController();
    this.#pages.get(n)?.abort();
    this.#pages.set(n, abort);
    try {
      const page = await this.#page(n, abort.signal);
      if (age === this.#age && !this.query.searching) this.#put(n, page.items, page.total, false);
    } catch (e) {
      const err = asError(e);
      if (age === this.#age && err.kind !== "canceled") this.error = err;
    } finally {
      if (this.#pages.get(n) === abort) this.#pages.delete(n);
    }
  }

  #page(n: number, signal?: AbortSignal): Promise<{ items: readonly Memory[]; total: number }> {
    const filters = this.query.wire();
    return this.#rpc.call("memory.list", { limit: pageSize, offset: n * pageSize, sort: this.sort, ...(filters ? { filters } : {}) }, signal ? { signal } : {});
  }

  #put(n: number, items: readonly Memory[], total: number, anew: boolean): void {
    const had = anew ? [] : this.slots.slice(0, total);
    const next = had.length < total ? had.concat(blankRun(had.length, total)) : had;
    if (anew) this.#at.clear();
    // The old slot of a row that moved becomes empty, and is read again when it comes into view.
    for (const m of items) {
      const at = this.#at.get(m.id);
      if (at !== undefined && next[at]?.key === m.id) next[at] = blank(at);
    }
    items.forEach((m, i) => {
      const at = n * pageSize + i;
      if (at >= next.length) return;
      next[at] = { key: m.id, row: rowOfMemory(m) };
      this.#at.set(m.id, at);
    });
    this.slots = next;
    this.total = total;
    this.#read.set(n, this.#age);
  }

  #begin(): AbortController {
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.busy = true;
    return abort;
  }

  #end(abort: AbortController): void {
    if (this.#abort !== abort) return;
    this.#abort = undefined;
    this.busy = false;
  }

  #failed(abort: AbortController, e: unknown): void {
    const err = asError(e);
    if (this.#abort !== abort || err.kind === "canceled") return;
    this.error = err;
    this.loaded = true;
  }

  /** Replaces memories by the backend's answer, so that their rows change at once. */
  put(items: readonly Memory[]): void {
    const by = new Map(items.map((m) => [m.id, m]));
    if (by.size === 0) return;
    this.slots = this.slots.map((s) => {
      const m = s.row === null ? undefined : by.get(s.key);
      if (!m || s.row === null) return s;
      const fresh = rowOfMemory(m);
      // A hit keeps its snippet and scores; only its attributes change.
      return { key: s.key, row: s.row.hit ? { ...s.row, tags: fresh.tags, pinned: fresh.pinned, tier: fresh.tier, untrusted: fresh.untrusted, memory: m } : fresh };
    });
  }

  /** Removes rows; returns the one to select next if the selected one is among them. */
  drop(ids: readonly string[]): Row | null {
    const gone = new Set(ids);
    const selected = this.selectedId !== null && gone.has(this.selectedId);
    const at = this.placeOf(this.selectedId);
    this.#age++;
    this.#abort?.abort();
    this.#abort = undefined;
    this.busy = false;
    const left = this.slots.filter((s) => s.row === null || !gone.has(s.row.id));
    const next = this.slots.slice(at + 1).find((s) => s.row !== null && !gone.has(s.row.id)) ?? left[left.length - 1];
    this.total = Math.max(0, this.total - (this.slots.length - left.length));
    this.#set(left.map((s, i) => (s.row === null ? blank(i) : s)));
    this.marks.drop(ids);
    return selected ? (next?.row ?? null) : null;
  }

  /** Selects a row for an action on several, or deselects it. */
  mark(id: string): void {
    if (this.row(id)?.kind === "memory") this.marks.toggle(id);
  }
}
