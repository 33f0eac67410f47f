/** Texts about memories that are more than an entry of the catalog. */
import { isOpen } from "../../lib/run/states";
import { date, lookup, optionsOf } from "../../lib/i18n";
import { common } from "../../lib/i18n/common";
import { format } from "../../lib/ui/state";
import { t } from "./messages";
import { plain } from "./plain";
import type { Hit, ImportJob, Memory, Parts, Span, View } from "./types";

export const sourceWord = (s: string): string => lookup(t.sources, format.visible(s, 40));
const typeOf = (type: string): { label: string; hint: string } => (t.types as Record<string, { label: string; hint: string }>)[type] ?? { label: type, hint: "" };
export const typeWord = (type: string): string => typeOf(type).label;
export const typeHint = (type: string): string => typeOf(type).hint;
export const layerWord = (layer: number): string => common.layers[layer]?.label ?? String(layer);
/** The choices of a field for the layer; "0" is none. */
export const layerOptions = (): { value: string; label: string; hint?: string }[] => [{ value: "0", ...t.noLayer }, ...optionsOf(common.layers)];
export const hashed = (tags: readonly string[]): string => tags.map((tag) => `#${tag}`).join(" ");

/** "12 Mar 2024, 14:05", or only the day; empty if the time is unknown. */
export function when(at: string | undefined): string {
  if (!at) return "";
  // A date without a time of day is stored as its first instant.
  return /T00:00:00(\.0+)?Z$/.test(at) || format.clock(at) === "00:00:00" ? format.day(at) : format.moment(at);
}

/** The first line of a text with content, without Markdown characters. */
export function firstLine(text: string, max = 160): string {
  for (const line of text.slice(0, 4000).split("\n", 20)) {
    const said = plain(line).text.replace(/^(•|✓|\d+[.)])\s+/, "").trim();
    if (said !== "") return said.length > max ? `${said.slice(0, max)}…` : said;
  }
  return "";
}

/** A title for an item without one. */
export const titleOf = (m: Pick<Memory, "title" | "content">): string => firstLine(m.title || m.content, 80) || t.empty;

/** One part of a score as a bar. */
export interface Bar {
  name: string;
  /** 0 to 1. */
  width: number;
  text: string;
}

const ranked = (rank: number): number => 61 / (60 + rank);

/** The highest scores among the hits, to which the bars are scaled. */
export interface Best {
  bm25: number;
  window: number;
}

export function bestOf(all: readonly (Parts | undefined)[]): Best {
  return { bm25: Math.max(0, ...all.map((p) => p?.bm25 ?? 0)), window: Math.max(0, ...all.map((p) => p?.window ?? 0)) };
}

const share = (v: number, best: number): number => (best > 0 ? Math.max(0, Math.min(1, v / best)) : 0);

/** Why something was found: one bar for each ranking that contained it. */
export function bars(p: Parts, best: Best): Bar[] {
  const { bm25Rank, bm25, vectorRank, cosine } = p;
  const { words, meaning, window } = t.bars;
  const alike = cosine === undefined ? "" : t.alike(Math.round(cosine * 100));
  return [
    bm25Rank === undefined ? { name: words, width: 0, text: t.notFound } : { name: words, width: bm25 === undefined ? ranked(bm25Rank) : share(bm25, best.bm25), text: t.rank(bm25Rank) },
    vectorRank === undefined
      ? { name: meaning, width: 0, text: alike === "" ? t.notCompared : t.notNear(alike) }
      : { name: meaning, width: Math.max(0, Math.min(1, cosine ?? ranked(vectorRank))), text: [t.rank(vectorRank), alike].filter(Boolean).join(", ") },
    { name: window, width: share(p.window, best.window), text: p.window > 0 ? t.ofTop(Math.round(share(p.window, best.window) * 100)) : t.noShare },
  ];
}

/** Factors other than 1, which only reorder close results. */
export function priors(p: Parts): { name: string; value: string }[] {
  return (["recency", "salience", "retention", "pinned", "cues"] as const).filter((f) => p[f] > 0 && Math.abs(p[f] - 1) >= 0.005).map((f) => ({ name: t.factors[f], value: `× ${p[f].toFixed(2)}` }));
}

/** A piece of text, highlighted or not. */
export interface Piece {
  text: string;
  mark: boolean;
}

/** Text split at its spans. Overlapping spans and spans outside the text are tolerated. */
export function pieces(text: string, spans: readonly Span[]): Piece[] {
  const out: Piece[] = [];
  let at = 0;
  for (const s of [...spans].sort((a, b) => a.start - b.start)) {
    const start = Math.max(at, Math.min(s.start, text.length));
    const end = Math.min(s.end, text.length);
    if (end <= start) continue;
    if (start > at) out.push({ text: text.slice(at, start), mark: false });
    out.push({ text: text.slice(start, end), mark: true });
    at = end;
  }
  if (at < text.length) out.push({ text: text.slice(at), mark: false });
  return out;
}

const letter = /[\p{L}\p{N}]/u;

/** The positions of whole words in a text, ignoring case. */
export function spansOf(text: string, words: readonly string[]): Span[] {
  const low = text.toLowerCase();
  // Some letters have another length in lower case; then positions would be wrong.
  if (low.length !== text.length) return [];
  const out: Span[] = [];
  for (const w of new Set(words.map((x) => x.toLowerCase()).filter((x) => x.trim() !== ""))) {
    for (let at = low.indexOf(w); at >= 0 && out.length < 500; at = low.indexOf(w, at + w.length)) {
      if (letter.test(low[at - 1] ?? "") || letter.test(low[at + w.length] ?? "")) continue;
      out.push({ start: at, end: at + w.length });
    }
  }
  return out;
}

/** The highlighted words of a hit. */
export const markedWords = (h: Pick<Hit, "snippet" | "highlights">): string[] => h.highlights.map((s) => h.snippet.slice(s.start, s.end));

/** "January 2024"; "No date" if there is none. */
export const monthWord = (month: string): string => (/^\d{4}-\d{2}$/.test(month) ? date(`${month}-01T00:00:00Z`, { month: "long", year: "numeric", timeZone: "UTC" }) : t.noDate);

/** The first instant of a month and of the next one, as the backend counts months. */
export function monthSpan(month: string): { from: string; to: string } {
  const [y = 0, m = 1] = month.split("-").map(Number);
  return { from: new Date(Date.UTC(y, m - 1, 1)).toISOString(), to: new Date(Date.UTC(y, m, 1)).toISOString() };
}

export const percent = (part: number): string => `${Math.floor(Math.max(0, Math.min(1, part)) * 100)} %`;

export const ended = (j: Pick<ImportJob, "status">): boolean => !isOpen(j.status);

/** The last part of a path. */
export const baseName = (path: string): string => format.visible(path.replace(/[\\/]+$/, "").split(/[\\/]/).pop() || path, 80);

/** "120 added, 3 updated, 14 already imported, 1 unreadable". */
export const resultWords = (j: Pick<ImportJob, "added" | "updated" | "skipped" | "failed">): string => t.importResult(j.added, j.updated, j.skipped, j.failed);

/** The view that shows what an import in this format adds. */
export const viewOfFormat = (f: string): View & ("list" | "conversations" | "documents") => (f === "jsonl" ? "list" : f === "markdown" || f === "text" ? "documents" : "conversations");

/** Parses tags from a line of text, in the form that the backend stores. */
export function tagsOf(text: string): string[] {
  return [...new Set(text.split(/[,\n]/).map((x) => x.trim().replace(/^#/, "").toLowerCase()).filter(Boolean))];
}
