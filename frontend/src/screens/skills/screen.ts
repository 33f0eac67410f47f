import Blocks from "@lucide/svelte/icons/blocks";
import { rpc } from "../../lib/rpc";
import { searchCallables } from "../../lib/run/callables";
import { nav } from "../../lib/ui";
import type { ScreenDef } from "../../lib/ui/screen";
import { compositeScreen } from "./composite/instance";
import { skillJobs } from "./jobs.svelte";
import { t } from "./messages";

export const screen: ScreenDef = {
  id: "skills",
  get title() {
    return t.list.title;
  },
  group: "Work",
  order: 30,
  icon: Blocks,
  needs: ["skills.list_composite"],
  item: (id) => `skills/${id}`,
  // A shared skill, and the former address of WASM tools.
  link: (s, isId) => (s.length === 3 && s[0] === "skills" && s[1] === "shared" && isId(s[2]) ? s.join("/") : s.length === 2 && s[0] === "skills" && s[1] === "wasm" ? "tools/wasm" : null),
  load: () => import("./Skills.svelte"),
  keys: "g k",
  commands: () => [
    { id: "skills.new", title: t.newSkill, group: t.list.title, words: t.newWords, run: () => nav.go("skills/new"), when: () => rpc.can("skills.create_composite") },
    { id: "skills.import", title: t.importSkill, group: t.list.title, words: t.importWords, run: () => (nav.go("skills"), compositeScreen().importing.begin()), when: () => rpc.can("skills.import") },
  ],
  search: (rpc, query) =>
    searchCallables(rpc, query, [{ kind: "skill", noun: "skill", run: t.runSkill, open: t.openSkill, group: t.list.title, at: (id) => `skills/${id}`, part: "" }], (to) => nav.go(to)),
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
    run: async () => {
      const skill = await compositeScreen().tryTemplate();
      if (skill) nav.go(`skills/${skill.skillId}/edit`);
    },
    used: async (rpc) => (await rpc.call("skills.list_composite", { limit: 1 })).total > 0,
  },
  jobs: () => skillJobs.all,
  start: (rpc) => {
    skillJobs.start(rpc);
    compositeScreen().start();
  },
};
