/** The search: the words, and the filters that apply before ranking. */
import { lookup } from "../../lib/i18n";
import { format } from "../../lib/ui/state";
import { t } from "./messages";
import type { Filters, Mode } from "./types";
import { layerWord, sourceWord, typeWord } from "./words";

export type Time = "any" | "week" | "month" | "year" | "range";
export type Trust = "any" | "own" | "untrusted";
/** Filters that accept several values. */
export type Facet = "kinds" | "types" | "layers" | "sources" | "tags";

export interface Filter {
  time: Time;
  /** Days of a range, in the format of date fields. */
  from: string;
  to: string;
  kinds: readonly string[];
  types: readonly string[];
  layers: readonly string[];
  sources: readonly string[];
  tags: readonly string[];
  pinned: boolean;
  trust: Trust;
}

/** An active filter, and how to remove it. */
export interface Chip {
  id: string;
  label: string;
  drop(): void;
}

const unfiltered: Filter = { time: "any", from: "", to: "", kinds: [], types: [], layers: [], sources: [], tags: [], pinned: false, trust: "any" };
const day = 86_400_000;
const days: Partial<Record<Time, number>> = { week: 7, month: 30, year: 365 };

/** The label of a value of a filter. */
export const valueWord: Record<Facet, (value: string) => string> = {
  kinds: (v) => lookup(t.kinds, v),
  types: typeWord,
  layers: (v) => layerWord(Number(v)),
  sources: sourceWord,
  tags: (v) => `#${v}`,
};

/** The start of a day in a date field, in local time; undefined for none. */
function startOf(date: string, plus = 0): string | undefined {
  const m = /^(\d{4})-(\d{2})-(\d{2})$/.exec(date);
  if (!m) return undefined;
  const d = new Date(Number(m[1]), Number(m[2]) - 1, Number(m[3]) + plus);
  return Number.isFinite(d.getTime()) ? d.toISOString() : undefined;
}

export class Query {
  text = $state("");
  mode = $state<Mode>("hybrid");
  filter = $state.raw<Filter>(unfiltered);
  /** Called after each change of a filter. */
  changed: () => void = () => {};

  readonly words = $derived(this.text.trim());
  readonly searching = $derived(this.words !== "");
  readonly chips = $derived.by(() => this.#chips());
  readonly filtered = $derived(this.chips.length > 0);

  set(change: Partial<Filter>): void {
    this.filter = { ...this.filter, ...change };
    this.changed();
  }

  /** Adds a value to a filter, or removes it. */
  toggle(facet: Facet, value: string): void {
    const had = this.filter[facet];
    this.set({ [facet]: had.includes(value) ? had.filter((x) => x !== value) : [...had, value] });
  }

  clear(): void {
    this.set(unfiltered);
  }

  /** The filters in their wire form; undefined if there are none. */
  wire(now = Date.now()): Filters | undefined {
    const f: Filters = {};
    const { time, from, to, kinds, types, layers, sources, tags, pinned, trust } = this.filter;
    const span = days[time];
    const first = span ? new Date(now - span * day).toISOString() : time === "range" ? startOf(from) : undefined;
    const last = time === "range" ? startOf(to, 1) : undefined;
    if (first) f.from = first;
    if (last) f.to = last;
    if (layers.length > 0) f.layers = layers.map(Number);
    if (types.length > 0) f.types = [...types];
    if (sources.length > 0) f.sources = [...sources];
    if (tags.length > 0) f.tagsAll = [...tags];
    if (kinds.length > 0) f.kinds = [...kinds];
    if (pinned) f.pinned = true;
    if (trust !== "any") f.untrusted = trust === "untrusted";
    return Object.keys(f).length === 0 ? undefined : f;
  }

  #chips(): Chip[] {
    const { time, from, to, pinned, trust } = this.filter;
    const out: Chip[] = [];
    const first = startOf(from);
    const last = startOf(to);
    const range = first && last ? t.range(format.day(first), format.day(last)) : first ? t.since(format.day(first)) : last ? t.until(format.day(last)) : "";
    const label = time === "range" ? range : time === "any" ? "" : t.times[time];
    if (label !== "") out.push({ id: "time", label, drop: () => this.set({ time: "any", from: "", to: "" }) });
    for (const facet of ["kinds", "types", "layers", "sources", "tags"] as const) {
      for (const v of this.filter[facet]) out.push({ id: `${facet}:${v}`, label: valueWord[facet](v), drop: () => this.toggle(facet, v) });
    }
    if (pinned) out.push({ id: "pinned", label: t.pinnedFilter, drop: () => this.set({ pinned: false }) });
    if (trust !== "any") out.push({ id: "trust", label: t.trusts[trust], drop: () => this.set({ trust: "any" }) });
    return out;
  }
}
