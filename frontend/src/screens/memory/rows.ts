/** Rows of the lists: what a hit, a memory, a conversation and a document have in common. */
import { format } from "../../lib/ui/state";
import { memoryThing, thingOf, type Thing } from "./address";
import { plain } from "./plain";
import type { Conversation, Doc, Hit, Kind, Memory, Span, Tier } from "./types";
import { firstLine } from "./words";

export interface Row {
  id: string;
  kind: Kind | "conversation" | "document";
  thing: Thing;
  /** How it is called in menus and read out. */
  name: string;
  title: string;
  /** What is shown of its text, on one or two lines. */
  text: string;
  highlights: readonly Span[];
  source: string;
  speaker: string;
  tags: readonly string[];
  /** When it happened, else when it was stored. */
  at: string;
  /** `at` is only the time of storing. */
  stored: boolean;
  tier: Tier | null;
  untrusted: boolean;
  pinned: boolean;
  hit: Hit | null;
  memory: Memory | null;
  /** How many messages or parts it holds. */
  size: number;
  deletedAt: string;
}

/** A place as a person reads it. */
export function readable(uri: string): string {
  if (!uri.startsWith("file://")) return uri;
  try {
    return decodeURIComponent(new URL(uri).pathname);
  } catch {
    return uri;
  }
}

/** The beginning of a text on one line. */
function flat(text: string, max: number): string {
  const begin = plain(text.slice(0, max * 3)).text.replace(/\s+/g, " ").trim();
  return begin.length > max ? `${begin.slice(0, max)}…` : begin;
}

/** The place of a part among the headings of its document; a heading that says the title again says it once. */
export const placeWord = (title: string): string => title.split(" › ").filter((p, i, all) => p !== all[i - 1]).join(" › ");

export function rowOfHit(h: Hit): Row {
  const title = h.title ? placeWord(h.title) : "";
  const shown = plain(h.snippet, h.highlights, title.split(" › ").pop());
  return {
    id: h.id,
    kind: h.kind as Kind,
    thing: thingOf(h),
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
    memory: null,
    size: 0,
    deletedAt: "",
  };
}

export function rowOfMemory(m: Memory): Row {
  return {
    id: m.id,
    kind: "memory",
    thing: memoryThing(m.id),
    name: firstLine(m.title || m.content, 80),
    title: m.title ? format.visible(m.title, 120) : "",
    text: flat(m.content, 260),
    highlights: [],
    source: m.source,
    speaker: "",
    tags: m.tags,
    at: m.occurredAt ?? m.createdAt,
    stored: !m.occurredAt,
    tier: m.salienceTier as Tier,
    untrusted: m.untrusted,
    pinned: m.pinned,
    hit: null,
    memory: m,
    size: 0,
    deletedAt: m.deletedAt ?? "",
  };
}

export function rowOfConversation(c: Conversation): Row {
  return {
    id: c.id,
    kind: "conversation",
    thing: { kind: "conversation", id: c.id, parentId: "", seq: -1 },
    name: firstLine(c.title, 80) || "Untitled conversation",
    title: firstLine(c.title, 120) || "Untitled conversation",
    text: c.participants.map((p) => format.visible(p, 40)).join(", "),
    highlights: [],
    source: c.source,
    speaker: "",
    tags: c.tags,
    at: c.endedAt ?? c.startedAt ?? c.createdAt,
    stored: !c.endedAt && !c.startedAt,
    tier: null,
    untrusted: c.untrusted,
    pinned: false,
    hit: null,
    memory: null,
    size: c.turns,
    deletedAt: c.deletedAt ?? "",
  };
}

export function rowOfDocument(d: Doc): Row {
  return {
    id: d.id,
    kind: "document",
    thing: { kind: "document", id: d.id, parentId: "", seq: -1 },
    name: firstLine(d.title || d.sourceUri, 80),
    title: firstLine(d.title, 120) || format.visible(readable(d.sourceUri), 120),
    text: format.visible(readable(d.sourceUri), 200),
    highlights: [],
    source: d.source,
    speaker: "",
    tags: d.tags,
    at: d.occurredAt ?? d.updatedAt,
    stored: !d.occurredAt,
    tier: null,
    untrusted: d.untrusted,
    pinned: false,
    hit: null,
    memory: null,
    size: d.chunks,
    deletedAt: d.deletedAt ?? "",
  };
}
