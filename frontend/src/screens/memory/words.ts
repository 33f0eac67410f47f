/** What the screen says about memories, in words. */
import { format } from "../../lib/ui/state";
import { plain } from "./plain";
import type { Hit, ImportJob, Kind, Memory, MemoryType, Mode, Parts, Span, Tier } from "./types";

export const tiers: readonly Tier[] = ["critical", "high", "medium", "low"];
export const types: readonly MemoryType[] = ["episodic", "semantic", "procedural"];
export const kinds: readonly Kind[] = ["memory", "turn", "chunk"];
export const modes: readonly Mode[] = ["hybrid", "keyword", "vector"];

const sources: Record<string, string> = {
  manual: "Written here",
  note: "Note",
  agent: "Agent",
  chatgpt: "ChatGPT",
  claude: "Claude",
  markdown: "Markdown",
  text: "Text file",
  jsonl: "JSON lines",
  locomo: "LoCoMo",
  voice: "Voice",
  document: "Document",
  tool: "Tool",
};
export const sourceWord = (s: string): string => sources[s] ?? format.visible(s, 40);

const kindWords: Record<string, string> = { memory: "Memory", turn: "Message", chunk: "Part of a document" };
export const kindWord = (k: string): string => kindWords[k] ?? k;
const manyWords: Record<string, string> = { memory: "Memories", turn: "Messages", chunk: "Parts of documents" };
export const kindsWord = (k: string): string => manyWords[k] ?? k;

const typeWords: Record<string, [string, string]> = {
  episodic: ["Event", "Something that happened"],
  semantic: ["Fact", "A fact"],
  procedural: ["Know-how", "How to do something"],
};
export const typeWord = (t: string): string => typeWords[t]?.[0] ?? t;
export const typeHint = (t: string): string => typeWords[t]?.[1] ?? "";

const tierWords: Record<string, string> = { critical: "Critical", high: "High", medium: "Medium", low: "Low" };
export const tierWord = (t: string): string => tierWords[t] ?? t;

const modeWords: Record<Mode, [string, string]> = {
  hybrid: ["hybrid", "Finds the words and similar meanings"],
  keyword: ["words", "Only texts with one of the words"],
  vector: ["meaning", "By meaning only"],
};
export const modeWord = (m: Mode): string => modeWords[m][0];
export const modeHint = (m: Mode): string => modeWords[m][1];

const formats: Record<string, string> = {
  chatgpt: "ChatGPT export",
  claude: "Claude export",
  markdown: "Markdown or Obsidian folder",
  text: "Plain text",
  jsonl: "JSON lines",
  locomo: "LoCoMo conversation",
};
export const formatWord = (f: string): string => formats[f] ?? f;
export const importFormats: readonly string[] = Object.keys(formats);

/** "12 Mar 2024, 14:05", or only the day; nothing when the time is not known. */
export function when(at: string | undefined): string {
  if (!at) return "";
  // A date without a time of day is kept as its first instant.
  return /T00:00:00(\.0+)?Z$/.test(at) || format.clock(at) === "00:00:00" ? format.day(at) : format.moment(at);
}

/** The first line of a text that says something, without the signs of Markdown. */
export function firstLine(text: string, max = 160): string {
  for (const line of text.slice(0, 4000).split("\n", 20)) {
    const said = plain(line).text.replace(/^(•|✓|\d+[.)])\s+/, "").trim();
    if (said !== "") return said.length > max ? `${said.slice(0, max)}…` : said;
  }
  return "";
}

/** A title for an item that has none of its own. */
export const titleOf = (m: Pick<Memory, "title" | "content">): string => firstLine(m.title || m.content, 80) || "Empty";

/** One part of a score as a bar. */
export interface Bar {
  name: string;
  /** 0 to 1. */
  width: number;
  text: string;
}

const ranked = (rank: number): number => 61 / (60 + rank);
const times = (v: number): string => `× ${v.toFixed(2)}`;

/** The highest of what was found, against which the bars are drawn. */
export interface Best {
  bm25: number;
  window: number;
}

export function bestOf(all: readonly (Parts | undefined)[]): Best {
  return { bm25: Math.max(0, ...all.map((p) => p?.bm25 ?? 0)), window: Math.max(0, ...all.map((p) => p?.window ?? 0)) };
}

const share = (v: number, best: number): number => (best > 0 ? Math.max(0, Math.min(1, v / best)) : 0);

/** Why something was found: one bar for each list that had it. */
export function bars(p: Parts, best: Best): Bar[] {
  const { bm25Rank, bm25, vectorRank, cosine } = p;
  const alike = cosine === undefined ? "" : `${Math.round(cosine * 100)} % alike`;
  return [
    bm25Rank === undefined ? { name: "Words", width: 0, text: "not found" } : { name: "Words", width: bm25 === undefined ? ranked(bm25Rank) : share(bm25, best.bm25), text: `place ${bm25Rank}` },
    vectorRank === undefined
      ? { name: "Meaning", width: 0, text: alike === "" ? "not compared" : `${alike}, not among the nearest` }
      : { name: "Meaning", width: Math.max(0, Math.min(1, cosine ?? ranked(vectorRank))), text: [`place ${vectorRank}`, alike].filter(Boolean).join(", ") },
    { name: "With surrounding context", width: share(p.window, best.window), text: p.window > 0 ? `${Math.round(share(p.window, best.window) * 100)} % of the top score` : "no share" },
  ];
}

/** What only shifts near ties: factors other than 1. */
export function priors(p: Parts): { name: string; value: string }[] {
  const all: [string, number][] = [
    ["Recency", p.recency],
    ["Salience", p.salience],
    ["Retention", p.retention],
    ["Pinned", p.pinned],
    ["Names and dates in the query", p.cues],
  ];
  return all.filter(([, v]) => v > 0 && Math.abs(v - 1) >= 0.005).map(([name, v]) => ({ name, value: times(v) }));
}

/** A piece of text, marked or not. */
export interface Piece {
  text: string;
  mark: boolean;
}

/** Text cut at its spans. Spans that overlap or lie outside do no harm. */
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

/** Where whole words stand in a text, whatever their case. */
export function spansOf(text: string, words: readonly string[]): Span[] {
  const low = text.toLowerCase();
  // Some letters have another length in lower case; then places would be wrong.
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

/** The words that a hit has marked. */
export const markedWords = (h: Pick<Hit, "snippet" | "highlights">): string[] => h.highlights.map((s) => h.snippet.slice(s.start, s.end));

/** "Jan 2024"; "No date" for what has none. */
export function monthWord(month: string): string {
  const m = /^(\d{4})-(\d{2})$/.exec(month);
  if (!m) return "No date";
  const names = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
  return `${names[Number(m[2]) - 1] ?? m[2]} ${m[1]}`;
}

/** First instant of a month and of the one after, as the backend counts months. */
export function monthSpan(month: string): { from: string; to: string } {
  const [y = 0, m = 1] = month.split("-").map(Number);
  return { from: new Date(Date.UTC(y, m - 1, 1)).toISOString(), to: new Date(Date.UTC(y, m, 1)).toISOString() };
}

export const percent = (part: number): string => `${Math.floor(Math.max(0, Math.min(1, part)) * 100)} %`;

export const ended = (j: Pick<ImportJob, "status">): boolean => ["completed", "failed", "cancelled"].includes(j.status);

const states: Record<string, string> = { pending: "Waiting", running: "Importing", completed: "Done", failed: "Failed", cancelled: "Canceled" };
export const jobWord = (s: string): string => states[s] ?? s;

/** The last part of a path. */
export const baseName = (path: string): string => format.visible(path.replace(/[\\/]+$/, "").split(/[\\/]/).pop() || path, 80);

/** "120 added, 3 updated, 14 already known, 1 could not be read". */
export function resultWords(j: Pick<ImportJob, "added" | "updated" | "skipped" | "failed">): string {
  const n = format.count;
  return [`${n(j.added)} added`, j.updated > 0 && `${n(j.updated)} updated`, j.skipped > 0 && `${n(j.skipped)} already known`, j.failed > 0 && `${n(j.failed)} could not be read`].filter(Boolean).join(", ");
}

/** Tags as the backend keeps them, from a line of text. */
export function tagsOf(text: string): string[] {
  return [...new Set(text.split(/[,\n]/).map((t) => t.trim().replace(/^#/, "").toLowerCase()).filter(Boolean))];
}
