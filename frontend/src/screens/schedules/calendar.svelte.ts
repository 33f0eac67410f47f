import type { Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import { t } from "./messages";
import type { CalendarItem, Schedule } from "./types";
import { markOf, scheduleName, type MarkKind } from "./words";

export type Span = "week" | "month";

/** A day with more marks than this shows counts instead. */
export const MOST_MARKS = 200;

/** One due time, or several of the same kind and day. */
export interface Mark {
  key: string;
  kind: MarkKind;
  at: string;
  runId: string;
  count: number;
}

/** One day of one schedule. */
export interface Cell {
  day: number;
  marks: Mark[];
  /** Shown as counts, because there are too many. */
  folded: boolean;
}

export interface CalendarRow {
  scheduleId: string;
  name: string;
  cells: Cell[];
}

const order: readonly MarkKind[] = ["succeeded", "failed", "running", "missed", "skipped", "canceled", "planned"];

/** Local midnight. */
export function dayStart(when: number | Date): Date {
  const d = new Date(when);
  d.setHours(0, 0, 0, 0);
  return d;
}

/** The days of a week from Monday, or of a month. */
export function daysOf(span: Span, anchor: Date): Date[] {
  const first = dayStart(anchor);
  if (span === "month") first.setDate(1);
  else first.setDate(first.getDate() - ((first.getDay() + 6) % 7));
  const last = new Date(first);
  if (span === "month") last.setMonth(last.getMonth() + 1);
  else last.setDate(last.getDate() + 7);
  const out: Date[] = [];
  for (let d = new Date(first); d < last; d = new Date(d.getFullYear(), d.getMonth(), d.getDate() + 1)) out.push(d);
  return out;
}

/** Arranges items in rows and days. `fits` is how many marks fit into one day of a row. */
export function arrange(items: readonly CalendarItem[], days: readonly Date[], names: ReadonlyMap<string, string>, fits: number): CalendarRow[] {
  const rows = new Map<string, CalendarRow>();
  const ends = days.map((d, i) => (days[i + 1] ?? new Date(d.getFullYear(), d.getMonth(), d.getDate() + 1)).getTime());
  const row = (id: string): CalendarRow => {
    let r = rows.get(id);
    if (!r) rows.set(id, (r = { scheduleId: id, name: names.get(id) ?? t.deletedSchedule, cells: days.map((_, day) => ({ day, marks: [], folded: false })) }));
    return r;
  };
  for (const id of names.keys()) row(id);
  const perDay = days.map(() => 0);
  for (const item of items) {
    const t = Date.parse(item.at);
    const day = days.length > 0 && t >= days[0]!.getTime() ? ends.findIndex((e) => t < e) : -1;
    if (day < 0) continue;
    const count = item.count ?? 1;
    perDay[day]! += count;
    row(item.scheduleId).cells[day]!.marks.push({ key: `${item.scheduleId}|${item.at}|${item.kind}|${item.runId ?? ""}`, kind: markOf(item.kind), at: item.at, runId: item.runId ?? "", count });
  }
  for (const r of rows.values()) {
    for (const c of r.cells) {
      c.marks.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
      if (perDay[c.day]! > MOST_MARKS || c.marks.length > fits || c.marks.some((m) => m.count > 1)) fold(r.scheduleId, c);
    }
  }
  return [...rows.values()];
}

/** Replaces the marks of a day by one per kind, with its count. */
function fold(id: string, c: Cell): void {
  const sums = new Map<MarkKind, Mark>();
  for (const m of c.marks) {
    const sum = sums.get(m.kind);
    if (sum) sum.count += m.count;
    else sums.set(m.kind, { ...m, key: `${id}|${c.day}|${m.kind}`, runId: m.count === 1 ? m.runId : "" });
  }
  c.marks = order.flatMap((k) => sums.get(k) ?? []);
  for (const m of c.marks) if (m.count > 1) m.runId = "";
  c.folded = true;
}

/** The calendar strip: a week or a month, one row per schedule. */
export class CalendarState {
  span = $state<Span>("week");
  /** A time within the shown range. */
  anchor = $state.raw(dayStart(Date.now()));
  readonly items = new Load<{ items: readonly CalendarItem[]; truncated: boolean }>();
  readonly schedules = new Load<readonly Schedule[]>();
  /** How many marks fit into a day; measured by the component. */
  fits = $state(12);
  /** Key of the focused mark. */
  at = $state("");
  readonly #rpc: Rpc;
  #soon: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly days = $derived(daysOf(this.span, this.anchor));
  readonly names = $derived.by(() => new Map((this.schedules.data ?? []).map((s) => [s.scheduleId, scheduleName(s)])));
  readonly rows = $derived(arrange(this.items.data?.items ?? [], this.days, this.names, this.fits));

  async read(): Promise<void> {
    const days = this.days;
    const from = days[0]!;
    const last = days.at(-1)!;
    const to = new Date(last.getFullYear(), last.getMonth(), last.getDate() + 1);
    await Promise.all([
      this.items.run((signal) => this.#rpc.call("schedules.calendar", { from: from.toISOString(), to: to.toISOString() }, { signal })),
      this.schedules.run(async (signal) => (await this.#rpc.call("schedules.list", { limit: 100, offset: 0 }, { signal })).schedules),
    ]);
  }

  soon(): void {
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => void this.read(), 150);
  }

  stop(): void {
    clearTimeout(this.#soon);
  }

  setSpan(span: Span): void {
    this.span = span;
    this.items.data = undefined;
    void this.read();
  }

  /** Goes a week or a month forward, or back. */
  turn(by: number): void {
    const d = this.anchor;
    this.anchor = this.span === "month" ? new Date(d.getFullYear(), d.getMonth() + by, 1) : new Date(d.getFullYear(), d.getMonth(), d.getDate() + 7 * by);
    this.items.data = undefined;
    void this.read();
  }

  today(): void {
    this.anchor = dayStart(Date.now());
    this.items.data = undefined;
    void this.read();
  }

  /** The focused mark with its position; null if there is none. */
  find(key = this.at): { row: number; mark: Mark; cell: Cell } | null {
    for (const [row, r] of this.rows.entries()) for (const cell of r.cells) for (const mark of cell.marks) if (mark.key === key) return { row, mark, cell };
    return null;
  }

  /** Moves along a row, or to the nearest mark of another row. */
  move(dx: number, dy: number): void {
    const rows = this.rows.map((r) => r.cells.flatMap((c) => c.marks));
    const here = this.find();
    if (!here) {
      const first = this.#nearest(rows.find((r) => r.length > 0) ?? [], new Date().toISOString());
      if (first) this.at = first.key;
      return;
    }
    if (dx !== 0) {
      const row = rows[here.row]!;
      const next = row[row.findIndex((m) => m.key === here.mark.key) + dx];
      if (next) this.at = next.key;
      return;
    }
    for (let r = here.row + dy; r >= 0 && r < rows.length; r += dy) {
      const hit = this.#nearest(rows[r]!, here.mark.at);
      if (hit) {
        this.at = hit.key;
        return;
      }
    }
  }

  /** The first or last mark of the row. */
  edge(last: boolean): void {
    const here = this.find();
    const row = (here ? this.rows[here.row]! : this.rows.find((r) => r.cells.some((c) => c.marks.length > 0)))?.cells.flatMap((c) => c.marks) ?? [];
    const m = last ? row.at(-1) : row[0];
    if (m) this.at = m.key;
  }

  #nearest(row: readonly Mark[], at: string): Mark | undefined {
    const t = Date.parse(at);
    return [...row].sort((a, b) => Math.abs(Date.parse(a.at) - t) - Math.abs(Date.parse(b.at) - t))[0];
  }
}
