import Lightbulb from "@lucide/svelte/icons/lightbulb";
import { rpc } from "../../lib/rpc";
import type { ScreenDef } from "../../lib/ui/screen";
import { nav } from "../../lib/ui/state";
import { insightsScreen } from "./instance";
import { t } from "./messages";

export const screen: ScreenDef = {
  id: "insights",
  get title() {
    return t.list.title;
  },
  group: "Mind",
  order: 20,
  icon: Lightbulb,
  needs: ["memory.list_patterns", "memory.synthesize"],
  item: (id) => `insights/${id}`,
  parts: ["map", "people", "analyses"],
  load: () => import("./Insights.svelte"),
  keys: "g i",
  commands: () => [{ id: "insights.find", title: t.find, group: t.list.title, words: t.findWords, when: () => rpc.can("memory.synthesize"), run: () => (nav.go("insights"), insightsScreen().run("full_synthesis")) }],
  starter: {
    step: 3,
    get title() {
      return t.starter.title;
    },
    get text() {
      return t.starter.text;
    },
    get action() {
      return t.starter.action;
    },
    run: () => (nav.go("insights"), insightsScreen().run("full_synthesis", true)),
    used: async (rpc) => (await rpc.call("memory.list_patterns", { limit: 1 })).total > 0,
  },
  jobs: () => insightsScreen().jobs.all,
  start: () => insightsScreen().start(),
};
