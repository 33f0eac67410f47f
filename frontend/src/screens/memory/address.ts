/**
 * Addresses of the screen:
 *   memory                                     the list
 *   memory/list/memory/<id>                    a memory
 *   memory/list/turn/<id>/<conversation>/<seq> a message in its conversation
 *   memory/list/chunk/<id>/<document>/<seq>    a part of a document in its place
 *   memory/timeline[/…as above]
 *   memory/conversations[/conversation/<id>]
 *   memory/documents[/document/<id>]
 *   memory/trash
 *   memory/<id>                                a memory, as a link names it
 */
import type { Hit, View } from "./types";

/** What the inspector can show. */
export type ThingKind = "memory" | "turn" | "chunk" | "conversation" | "document";

/** One thing and where it stands. */
export interface Thing {
  kind: ThingKind;
  id: string;
  /** The conversation of a turn, the document of a chunk. */
  parentId: string;
  /** Its number in there; -1 when it is not known. */
  seq: number;
}

export interface Place {
  view: View;
  thing: Thing | null;
}

const views: readonly View[] = ["list", "timeline", "conversations", "documents", "trash"];
const kinds: readonly ThingKind[] = ["memory", "turn", "chunk", "conversation", "document"];

/** What an address shows. */
export function placeOf(rest: readonly string[]): Place {
  const [head = "", kind = "", id = "", parentId = "", seq = ""] = rest;
  if (head === "") return { view: "list", thing: null };
  if (!views.includes(head as View)) return { view: "list", thing: { kind: "memory", id: head, parentId: "", seq: -1 } };
  const view = head as View;
  if (id === "" || !kinds.includes(kind as ThingKind)) return { view, thing: null };
  return { view, thing: { kind: kind as ThingKind, id, parentId, seq: /^\d+$/.test(seq) ? Number(seq) : -1 } };
}

/** The address of a view, with a thing open beside it. */
export function addressOf(view: View, thing: Thing | null = null): string {
  if (thing === null) return view === "list" ? "memory" : `memory/${view}`;
  const tail = thing.parentId === "" ? "" : `/${thing.parentId}${thing.seq >= 0 ? `/${thing.seq}` : ""}`;
  return `memory/${view}/${thing.kind}/${thing.id}${tail}`;
}

/** The thing that a hit found. */
export function thingOf(hit: Pick<Hit, "id" | "kind" | "evidence">): Thing {
  if (hit.kind === "memory") return memoryThing(hit.id);
  const e = hit.evidence.find((x) => x.id === hit.id) ?? hit.evidence[0];
  return { kind: hit.kind === "chunk" ? "chunk" : "turn", id: hit.id, parentId: e?.conversationId ?? e?.documentId ?? "", seq: e?.seq ?? -1 };
}

export const memoryThing = (id: string): Thing => ({ kind: "memory", id, parentId: "", seq: -1 });
export const sameThing = (a: Thing | null, b: Thing | null): boolean => a?.id === b?.id && a?.kind === b?.kind;
