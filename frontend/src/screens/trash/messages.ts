/** Texts of the Trash screen. */
import { catalogue, choose, listing, number, plural } from "../../lib/i18n";

const items = (n: number): string => plural(n, { one: "item", other: "items" });

export const en = {
  list: {
    title: "Trash",
    one: "Deleted item",
    search: "Search the trash",
    filter: "Filter the trash",
    loading: "Loading the trash",
    failed: "Couldn't load the trash.",
    kept: "Its contents are unchanged.",
    noMatch: "No matching items",
  },
  count: (n: number) => items(n),
  openTrash: { tools: "Deleted tools", skills: "Deleted skills", schedules: "Deleted schedules", memory: "Deleted memories", chats: "Deleted chats", memos: "Deleted memos and voice commands" },
  words: "trash deleted restore undelete recover bin",
  show: "Show",
  groups: { "": "everything", tools: "tools", skills: "skills", schedules: "schedules", memory: "memories", chats: "chats", memos: "memos and voice commands" },
  groupCount: (name: string, n: number) => `${name} (${number(n)})`,
  kinds: { tool: "Tool", wasm: "WASM tool", skill: "Skill", schedule: "Schedule", memory: "Memory", conversation: "Conversation", document: "Document", chat: "Chat", memo: "Memo", command: "Voice command" },
  counts: {
    tool: (n: number) => plural(n, { one: "tool", other: "tools" }),
    wasm: (n: number) => plural(n, { one: "WASM tool", other: "WASM tools" }),
    skill: (n: number) => plural(n, { one: "skill", other: "skills" }),
    schedule: (n: number) => plural(n, { one: "schedule", other: "schedules" }),
    memory: (n: number) => plural(n, { one: "memory", other: "memories" }),
    conversation: (n: number) => plural(n, { one: "conversation", other: "conversations" }),
    document: (n: number) => plural(n, { one: "document", other: "documents" }),
    chat: (n: number) => plural(n, { one: "chat", other: "chats" }),
    memo: (n: number) => plural(n, { one: "memo", other: "memos" }),
    command: (n: number) => plural(n, { one: "voice command", other: "voice commands" }),
  },
  by: { window: "you, in the window", browser: "you, in a browser", terminal: "you, in a terminal", token: "a program", agent: "the agent", skill: "a skill", schedule: "a schedule", tool: "a tool", program: "Helix" } as Record<string, string>,
  unknown: "unknown",
  untitled: "(no title)",

  deleted: (ago: string) => `Deleted ${ago}`,
  rowState: (kind: string, name: string, ago: string) => `${kind}, ${name}, deleted ${ago}`,
  selected: "selected",
  selectedCount: (n: number) => `${number(n)} selected`,
  props: { deleted: "Deleted", by: "Deleted by", kept: "Kept until" },
  about: {
    tool: "Restoring it doesn't restore its permissions.",
    wasm: "Restoring it doesn't restore its permissions.",
    skill: "It comes back with its versions and runs, but without its permissions.",
    schedule: "Once restored, it continues at its next scheduled time.",
    memory: "It comes back with its tags and its place in search.",
    conversation: "It comes back with all of its messages.",
    document: "It comes back with all of its text.",
    chat: "It comes back with all of its messages. What Helix remembered from it stays in Memory.",
    memo: "It comes back with its recording and its text.",
    command: "It comes back as it was.",
  } as Record<string, string>,

  restore: "Restore",
  restoreMany: (n: number) => `Restore ${number(n)}`,
  select: "Select",
  deselect: "Deselect",
  clearSelection: "Clear selection",
  purge: "Delete permanently…",
  empty: "Empty trash…",
  emptyFiltered: (what: string) => `Permanently delete all ${what}…`,
  nothing: "The trash is empty",
  nothingText: "Deleted tools, skills, schedules, memories, chats, memos and voice commands stay here for a while and can be restored.",

  restored: (name: string) => `Restored “${name}”`,
  restoredMany: (n: number) => `Restored ${items(n)}`,
  restoreFailed: "Couldn't restore",
  stayed: (n: number, why: string) => `${items(n)} stayed in the trash: ${why}`,
  purged: (n: number) => `Deleted ${items(n)} permanently`,
  purgeFailed: "Couldn't delete permanently",

  confirm: (n: number) => `Delete ${items(n)} permanently?`,
  confirmOne: (name: string) => `Delete “${name}” permanently?`,
  confirmText: (n: number) => `${choose(n, { one: "It", other: "They" })} can't be restored after this.`,
  confirmCounts: (counts: readonly string[]) => `${listing(counts)} can't be restored after this.`,
  confirmButton: "Delete permanently",
  keep: "Keep",
  others: (n: number) => `and ${number(n)} more`,
};

export type Messages = typeof en;
export const t = catalogue(en, { de: () => import("./messages.de") });
