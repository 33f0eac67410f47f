import { asError, type Rpc, type RpcError } from "../../lib/rpc";
import { rowOfConversation, rowOfDocument, rowOfMemory, type Row } from "./rows";
import type { Count, Filters } from "./types";
import { monthSpan } from "./words";

/** A line of the timeline: the heading of a month, a row, the rest of a month, or a month that was not read. */
export type Line =
  | { key: string; month: string; count: number; kind: "month" }
  | { key: string; month: string; row: Row; kind: "row" }
  | { key: string; month: string; left: number; kind: "more" }
  | { key: string; month: string; kind: "wait" };

const size = 100;

interface Month {
  rows: readonly Row[];
  total: number;
  loaded: boolean;
  /** The version of the counts when it was read. */
  age: number;
  /** How many items of each list were read. */
  read: { memories: number; conversations: number; documents: number };
  left: { memories: number; conversations: number; documents: number };
}

const none: Month = { rows: [], total: 0, loaded: false, age: 0, read: { memories: 0, conversations: 0, documents: 0 }, left: { memories: 1, conversations: 1, documents: 1 } };

/** Everything that has a date, by month. A month is read when it comes into view. */
export class Timeline {
  /** Months with items, latest first, as counted by the backend. */
  months = $state.raw<readonly Count[]>([]);
  error = $state.raw<RpcError | undefined>(undefined);
  loaded = $state(false);
  #data = $state.raw<ReadonlyMap<string, Month>>(new Map());
  readonly #rpc: Rpc;
  readonly #busy = new Set<string>();
  #age = 0;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly lines = $derived.by((): Line[] => {
    const out: Line[] = [];
    for (const m of this.months) {
      const data = this.#data.get(m.value);
      const [month, wait] = this.#headOf(m);
      out.push(month);
      if (!data?.loaded) out.push(wait);
      else for (const l of this.#linesOf(m.value, data)) out.push(l);
    }
    return out;
  });
  /** Unchanged lines keep their identity, so that they are not drawn again. */
  readonly #heads = new WeakMap<Count, [Line, Line]>();
  readonly #made = new WeakMap<Month, Line[]>();

  #headOf(m: Count): [Line, Line] {
    let two = this.#heads.get(m);
    if (!two) {
      two = [
        { key: `m:${m.value}`, month: m.value, count: m.count, kind: "month" },
        { key: `w:${m.value}`, month: m.value, kind: "wait" },
      ];
      this.#heads.set(m, two);
    }
    return two;
  }

  #linesOf(month: string, data: Month): Line[] {
    let lines = this.#made.get(data);
    if (!lines) {
      lines = data.rows.map((row): Line => ({ key: row.id, month, row, kind: "row" }));
      const left = data.total - data.rows.length;
      if (left > 0) lines.push({ key: `+:${month}`, month, left, kind: "more" });
      this.#made.set(data, lines);
    }
    return lines;
  }

  readonly empty = $derived(this.loaded && this.months.length === 0);
  readonly years = $derived([...new Set(this.months.map((m) => m.value.slice(0, 4)).filter((y) => y !== ""))]);

  row(id: string): Row | null {
    for (const l of this.lines) if (l.kind === "row" && l.row.id === id) return l.row;
    return null;
  }

  /** Sets the months from the counts; a month is read again when it comes into view. */
  set(months: readonly Count[]): void {
    const known = months.filter((m) => m.count > 0 && m.value !== "").sort((a, b) => (a.value < b.value ? 1 : -1));
    this.months = known;
    this.loaded = true;
    this.#age++;
    this.#busy.clear();
    // Rows stay until the new ones were read, so that nothing jumps.
    const there = new Set(known.map((m) => m.value));
    this.#data = new Map([...this.#data].filter(([m]) => there.has(m)));
  }

  /** Reads a month that comes into view, unless it was read since the last counts. */
  ensure(month: string): void {
    if (month !== "" && this.#data.get(month)?.age !== this.#age) void this.#read(month, true);
  }

  /** Reads further in a month. */
  more(month: string): Promise<void> {
    return this.#read(month, false);
  }

  async #read(month: string, anew: boolean): Promise<void> {
    if (this.#busy.has(month)) return;
    this.#busy.add(month);
    const age = this.#age;
    const had = anew ? none : (this.#data.get(month) ?? none);
    const span = monthSpan(month);
    const filters: Filters = { ...span };
    try {
      const [m, c, d] = await Promise.all([
        had.left.memories > 0 ? this.#rpc.call("memory.list", { limit: size, offset: had.read.memories, sort: "occurred", filters }) : null,
        had.left.conversations > 0 ? this.#rpc.call("memory.conversations", { limit: size, offset: had.read.conversations, ...span }) : null,
        had.left.documents > 0 ? this.#rpc.call("memory.list_documents", { limit: size, offset: had.read.documents, ...span }) : null,
      ]);
      if (age !== this.#age) return;
      // A conversation of several months is listed in the last of them.
      const rows = [...had.rows, ...(m?.items.map(rowOfMemory) ?? []), ...(c?.conversations.map(rowOfConversation).filter((r) => r.at < span.to) ?? []), ...(d?.documents.map(rowOfDocument) ?? [])];
      rows.sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
      const read = { memories: had.read.memories + (m?.items.length ?? 0), conversations: had.read.conversations + (c?.conversations.length ?? 0), documents: had.read.documents + (d?.documents.length ?? 0) };
      const left = {
        memories: m === null || m.items.length === 0 ? 0 : m.total - read.memories,
        conversations: c === null || c.conversations.length === 0 ? 0 : c.total - read.conversations,
        documents: d === null || d.documents.length === 0 ? 0 : d.total - read.documents,
      };
      const total = rows.length + left.memories + left.conversations + left.documents;
      this.#data = new Map(this.#data).set(month, { rows, total, loaded: true, age, read, left });
      this.error = undefined;
    } catch (e) {
      const err = asError(e);
      if (age === this.#age && err.kind !== "canceled") this.error = err;
    } finally {
      if (age === this.#age) this.#busy.delete(month);
    }
  }

  /** Removes rows at once, before the backend responds. */
  drop(ids: readonly string[]): void {
    const gone = new Set(ids);
    this.#data = new Map([...this.#data].map(([m, d]) => [m, d.rows.some((r) => gone.has(r.id)) ? { ...d, rows: d.rows.filter((r) => !gone.has(r.id)), total: d.total - d.rows.filter((r) => gone.has(r.id)).length } : d]));
  }
}
