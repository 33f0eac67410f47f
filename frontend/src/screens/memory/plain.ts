/** Text without Markdown characters, for one or two lines of a list. */
import { format } from "../../lib/ui/state";
import type { Span } from "./types";

export interface Plain {
  text: string;
  spans: readonly Span[];
}

/** Characters that are not shown unchanged; a text without any of them needs no processing. */
const signs = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\\`*_[\]#>~=|<%^]|^\s*[-+]|---/;
const hidden = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;
const space = /\s/;
const letter = /[\p{L}\p{N}]/u;

const fence = /^\s*(```|~~~)/;
const rule = /^\s*(([-*_])(\s*\2){2,}|=+)\s*$/;
const tableRule = /^\s*(\|(\s*:?-+:?\s*\|)+|:?-+:?\s*(\|\s*:?-+:?\s*)+|--)\s*$/;
const quote = /^\s*(>\s?)+(\[![\w-]+\][-+]?\s*)?/;
const heading = /^\s*#{1,6}\s+/;
const bullet = /^\s*[-*+]\s+(\[([ xX])\]\s+)?/;
const anchor = /\s\^[A-Za-z0-9-]+\s*$/;

/** Parts of a line: escaped characters, code, links of three kinds, notes, addresses, HTML tags, comments. */
const part = new RegExp(
  [
    "\\\\([\\\\`*_{}\\[\\]()#+\\-.!|~>=])",
    "(`+)([^`]+)\\2",
    "!?\\[\\[([^\\[\\]|]*)(?:\\|([^\\[\\]]*))?\\]\\]",
    "!?\\[((?:[^\\[\\]]|\\[[^\\[\\]]*\\])*)\\]\\((?:[^()\\s]|\\([^()]*\\))*(?:\\s+\"[^\"]*\")?\\)",
    "\\[([^\\[\\]]+)\\]\\[[^\\[\\]]*\\]",
    "\\[\\^[^\\]\\s]+\\]",
    "<(https?:[^<>\\s]+)>",
    "</?(?:a|b|br|code|del|details|div|em|hr|i|img|ins|kbd|li|mark|ol|p|pre|s|small|span|strong|sub|summary|sup|table|tbody|td|th|thead|tr|u|ul)(?:\\s[^<>]*)?/?>",
    "%%.*?%%",
    "(\\*\\*\\*|\\*\\*|\\*|___|__|_|~~|==)",
    "\\|",
  ].join("|"),
  "gi",
);

/** Collects the kept parts of a text, and their new positions. */
class Out {
  text = "";
  #kept: { from: number; to: number; at: number }[] = [];
  #between = "";
  readonly #source: string;

  constructor(source: string) {
    this.#source = source;
  }

  /** Keeps a part of the source; invisible characters become visible. */
  keep(from: number, to: number): void {
    if (from >= to) return;
    this.#join();
    for (const m of this.#source.slice(from, to).matchAll(hidden)) {
      const at = from + (m.index ?? 0);
      this.#copy(from, at);
      this.text += space.test(m[0]) ? " " : format.visible(m[0]);
      from = at + m[0].length;
    }
    this.#copy(from, to);
  }

  /** Inserts a text that was not in the source. */
  put(s: string): void {
    this.#join();
    this.text += s;
  }

  /** The separator before the next part that is kept, unless it is the first. */
  next(between: string): void {
    if (this.text !== "" && between.length > this.#between.length) this.#between = between;
  }

  #join(): void {
    if (this.#between !== "") this.text = this.text.trimEnd() + this.#between;
    this.#between = "";
  }

  #copy(from: number, to: number): void {
    if (from >= to) return;
    this.#kept.push({ from, to, at: this.text.length });
    this.text += this.#source.slice(from, to);
  }

  /** The new positions of parts of the source. Text that was removed from the middle of a span does not split it. */
  spans(all: readonly Span[]): Span[] {
    const out: Span[] = [];
    for (const s of all) {
      let start = -1;
      let end = -1;
      for (const k of this.#kept) {
        if (k.to <= s.start || k.from >= s.end) continue;
        if (start < 0) start = k.at + Math.max(0, s.start - k.from);
        end = k.at + Math.min(k.to, s.end) - k.from;
      }
      if (start >= 0 && end > start) out.push({ start, end });
    }
    return out;
  }
}

/**
 * Removes Markdown characters from a text and moves the highlighted spans accordingly. The heading `under`
 * which the text is already shown is omitted, unless something in it is highlighted.
 */
export function plain(text: string, spans: readonly Span[] = [], under = ""): Plain {
  if (!signs.test(text)) return { text, spans };
  const out = new Out(text);
  const cut = /^…|…$/.test(text.trim());
  let code = false;
  for (let from = 0; from <= text.length; ) {
    const at = text.indexOf("\n", from);
    const to = at < 0 ? text.length : at;
    const line = text.slice(from, to);
    if (fence.test(line)) code = !code;
    else if (code) out.keep(from, to);
    else if (!rule.test(line) && !tableRule.test(line)) block(out, text, line, from, spans, under, cut);
    out.next(" ");
    from = to + 1;
  }
  return { text: out.text.trimEnd(), spans: out.spans(spans) };
}

/** One line: its block prefix first, then its content. */
function block(out: Out, text: string, line: string, from: number, spans: readonly Span[], under: string, cut: boolean): void {
  let at = quote.exec(line)?.[0].length ?? 0;
  const head = heading.exec(line.slice(at));
  const item = bullet.exec(line.slice(at));
  let end = line.length - (anchor.exec(line)?.[0].length ?? 0);
  if (head) {
    at += head[0].length;
    end -= /\s+#+\s*$/.exec(line.slice(at, end))?.[0].length ?? 0;
    const marked = spans.some((s) => s.start < from + end && s.end > from + at);
    if (!marked && under !== "" && line.slice(at, end).trim() === under) return;
  } else if (item && item[0].length < line.length - at) {
    at += item[0].length;
    out.put(item[2] === undefined || item[2] === " " ? "• " : "✓ ");
  }
  while (at < end && space.test(line[at]!)) at++;
  const before = out.text.length;
  inside(out, text, from + at, from + end, cut);
  if (head && out.text.length > before) out.next(" · ");
}

/** The parts of a line between two positions. */
function inside(out: Out, text: string, from: number, to: number, cut: boolean): void {
  const line = text.slice(from, to);
  const row = /^\s*\|.*\|\s*$/.test(line);
  let done = 0;
  for (const m of line.matchAll(part)) {
    const i = m.index ?? 0;
    if (i < done) continue;
    const whole = m[0];
    const after = i + whole.length;
    const [, escaped, ticks, codeText, wiki, alias, link, ref, address, mark] = m;
    if (whole === "|") {
      if (!row) continue;
      out.keep(from + done, from + i);
      if (line.slice(0, i).trim() !== "") out.next(line.slice(after).trim() === "" ? " " : " · ");
      done = after;
      while (space.test(line[done] ?? "")) done++;
      continue;
    } else if (mark !== undefined) {
      const end = closing(line, i, mark);
      if (end < 0) {
        // The closing character was cut off with the rest of the text.
        if (!cut || mark.length < 2 || !oneSided(line, i, after)) continue;
        out.keep(from + done, from + i);
      } else {
        out.keep(from + done, from + i);
        inside(out, text, from + after, from + end, cut);
        done = end + mark.length;
        continue;
      }
    } else {
      out.keep(from + done, from + i);
      if (escaped !== undefined) out.keep(from + i + 1, from + after);
      else if (codeText !== undefined) out.keep(from + i + ticks!.length, from + after - ticks!.length);
      else if (alias !== undefined) out.keep(from + after - 2 - alias.length, from + after - 2);
      else if (wiki !== undefined) out.keep(from + after - 2 - wiki.length, from + after - 2);
      else if (link !== undefined) inner(out, text, from + i + whole.indexOf("[") + 1, link.length, cut);
      else if (ref !== undefined) inner(out, text, from + i + 1, ref.length, cut);
      else if (address !== undefined) out.keep(from + i + 1, from + after - 1);
      else if (/^<\/?(br|p|div|li|td|th|tr)\b/i.test(whole)) out.next(" ");
    }
    done = after;
  }
  out.keep(from + done, to);
}

const inner = (out: Out, text: string, from: number, length: number, cut: boolean): void => inside(out, text, from, from + length, cut);

/** Where the marker that opens at `i` closes: both must be at the edge of words; -1 if it is only a character. */
function closing(line: string, i: number, mark: string): number {
  const first = line[i + mark.length];
  if (first === undefined || space.test(first) || letter.test(line[i - 1] ?? "")) return -1;
  for (let at = line.indexOf(mark, i + mark.length + 1); at >= 0; ) {
    let to = at + mark.length;
    while (line[to] === mark[0]) to++;
    // Three in a row close both kinds; other lengths belong to another marker. __init__.py is a name.
    const fits = to - at === mark.length || to - at === 3;
    const name = mark[0] === "_" && /[.(\]]/.test(line[to] ?? "") && letter.test(line[to + 1] ?? "");
    if (fits && !name && !space.test(line[at - 1]!) && !letter.test(line[to] ?? "")) return to - mark.length;
    at = line.indexOf(mark, to);
  }
  return -1;
}

/** Whether the marker is on exactly one side of a word. */
const oneSided = (line: string, from: number, to: number): boolean => letter.test(line[from - 1] ?? "") !== letter.test(line[to] ?? "");
