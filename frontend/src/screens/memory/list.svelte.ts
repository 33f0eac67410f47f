import { asError, type Params, type Rpc, type RpcError } from "../../lib/rpc";
import { Query } from "./query.svelte";
import { rowOfHit, rowOfMemory, type Row } from "./rows";
import type { Enhanced, Facets, Memory, Mode } from "./types";

export type Sort = "recent" | "occurred" | "salience";

/** From the last key to the search. */
const TYPING_MS = 80;
/** Changes that come in a row are one read. */
const SOON_MS = 250;
/** Memories that are read at once. */
export const PAGE = 100;
/** Rows that are read before they come into view. */
const AHEAD = 30;
const HITS = 50;
const MOST_HITS = 100;

/** A line of the list; empty while what belongs there has not been read. */
export interface Slot {
  key: string;
  row: Row | null;
}

/** Slots that wait to be filled. A long list takes many, and each is the same for all of them. */
const blanks: Slot[] = [];
function blankRun(from: number, to: number): Slot[] {
  for (let i = blanks.length; i < to; i++) blanks.push({ key: `#${i}`, row: null });
  return blanks.slice(from, to);
}
const blank = (i: number): Slot => blankRun(i, i + 1)[0]!;

/** What the last search said about itself. */
export interface Answer {
  tookMs: number;
  mode: Mode;
  degraded: string;
  modelId: string;
}

/**
 * The list: what was found, or without a search everything, latest first. All of it has a place
 * from the start, so that the scroll bar tells the truth; what is looked at is read.
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
  selectedId = $state<string | null>(null);
  /** Rows taken together for one act. */
  marked = $state.raw<ReadonlySet<string>>(new Set());
  /** The answer that is shown is one to this search; "" for none. */
  shownFor = $state("");
  readonly #rpc: Rpc;
  #abort: AbortController | undefined;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #soon: ReturnType<typeof setTimeout> | undefined;
  /** Grows whenever what was read may be out of date. */
  #age = 0;
  #read = new Map<number, number>();
  readonly #pages = new Map<number, AbortController>();
  /** A page that is read because a key leads there, wherever the list is. */
  #wanted = -1;
  /** Where the rows stand that were read; what it says is checked against the slots. */
  readonly #at = new Map<string, number>();
  #seen: [number, number] = [0, 1];
  #limit = HITS;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.query.changed = () => void this.run();
  }

  readonly selected = $derived(this.selectedId === null ? null : this.row(this.selectedId));
  readonly first = $derived(!this.loaded && !this.error);
  readonly empty = $derived(this.loaded && this.slots.length === 0);
  /** There may be more hits than are shown. */
  readonly mayBeMore = $derived(this.shownFor !== "" && this.slots.length >= HITS && this.slots.length < MOST_HITS);

  row(id: string): Row | null {
    const { slots } = this;
    const row = slots[this.#at.get(id) ?? -1]?.row;
    return row?.id === id ? row : null;
  }

  /** Where a row stands; -1 when it is not known. */
  placeOf(id: string | null): number {
    return id !== null && this.row(id) !== null ? this.#at.get(id)! : -1;
  }

  /** Replaces all slots. */
  #set(slots: readonly Slot[]): void {
    this.#at.clear();
    slots.forEach((s, i) => s.row !== null && this.#at.set(s.row.id, i));
    this.slots = slots;
  }

  /** What the next act is about: what is marked, else what is chosen. Only memories can be changed. */
  readonly targets = $derived.by((): string[] => {
    if (this.marked.size > 0) return [...this.marked];
    return this.selected?.kind === "memory" ? [this.selected.id] : [];
  });

  stop(): void {
    clearTimeout(this.#typing);
    clearTimeout(this.#soon);
    this.#soon = undefined;
    this.#abort?.abort();
    this.#abort = undefined;
    this.busy = false;
  }

  /** Takes what is typed; the search follows in a moment, and an older one is given up. */
  type(text: string): void {
    this.query.text = text;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.run(), TYPING_MS);
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
    this.#limit = HITS;
    this.marked = new Set();
    this.#seen = [0, 1];
    return this.#again();
  }

  /** Shows more of what was found. */
  more(): Promise<void> {
    this.#limit = MOST_HITS;
    return this.#search();
  }

  /** Reads again in a moment; many changes in a row, as during an import, are one read. */
  soon(): void {
    this.#soon ??= setTimeout(() => {
      this.#soon = undefined;
      void this.#again();
    }, SOON_MS);
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
    const from = Math.floor(this.#seen[0] / PAGE);
    const to = Math.floor(Math.max(this.#seen[0], this.#seen[1] - 1) / PAGE);
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

  /** Reads what comes into view; what went by before it was read is left. */
  ensure(from: number, to: number): void {
    if (this.shownFor !== "" || this.query.searching) return;
    this.#seen = [Math.max(0, from), Math.max(1, to)];
    const first = Math.floor(Math.max(0, from - AHEAD) / PAGE);
    const last = Math.floor((Math.min(this.slots.length, to + AHEAD) - 1) / PAGE);
    this.#forget((n) => n !== this.#wanted && (n < first || n > last));
    for (let n = first; n <= last; n++) {
      if (this.#pages.has(n) || this.#read.get(n) === this.#age) continue;
      void this.#fill(n);
    }
  }

  /** Gives up pages that are being read. */
  #forget(which: (n: number) => boolean): void {
    for (const [n, abort] of this.#pages) {
      if (!which(n)) continue;
      this.#pages.delete(n);
      abort.abort();
    }
  }

  /** Reads the place of an empty slot, for a key that leads there; answers what stands in it. */
  async reach(slot: Slot): Promise<Row | null> {
    const at = Number(slot.key.slice(1));
    if (slot.row !== null || !Number.isInteger(at)) return slot.row;
    this.#wanted = Math.floor(at / PAGE);
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
    return this.#rpc.call("memory.list", { limit: PAGE, offset: n * PAGE, sort: this.sort, ...(filters ? { filters } : {}) }, signal ? { signal } : {});
  }

  #put(n: number, items: readonly Memory[], total: number, anew: boolean): void {
    const had = anew ? [] : this.slots.slice(0, total);
    const next = had.length < total ? had.concat(blankRun(had.length, total)) : had;
    if (anew) this.#at.clear();
    // A row that moved leaves its old place, which is read again when it is looked at.
    for (const m of items) {
      const at = this.#at.get(m.id);
      if (at !== undefined && next[at]?.key === m.id) next[at] = blank(at);
    }
    items.forEach((m, i) => {
      const at = n * PAGE + i;
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

  /** Takes over what the backend answered for some memories, so that their rows change at once. */
  put(items: readonly Memory[]): void {
    const by = new Map(items.map((m) => [m.id, m]));
    if (by.size === 0) return;
    this.slots = this.slots.map((s) => {
      const m = s.row === null ? undefined : by.get(s.key);
      if (!m || s.row === null) return s;
      const fresh = rowOfMemory(m);
      // What was found keeps its words and why; only its marks change.
      return { key: s.key, row: s.row.hit ? { ...s.row, tags: fresh.tags, pinned: fresh.pinned, tier: fresh.tier, untrusted: fresh.untrusted, memory: m } : fresh };
    });
  }

  /** Takes rows out; the one after the chosen is chosen. Answers which that is. */
  drop(ids: readonly string[]): Row | null {
    const gone = new Set(ids);
    const at = this.slots.findIndex((s) => s.row !== null && s.row.id === this.selectedId);
    const chosenGoes = this.selectedId !== null && gone.has(this.selectedId);
    this.#age++;
    this.#abort?.abort();
    this.#abort = undefined;
    this.busy = false;
    const left = this.slots.filter((s) => s.row === null || !gone.has(s.row.id));
    let next: Row | null = null;
    if (chosenGoes) {
      const after = this.slots.slice(at + 1).find((s) => s.row !== null && !gone.has(s.row.id)) ?? left[left.length - 1];
      next = after?.row ?? null;
      this.selectedId = next?.id ?? null;
    }
    this.total = Math.max(0, this.total - (this.slots.length - left.length));
    this.#set(left.map((s, i) => (s.row === null ? blank(i) : s)));
    this.marked = new Set([...this.marked].filter((id) => !gone.has(id)));
    return chosenGoes ? next : null;
  }

  /** Marks or unmarks a row for an act on several. */
  mark(id: string): void {
    if (this.row(id)?.kind !== "memory") return;
    const set = new Set(this.marked);
    if (!set.delete(id)) set.add(id);
    this.marked = set;
  }

  unmark(): void {
    this.marked = new Set();
  }
}
