/** Rows of the lists: the common fields of a hit, a memory, a conversation and a document. */
import { format } from "../../lib/ui/state";
import { itemOf, itemWith, type Item } from "./address";
import { t } from "./messages";
import { plain } from "./plain";
import type { Conversation, Doc, Hit, Kind, Memory, Span, Tier } from "./types";
import { firstLine, titleOf } from "./words";

export interface Row {
  id: string;
  kind: Kind | "conversation" | "document";
  item: Item;
  /** Its name in menus and messages. */
  name: string;
  title: string;
  /** The beginning of its text, for one or two lines. */
  text: string;
  highlights: readonly Span[];
  source: string;
  speaker: string;
  tags: readonly string[];
  /** When it happened, or when it was stored. */
  at: string;
  /** `at` is the time of storing. */
  stored: boolean;
  tier: Tier | null;
  untrusted: boolean;
  pinned: boolean;
  hit: Hit | null;
  memory: Memory | null;
  /** The number of messages or parts in it. */
  size: number;
  deletedAt: string;
}

/** The address of a file as a path. An upload or a file from an archive has only the path in its folder. */
export function readable(uri: string): string {
  const inside = /^(?:markdown|text):(.*)$/s.exec(uri)?.[1];
  if (inside === undefined && !uri.startsWith("file://")) return uri;
  try {
    return decodeURIComponent(inside ?? new URL(uri).pathname);
  } catch {
    return inside ?? uri;
  }
}

/** The beginning of a text on one line. */
function flat(text: string, max: number): string {
  const begin = plain(text.slice(0, max * 3)).text.replace(/\s+/g, " ").trim();
  return begin.length > max ? `${begin.slice(0, max)}…` : begin;
}

/** The position of a part in the headings of its document; a heading that repeats the title is shown once. */
export const placeWord = (title: string): string => title.split(" › ").filter((p, i, all) => p !== all[i - 1]).join(" › ");

/** The values of rows that have none of their own. */
const blank = { highlights: [], speaker: "", tier: null, pinned: false, hit: null, memory: null, size: 0, deletedAt: "" } as const;

export function rowOfHit(h: Hit): Row {
  const title = h.title ? placeWord(h.title) : "";
  const shown = plain(h.snippet, h.highlights, title.split(" › ").pop());
  return {
    ...blank,
    id: h.id,
    kind: h.kind as Kind,
    item: itemOf(h),
    name: firstLine(title || h.snippet, 80),
    title: format.visible(title, 120),
    text: shown.text,
    highlights: shown.spans,
    source: h.source,
    speaker: h.speaker ? format.visible(h.speaker, 40) : "",
    tags: h.tags,
    at: h.occurredAt ?? h.createdAt,
    stored: !h.occurredAt,
    tier: (h.salienceTier as Tier | undefined) ?? null,
    untrusted: h.untrusted,
    pinned: h.pinned,
    hit: h,
  };
}

export function rowOfMemory(m: Memory): Row {
  return {
    ...blank,
    id: m.id,
    kind: "memory",
    item: itemWith("memory", m.id),
    name: titleOf(m),
    title: m.title ? format.visible(m.title, 120) : "",
    text: flat(m.content, 260),
    source: m.source,
    tags: m.tags,
    at: m.occurredAt ?? m.createdAt,
    stored: !m.occurredAt,
    tier: m.salienceTier as Tier,
    untrusted: m.untrusted,
    pinned: m.pinned,
    memory: m,
    deletedAt: m.deletedAt ?? "",
  };
}

export function rowOfConversation(c: Conversation): Row {
  return {
    ...blank,
    id: c.id,
    kind: "conversation",
    item: itemWith("conversation", c.id),
    name: firstLine(c.title, 80) || t.untitled,
    title: firstLine(c.title, 120) || t.untitled,
    text: c.participants.map((p) => format.visible(p, 40)).join(", "),
    source: c.source,
    tags: c.tags,
    at: c.endedAt ?? c.startedAt ?? c.createdAt,
    stored: !c.endedAt && !c.startedAt,
    untrusted: c.untrusted,
    size: c.turns,
    deletedAt: c.deletedAt ?? "",
  };
}

export function rowOfDocument(d: Doc): Row {
  const path = readable(d.sourceUri);
  return {
    ...blank,
    id: d.id,
    kind: "document",
    item: itemWith("document", d.id),
    name: firstLine(d.title || d.sourceUri, 80),
    title: firstLine(d.title, 120) || format.visible(path, 120),
    text: format.visible(path, 200),
    source: d.source,
    tags: d.tags,
    at: d.occurredAt ?? d.updatedAt,
    stored: !d.occurredAt,
    untrusted: d.untrusted,
    size: d.chunks,
    deletedAt: d.deletedAt ?? "",
  };
}

/** "12 messages" or "3 parts"; nothing for a memory. */
export const sizeWord = (row: Pick<Row, "kind" | "size">): string => (row.kind === "conversation" ? t.messages(row.size) : row.kind === "document" ? t.parts(row.size) : "");
