import AudioLines from "@lucide/svelte/icons/audio-lines";
import Blocks from "@lucide/svelte/icons/blocks";
import BookOpen from "@lucide/svelte/icons/book-open";
import Brain from "@lucide/svelte/icons/brain";
import CalendarClock from "@lucide/svelte/icons/calendar-clock";
import FileText from "@lucide/svelte/icons/file-text";
import MessageSquare from "@lucide/svelte/icons/message-square";
import Mic from "@lucide/svelte/icons/mic";
import Package from "@lucide/svelte/icons/package";
import Wrench from "@lucide/svelte/icons/wrench";
import type { Component } from "svelte";
import type { Rpc } from "../../lib/rpc";
import type { en } from "./messages";

export type Kind = keyof typeof en.kinds;
/** The kinds of one screen together, as choices of the filter. */
export type Group = Exclude<keyof typeof en.groups, "">;

export const groups: Readonly<Record<Group, readonly Kind[]>> = { tools: ["tool", "wasm"], skills: ["skill"], schedules: ["schedule"], memory: ["memory", "conversation", "document"], chats: ["chat"], memos: ["memo", "command"] };
export const groupNames = Object.keys(groups) as readonly Group[];

interface KindDef {
  icon: Component<Record<string, unknown>>;
  /** Moves an item to the trash again. */
  remove: (rpc: Rpc, id: string) => Promise<unknown>;
}

export const kinds: Readonly<Record<Kind, KindDef>> = {
  tool: { icon: Wrench, remove: (rpc, toolId) => rpc.call("tools.delete", { toolId }) },
  wasm: { icon: Package, remove: (rpc, skillId) => rpc.call("skills.delete_wasm", { skillId }) },
  skill: { icon: Blocks, remove: (rpc, skillId) => rpc.call("skills.delete_composite", { skillId }) },
  schedule: { icon: CalendarClock, remove: (rpc, scheduleId) => rpc.call("schedules.delete", { scheduleId }) },
  memory: { icon: Brain, remove: (rpc, id) => rpc.call("memory.delete", { ids: [id] }) },
  conversation: { icon: BookOpen, remove: (rpc, id) => rpc.call("memory.delete_conversation", { id }) },
  document: { icon: FileText, remove: (rpc, documentId) => rpc.call("memory.delete_document", { documentId }) },
  chat: { icon: MessageSquare, remove: (rpc, sessionId) => rpc.call("chat.delete", { sessionId }) },
  memo: { icon: AudioLines, remove: (rpc, memoId) => rpc.call("voice.delete_memo", { memoId }) },
  command: { icon: Mic, remove: (rpc, commandId) => rpc.call("voice.delete_command", { commandId }) },
};
