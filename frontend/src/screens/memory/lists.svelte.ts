/** Conversations, documents and the trash as lists of the kit, and rows that are selected together. */
import { ListState, type Route } from "../../lib/list/state";
import type { Rpc } from "../../lib/rpc";
import { rowOfConversation, rowOfDocument, rowOfMemory, type Row } from "./rows";
import type { PageParams } from "./types";

/** Rows selected together for one action. */
export class Marks {
  ids = $state.raw<ReadonlySet<string>>(new Set());

  get size(): number {
    return this.ids.size;
  }
  has(id: string): boolean {
    return this.ids.has(id);
  }
  toggle(id: string): void {
    const ids = new Set(this.ids);
    if (!ids.delete(id)) ids.add(id);
    this.ids = ids;
  }
  drop(gone: Iterable<string>): void {
    const ids = new Set(this.ids);
    for (const id of gone) ids.delete(id);
    if (ids.size !== this.ids.size) this.ids = ids;
  }
  clear(): void {
    this.ids = new Set();
  }
}

export type RowList = ListState<Row>;
type Kind = "memories" | "conversations" | "documents";
type Read = (params: PageParams & { trash?: boolean }, signal: AbortSignal) => Promise<{ items: Row[]; total: number }>;

/** How each kind of row is read. */
const readers = (rpc: Rpc): Record<Kind, Read> => ({
  memories: async (params, signal) => {
    const r = await rpc.call("memory.list", params, { signal });
    return { items: r.items.map(rowOfMemory), total: r.total };
  },
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
export function parentList(rpc: Rpc, kind: "conversations" | "documents", route: Route): RowList {
  const read = readers(rpc)[kind];
  return new ListState<Row>({ id: (r) => r.id, route, read: ({ query, offset, limit, signal }) => read({ limit, offset, ...(query === "" ? {} : { query }) }, signal) });
}

/**
 * What was deleted and can still be restored: memories, conversations and documents in one list,
 * the latest first. A page of it needs as many rows of each kind as it has before its end.
 */
export function trashList(rpc: Rpc, route: Route): RowList {
  const sources = Object.values(readers(rpc)).map((read) => ({ read, rows: [] as Row[], total: 0 }));
  return new ListState<Row>({
    id: (r) => r.id,
    route,
    read: async ({ offset, limit, signal }) => {
      const end = offset + limit;
      await Promise.all(
        sources.map(async (s) => {
          let rows = offset === 0 ? [] : s.rows;
          let total = offset === 0 ? Infinity : s.total;
          while (rows.length < Math.min(end, total)) {
            const page = await s.read({ limit, offset: rows.length, trash: true }, signal);
            rows = [...rows, ...page.items];
            total = page.items.length === 0 ? rows.length : page.total;
          }
          Object.assign(s, { rows, total });
        }),
      );
      const all = sources.flatMap((s) => s.rows).sort((a, b) => (a.deletedAt < b.deletedAt ? 1 : a.deletedAt > b.deletedAt ? -1 : a.id < b.id ? 1 : -1));
      return { items: all.slice(offset, end), total: sources.reduce((n, s) => n + s.total, 0) };
    },
  });
}
