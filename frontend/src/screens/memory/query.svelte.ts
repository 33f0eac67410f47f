/** What is searched for: the words, and the filters that choose before anything is ranked. */
import { format } from "../../lib/ui/state";
import type { Filters, Mode } from "./types";
import { kindsWord, sourceWord, typeWord } from "./words";

export type Time = "any" | "week" | "month" | "year" | "range";
export type Trust = "any" | "own" | "foreign";

/** A filter that is on, and how to drop it. */
export interface Chip {
  id: string;
  label: string;
  drop(): void;
}

const day = 86_400_000;
const spans: Record<string, [number, string]> = { week: [7, "Last 7 days"], month: [30, "Last 30 days"], year: [365, "Last 12 months"] };

/** Start of a day that a date field holds, in local time; undefined for none. */
function startOf(date: string, plus = 0): string | undefined {
  const m = /^(\d{4})-(\d{2})-(\d{2})$/.exec(date);
  if (!m) return undefined;
  const d = new Date(Number(m[1]), Number(m[2]) - 1, Number(m[3]) + plus);
  return Number.isFinite(d.getTime()) ? d.toISOString() : undefined;
}

const toggled = <T>(list: readonly T[], v: T): T[] => (list.includes(v) ? list.filter((x) => x !== v) : [...list, v]);

export class Query {
  text = $state("");
  mode = $state<Mode>("hybrid");
  time = $state<Time>("any");
  /** Days of a range, as date fields write them. */
  from = $state("");
  to = $state("");
  layers = $state.raw<readonly number[]>([]);
  types = $state.raw<readonly string[]>([]);
  sources = $state.raw<readonly string[]>([]);
  tags = $state.raw<readonly string[]>([]);
  kinds = $state.raw<readonly string[]>([]);
  pinned = $state(false);
  trust = $state<Trust>("any");
  /** Called after each change of a filter. */
  changed: () => void = () => {};

  readonly words = $derived(this.text.trim());
  readonly searching = $derived(this.words !== "");
  readonly chips = $derived.by(() => this.#chips());
  readonly filtered = $derived(this.chips.length > 0);

  setTime(t: Time): void {
    this.time = t;
    this.changed();
  }
  setRange(from: string, to: string): void {
    this.time = "range";
    this.from = from;
    this.to = to;
    this.changed();
  }
  toggleLayer(n: number): void {
    this.layers = toggled(this.layers, n);
    this.changed();
  }
  toggleType(t: string): void {
    this.types = toggled(this.types, t);
    this.changed();
  }
  toggleSource(s: string): void {
    this.sources = toggled(this.sources, s);
    this.changed();
  }
  toggleTag(t: string): void {
    this.tags = toggled(this.tags, t);
    this.changed();
  }
  toggleKind(k: string): void {
    this.kinds = toggled(this.kinds, k);
    this.changed();
  }
  togglePinned(): void {
    this.pinned = !this.pinned;
    this.changed();
  }
  setTrust(t: Trust): void {
    this.trust = t;
    this.changed();
  }

  clear(): void {
    this.time = "any";
    this.from = this.to = "";
    this.layers = [];
    this.types = [];
    this.sources = [];
    this.tags = [];
    this.kinds = [];
    this.pinned = false;
    this.trust = "any";
    this.changed();
  }

  /** The filters as the backend takes them; undefined when there are none. */
  wire(now = Date.now()): Filters | undefined {
    const f: Filters = {};
    const span = spans[this.time];
    if (span) f.from = new Date(now - span[0] * day).toISOString();
    if (this.time === "range") {
      const from = startOf(this.from);
      const to = startOf(this.to, 1);
      if (from) f.from = from;
      if (to) f.to = to;
    }
    if (this.layers.length > 0) f.layers = [...this.layers];
    if (this.types.length > 0) f.types = [...this.types];
    if (this.sources.length > 0) f.sources = [...this.sources];
    if (this.tags.length > 0) f.tagsAll = [...this.tags];
    if (this.kinds.length > 0) f.kinds = [...this.kinds];
    if (this.pinned) f.pinned = true;
    if (this.trust !== "any") f.untrusted = this.trust === "foreign";
    return Object.keys(f).length === 0 ? undefined : f;
  }

  #chips(): Chip[] {
    const out: Chip[] = [];
    const span = spans[this.time];
    if (span) out.push({ id: "time", label: span[1], drop: () => this.setTime("any") });
    if (this.time === "range" && (startOf(this.from) || startOf(this.to))) {
      const say = (d: string): string => format.day(startOf(d) ?? "");
      const label = !startOf(this.to) ? `Since ${say(this.from)}` : !startOf(this.from) ? `Until ${say(this.to)}` : `${say(this.from)} – ${say(this.to)}`;
      out.push({ id: "time", label, drop: () => ((this.from = this.to = ""), this.setTime("any")) });
    }
    for (const k of this.kinds) out.push({ id: `kind:${k}`, label: kindsWord(k), drop: () => this.toggleKind(k) });
    for (const t of this.types) out.push({ id: `type:${t}`, label: typeWord(t), drop: () => this.toggleType(t) });
    for (const n of this.layers) out.push({ id: `layer:${n}`, label: `Layer ${n}`, drop: () => this.toggleLayer(n) });
    for (const s of this.sources) out.push({ id: `source:${s}`, label: sourceWord(s), drop: () => this.toggleSource(s) });
    for (const t of this.tags) out.push({ id: `tag:${t}`, label: `#${t}`, drop: () => this.toggleTag(t) });
    if (this.pinned) out.push({ id: "pinned", label: "Pinned", drop: () => this.togglePinned() });
    if (this.trust !== "any") out.push({ id: "trust", label: this.trust === "foreign" ? "Untrusted" : "Trusted text", drop: () => this.setTrust("any") });
    return out;
  }
}
