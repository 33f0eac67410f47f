/** Conversations and documents as lists of the kit. */
import { ListState, type Route } from "../../lib/list/state";
import type { Rpc } from "../../lib/rpc";
import { rowOfConversation, rowOfDocument, type Row } from "./rows";
import type { PageParams } from "./types";

export type RowList = ListState<Row>;
type Kind = "conversations" | "documents";
type Read = (params: PageParams, signal: AbortSignal) => Promise<{ items: Row[]; total: number }>;

/** How each kind of row is read. */
const readers = (rpc: Rpc): Record<Kind, Read> => ({
  conversations: async (params, signal) => {
    const r = await rpc.call("memory.conversations", params, { signal });
    return { items: r.conversations.map(rowOfConversation), total: r.total };
  },
  documents: async (params, signal) => {
    const r = await rpc.call("memory.list_documents", params, { signal });
    return { items: r.documents.map(rowOfDocument), total: r.total };
  },
});

/** The conversations or the documents, the latest first; searched by title. */
export function parentList(rpc: Rpc, kind: Kind, route: Route): RowList {
  const read = readers(rpc)[kind];
  return new ListState<Row>({ id: (r) => r.id, route, read: ({ query, offset, limit, signal }) => read({ limit, offset, ...(query === "" ? {} : { query }) }, signal) });
}
