import type { RowAction } from "../../lib/list";
import { blocked as may } from "../../lib/rpc";
import type { MemoryScreen } from "./memory.svelte";
import { t } from "./messages";
import type { Row } from "./rows";

/**
 * The actions on a row: its menu, its commands and its shortcuts. `ids` are the memories that are selected
 * together with it.
 */
export function rowActions(screen: MemoryScreen, row: Row, open: (row: Row) => unknown, ids: readonly string[] = [row.id]): (RowAction | null)[] {
  if (row.kind === "conversation" || row.kind === "document") {
    const blocked = may(row.kind === "conversation" ? "memory.delete_conversation" : "memory.delete_document");
    return [{ id: "open", label: t.open, keys: "Enter", run: () => open(row) }, null, { id: "delete", label: t.moveToTrash, keys: "Delete", danger: true, run: () => screen.removeParent(row), blocked }];
  }
  if (row.kind !== "memory") return [{ id: "open", label: t.openIn[row.kind], keys: "Enter", run: () => open(row) }];
  return [
    { id: "open", label: t.open, keys: "Enter", run: () => open(row) },
    { id: "edit", label: t.edit, keys: "e", run: () => screen.startEdit(row), blocked: may("memory.update") },
    { id: "pin", label: row.pinned ? t.unpin : t.pin, keys: "p", run: () => screen.togglePin(ids), blocked: may("memory.pin") },
    { id: "tag", label: t.tags, keys: "t", run: () => (screen.tagging = ids), blocked: may("memory.tag") },
    ...(screen.view === "list" ? [{ id: "mark", label: screen.list.marks.has(row.id) ? t.deselect : t.select, keys: "x", run: () => screen.list.mark(row.id) }] : []),
    null,
    { id: "delete", label: t.moveToTrash, keys: "Delete", danger: true, run: () => screen.remove(ids), blocked: may("memory.delete") },
  ];
}
