import Brain from "@lucide/svelte/icons/brain";
import { rpc } from "../../lib/rpc";
import { nav } from "../../lib/ui/state";
import type { ScreenDef } from "../../lib/ui/screen";
import { memoryScreen } from "./instance";
import { memoryJobs } from "./jobs.svelte";
import { t } from "./messages";
import { paletteMemory } from "./palette";

export const screen: ScreenDef = {
  id: "memory",
  get title() {
    return t.title;
  },
  group: "Mind",
  order: 10,
  icon: Brain,
  needs: ["memory.list"],
  item: (id) => `memory/${id}`,
  parts: ["timeline", "conversations", "documents"],
  load: () => import("./Memory.svelte"),
  keys: "g m",
  commands: () => [
    { id: "memory.new", title: t.newMemoryMore, group: t.title, words: t.newWords, when: () => rpc.can("memory.add"), run: () => (nav.go("memory"), memoryScreen().form.begin()) },
    { id: "memory.note", title: t.newNote, group: t.title, words: t.newWords, when: () => rpc.can("memory.add"), run: () => (nav.go("memory"), memoryScreen().form.begin(true)) },
    { id: "memory.import", title: t.importMemories, group: t.title, words: t.importWords, when: () => rpc.can("memory.import"), run: () => (nav.go("memory"), memoryScreen().importing.begin()) },
    { id: "memory.conversations", title: t.views.conversations, group: t.title, run: () => nav.go("memory/conversations") },
    { id: "memory.documents", title: t.views.documents, group: t.title, run: () => nav.go("memory/documents") },
    { id: "memory.sample", title: t.sample.add, group: t.title, words: t.sample.words, when: () => rpc.can("memory.add_batch") && memoryScreen().sample.count === 0, run: () => memoryScreen().sample.load() },
    { id: "memory.sample_remove", title: t.sample.remove, group: t.title, words: t.sample.words, when: () => rpc.can("memory.delete") && memoryScreen().sample.count > 0, run: () => memoryScreen().sample.remove() },
    { id: "memory.timeline", title: t.timelineCommand, group: t.title, run: () => nav.go("memory/timeline") },
  ],
  search: (rpc, query) => paletteMemory(rpc, query, (to) => nav.go(to)),
  starter: {
    get title() {
      return t.starter.title;
    },
    get text() {
      return t.starter.text;
    },
    get action() {
      return t.starter.action;
    },
    step: 1,
    run: () => (nav.go("memory"), memoryScreen().importing.begin()),
    also: () => {
      const sample = memoryScreen().sample;
      return sample.count > 0 ? { action: t.sample.remove, busy: sample.busy, run: () => sample.remove() } : { action: t.sample.add, busy: sample.busy, run: () => sample.load() };
    },
    used: async (rpc) => {
      const { memories, conversations, documents } = await rpc.call("memory.stats", {});
      return memories + conversations + documents > 0;
    },
  },
  jobs: () => memoryJobs.all,
  status: () => (memoryScreen().sample.count > 0 ? [{ id: "memory.sample", text: t.sample.status, icon: Brain, tone: "muted", target: "welcome", optional: true }] : []),
  start: (rpc) => {
    memoryJobs.start(rpc);
    memoryScreen().importing.start();
    memoryScreen().sample.start();
    memoryScreen().importing.watched.start();
  },
};
