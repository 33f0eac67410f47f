/** Words with their times: which one is said now, paragraphs, and subtitles. */
import type { Word } from "./types";

/** A pause that begins a new paragraph. */
const pauseMs = 1200;
/** The length at which a paragraph without a pause ends. */
const mostWords = 80;

/** The index of the word that is said at a moment: the last one that has begun, or -1. */
export function wordAt(words: readonly Word[], ms: number): number {
  let low = 0;
  let high = words.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (words[mid]!.startMs <= ms) low = mid + 1;
    else high = mid;
  }
  return low - 1;
}

/** The start of the word `by` words away from the one at a moment. */
export function stepWord(words: readonly Word[], ms: number, by: number): number {
  if (words.length === 0) return ms;
  return words[Math.min(Math.max(wordAt(words, ms) + by, 0), words.length - 1)]!.startMs;
}

/** Words in paragraphs, which end at a pause. `from` is the index of the first word of each. */
export function paragraphs(words: readonly Word[]): { from: number; words: readonly Word[] }[] {
  const out: { from: number; words: readonly Word[] }[] = [];
  let from = 0;
  for (let i = 1; i <= words.length; i++) {
    const ends = i === words.length || i - from >= mostWords || words[i]!.startMs - words[i - 1]!.endMs >= pauseMs;
    if (!ends) continue;
    out.push({ from, words: words.slice(from, i) });
    from = i;
  }
  return out;
}

const fold = (text: string): string[] => text.normalize("NFD").replace(/\p{Mn}/gu, "").toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);

/** Letters of languages without spaces, in which a word may be any part of a text. */
const unspaced = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** Whether a search finds a word, by the rules of the backend: the last one may be a beginning from three letters on. */
const matches = (word: string, wanted: readonly string[]): boolean => wanted.some((w, i) => word === w || (unspaced.test(w) && word.includes(w)) || (i === wanted.length - 1 && w.length >= 3 && word.startsWith(w)));

/** The indexes of the words that a search finds; case and accents don't matter. */
export function matching(words: readonly Word[], query: string): Set<number> {
  const wanted = fold(query);
  return new Set(words.flatMap((w, i) => (fold(w.w).some((part) => matches(part, wanted)) ? [i] : [])));
}

/** A text in pieces: those at odd indexes match a search. */
export function pieces(text: string, query: string): string[] {
  const wanted = fold(query);
  const out = [""];
  for (const part of text.split(/([\p{L}\p{N}\p{Mn}]+)/u)) {
    if (matches(fold(part)[0] ?? "", wanted)) out.push(part, "");
    else out[out.length - 1] += part;
  }
  return out;
}

/** The longest subtitle, in words and in time. */
const cueWords = 10;
const cueMs = 5000;

const stamp = (ms: number, point: string): string => {
  const two = (n: number): string => String(Math.floor(n)).padStart(2, "0");
  return `${two(ms / 3_600_000)}:${two((ms / 60_000) % 60)}:${two((ms / 1000) % 60)}${point}${String(Math.floor(ms % 1000)).padStart(3, "0")}`;
};

/** Subtitles in the format SRT or WebVTT. */
export function subtitles(words: readonly Word[], format: "srt" | "vtt"): string {
  const cues: Word[][] = [];
  for (const w of words) {
    const cue = cues.at(-1);
    const before = cue?.at(-1);
    if (cue && before && cue.length < cueWords && w.endMs - cue[0]!.startMs <= cueMs && w.startMs - before.endMs < pauseMs) cue.push(w);
    else cues.push([w]);
  }
  const point = format === "srt" ? "," : ".";
  const lines = cues.map((c, i) => `${format === "srt" ? `${i + 1}\n` : ""}${stamp(c[0]!.startMs, point)} --> ${stamp(c.at(-1)!.endMs, point)}\n${c.map((w) => w.w).join(" ")}\n`);
  return `${format === "vtt" ? "WEBVTT\n\n" : ""}${lines.join("\n")}`;
}
