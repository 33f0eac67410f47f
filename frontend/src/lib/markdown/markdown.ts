/**
 * Markdown as a tree that `Markdown.svelte` draws. No part of it ever becomes HTML, so there is nothing to
 * sanitize.
 */
import { Marked, type Token, type Tokens, type TokenizerAndRendererExtension } from "marked";

/** Inline content: text, formatting, a link, code or a line break. */
export type Inline =
  | { type: "text"; text: string }
  | { type: "strong" | "em" | "del" | "mark"; inlines: readonly Inline[] }
  | { type: "code"; text: string }
  | { type: "link"; target: string; inlines: readonly Inline[] }
  | { type: "break" };

export type Block =
  | { type: "paragraph"; inlines: readonly Inline[] }
  | { type: "heading"; level: number; inlines: readonly Inline[] }
  | { type: "code"; text: string }
  | { type: "quote"; blocks: readonly Block[] }
  | { type: "list"; start: number | null; items: readonly { checked: boolean | null; blocks: readonly Block[] }[] }
  | { type: "table"; head: readonly (readonly Inline[])[]; rows: readonly (readonly (readonly Inline[])[])[] }
  | { type: "rule" };

/** `[[page]]`, `[[page#heading|text]]`, `![[file]]`. */
const wikiLink: TokenizerAndRendererExtension = {
  name: "wiki",
  level: "inline",
  start: (src) => /!?\[\[/.exec(src)?.index,
  tokenizer(src) {
    const m = /^!?\[\[([^[\]|\n]+)(?:\|([^[\]\n]*))?\]\]/.exec(src);
    return m ? { type: "wiki", raw: m[0], href: m[1]!.trim(), text: (m[2] || m[1]!).trim() } : undefined;
  },
};
/** `==marked==`, as in Obsidian. */
const highlight: TokenizerAndRendererExtension = {
  name: "highlight",
  level: "inline",
  start: (src) => src.indexOf("=="),
  tokenizer(src) {
    const m = /^==(?=\S)([^=\n]*\S)==/.exec(src);
    return m ? { type: "highlight", raw: m[0], tokens: this.lexer.inlineTokens(m[1]!) } : undefined;
  },
};
// Keeps line breaks, as in chats and notes.
const marked = new Marked({ gfm: true, breaks: true, extensions: [wikiLink, highlight] });

const named: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };
/** Decodes entities. */
const decoded = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|([a-z]+));/gi, (whole, dec?: string, hex?: string, name?: string) => {
    if (name) return named[name.toLowerCase()] ?? whole;
    const code = dec ? Number(dec) : parseInt(hex!, 16);
    return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
const withoutTags = (html: string): string => decoded(html.replace(/<!--[\s\S]*?-->/g, "").replace(/<\/?[a-z][^>]*>/gi, ""));

function inlinesOf(tokens: readonly Token[] = []): Inline[] {
  return tokens.flatMap((token): Inline[] => {
    const t = token as Tokens.Generic;
    switch (t.type) {
      case "strong":
      case "em":
      case "del":
        return [{ type: t.type, inlines: inlinesOf(t.tokens) }];
      case "highlight":
        return [{ type: "mark", inlines: inlinesOf(t.tokens) }];
      case "codespan":
        return [{ type: "code", text: t.text }];
      case "checkbox": // of a task, which has it too
        return [];
      case "br":
        return [{ type: "break" }];
      case "link":
        return [{ type: "link", target: t.href, inlines: inlinesOf(t.tokens) }];
      case "wiki":
        return [{ type: "link", target: t.href, inlines: [{ type: "text", text: t.text }] }];
      case "image": // never loaded: a link to it, by its description
        return [{ type: "link", target: t.href, inlines: [{ type: "text", text: t.text || t.href }] }];
      case "html":
        return /^<br\b/i.test(t.text) ? [{ type: "break" }] : [{ type: "text", text: withoutTags(t.text) }];
      case "text":
        return t.tokens ? inlinesOf(t.tokens) : [{ type: "text", text: decoded(t.text) }];
      case "escape":
        return [{ type: "text", text: t.text }];
      default:
        return [{ type: "text", text: t.raw }];
    }
  });
}

function blocksOf(tokens: readonly Token[]): Block[] {
  return tokens.flatMap((token): Block[] => {
    const t = token as Tokens.Generic;
    switch (t.type) {
      case "space":
      case "def":
      case "checkbox":
        return [];
      case "heading":
        return [{ type: "heading", level: t.depth, inlines: inlinesOf(t.tokens) }];
      case "code":
        return [{ type: "code", text: t.text }];
      case "hr":
        return [{ type: "rule" }];
      case "blockquote":
        return [{ type: "quote", blocks: blocksOf(t.tokens ?? []) }];
      case "list": {
        const list = t as Tokens.List;
        return [{ type: "list", start: list.ordered ? Number(list.start) : null, items: list.items.map((i) => ({ checked: i.task ? i.checked === true : null, blocks: blocksOf(i.tokens) })) }];
      }
      case "table": {
        const table = t as Tokens.Table;
        return [{ type: "table", head: table.header.map((c) => inlinesOf(c.tokens)), rows: table.rows.map((r) => r.map((c) => inlinesOf(c.tokens))) }];
      }
      case "html": {
        const text = withoutTags(t.text).trim();
        return text === "" ? [] : [{ type: "paragraph", inlines: [{ type: "text", text }] }];
      }
      default:
        return [{ type: "paragraph", inlines: t.tokens ? inlinesOf(t.tokens) : [{ type: "text", text: decoded(t.text ?? t.raw) }] }];
    }
  });
}

/** Parses Markdown. A text that is not Markdown becomes paragraphs. */
export const parseMarkdown = (text: string): Block[] => blocksOf(marked.lexer(text));

/** The target of a link: the web, another document, or nothing. Only these schemes are ever opened. */
export function linkKind(target: string): "web" | "document" | "none" {
  if (/^(https?:|mailto:)/i.test(target)) return "web";
  return /^[a-z][a-z\d+.-]*:/i.test(target) || target.startsWith("#") || target.trim() === "" ? "none" : "document";
}
