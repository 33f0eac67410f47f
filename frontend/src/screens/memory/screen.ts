import Brain from "@lucide/svelte/icons/brain";
import { rpc } from "../../lib/rpc";
import { nav } from "../../lib/ui/state";
import type { ScreenDef } from "../../lib/ui/screen";
import { memoryScreen } from "./instance";
import { memoryJobs } from "./jobs.svelte";
import { paletteMemory } from "./palette";

export const screen: ScreenDef = {
  id: "memory",
  title: "Memory",
  group: "Mind",
  order: 10,
  icon: Brain,
  needs: ["memory.list"],
  item: (id) => `memory/${id}`,
  parts: ["timeline", "conversations", "documents", "trash"],
  load: () => import("./Memory.svelte"),
  keys: "g m",
  commands: () => [
    { id: "memory.new", title: "New memory…", group: "Memory", words: "remember note write add", when: () => rpc.can("memory.add"), run: () => (nav.go("memory"), memoryScreen().form.begin()) },
    { id: "memory.note", title: "New note…", group: "Memory", words: "remember write", when: () => rpc.can("memory.add"), run: () => (nav.go("memory"), memoryScreen().form.begin(true)) },
    { id: "memory.import", title: "Import memories…", group: "Memory", words: "chatgpt claude obsidian markdown jsonl history export", when: () => rpc.can("memory.import"), run: () => (nav.go("memory"), memoryScreen().importing.begin()) },
    { id: "memory.conversations", title: "Conversations", group: "Memory", run: () => nav.go("memory/conversations") },
    { id: "memory.documents", title: "Documents", group: "Memory", run: () => nav.go("memory/documents") },
    { id: "memory.timeline", title: "Timeline of memories", group: "Memory", run: () => nav.go("memory/timeline") },
    { id: "memory.trash", title: "Trash of memories", group: "Memory", words: "deleted restore", run: () => nav.go("memory/trash") },
  ],
  search: (rpc, query) => paletteMemory(rpc, query, (to) => nav.go(to)),
  jobs: () => memoryJobs.all,
  start: (rpc) => {
    memoryJobs.start(rpc);
    memoryScreen().importing.start();
  },
};
