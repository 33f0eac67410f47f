/**
 * Addresses of the screen:
 *   memory                                     the list
 *   memory/list/memory/<id>                    a memory
 *   memory/list/turn/<id>/<conversation>/<seq> a message in its conversation
 *   memory/list/chunk/<id>/<document>/<seq>    a part of a document
 *   memory/timeline[/…]                        as in the list; also conversation/<id>, document/<id>
 *   memory/conversations[/<id>]
 *   memory/documents[/<id>]
 *   memory/<id>                                a memory, as a link names it
 */
import type { Hit, View } from "./types";

/** The kinds of items in the inspector. */
export type ItemKind = "memory" | "turn" | "chunk" | "conversation" | "document";

/** One item and its position. */
export interface Item {
  kind: ItemKind;
  id: string;
  /** The conversation of a turn, the document of a chunk. */
  parentId: string;
  /** Its number in the parent; -1 if unknown. */
  seq: number;
}

export interface Place {
  view: View;
  item: Item | null;
}

const kinds: readonly ItemKind[] = ["memory", "turn", "chunk", "conversation", "document"];
/** Views whose items are identified by their id alone, with the kind of an item. */
const plainViews: Partial<Record<View, ItemKind>> = { conversations: "conversation", documents: "document" };

export const itemWith = (kind: ItemKind, id: string): Item => ({ kind, id, parentId: "", seq: -1 });

/** The place for an address. */
export function placeOf(rest: readonly string[]): Place {
  const [head = "list", second = "", id = "", parentId = "", seq = ""] = rest;
  const plain = plainViews[head as View];
  if (plain) return { view: head as View, item: second === "" ? null : itemWith(plain, second) };
  if (head !== "list" && head !== "timeline") return { view: "list", item: itemWith("memory", head) };
  const known = id !== "" && kinds.includes(second as ItemKind);
  return { view: head, item: known ? { kind: second as ItemKind, id, parentId, seq: /^\d+$/.test(seq) ? Number(seq) : -1 } : null };
}

/** The address of a view, with an item open next to it. */
export function addressOf(view: View, item: Item | null = null): string {
  if (item === null) return view === "list" ? "memory" : `memory/${view}`;
  if (plainViews[view]) return `memory/${view}/${item.id}`;
  const tail = item.parentId === "" ? "" : `/${item.parentId}${item.seq >= 0 ? `/${item.seq}` : ""}`;
  return `memory/${view}/${item.kind}/${item.id}${tail}`;
}

/** The item of a hit. */
export function itemOf(hit: Pick<Hit, "id" | "kind" | "evidence">): Item {
  if (hit.kind === "memory") return itemWith("memory", hit.id);
  const e = hit.evidence.find((x) => x.id === hit.id) ?? hit.evidence[0];
  return { kind: hit.kind === "chunk" ? "chunk" : "turn", id: hit.id, parentId: e?.conversationId ?? e?.documentId ?? "", seq: e?.seq ?? -1 };
}

export const sameItem = (a: Item | null, b: Item | null): boolean => a?.id === b?.id && a?.kind === b?.kind;
