import Wrench from "@lucide/svelte/icons/wrench";
import { rpc } from "../../lib/rpc";
import { nav } from "../../lib/ui";
import { searchCallables } from "../../lib/run/callables";
import type { ScreenDef } from "../../lib/ui/screen";
import { toolsScreen } from "./instance";
import { toolJobs } from "./jobs.svelte";
import { PARTS } from "./address";
import { t } from "./messages";

export const screen: ScreenDef = {
  id: "tools",
  get title() {
    return t.list.title;
  },
  group: "Work",
  order: 20,
  icon: Wrench,
  needs: ["tools.list"],
  item: (id) => `tools/${id}`,
  parts: [...PARTS, "wasm"],
  load: () => import("./Tools.svelte"),
  keys: "g t",
  link: (s, isId) => (s.length === 3 && s[0] === "tools" && s[1] === "shared" && isId(s[2]) ? s.join("/") : null),
  commands: () => [
    { id: "tools.new", title: t.newTool, group: t.list.title, words: t.newWords, run: () => nav.go("tools/new") },
    { id: "tools.install", title: t.install, group: t.list.title, words: t.installWords, run: () => (nav.go("tools"), toolsScreen().modules.form.begin()), when: () => rpc.can("skills.create_wasm") },
    { id: "tools.import", title: t.importTools, group: t.list.title, words: t.importWords, run: () => (nav.go("tools"), toolsScreen().importing.begin()) },
    { id: "tools.secrets", title: t.toolSecrets, group: t.list.title, words: t.secretWords, run: () => (nav.go("tools"), toolsScreen().secrets.begin()) },
  ],
  search: (rpc, query) =>
    searchCallables(
      rpc,
      query,
      [
        { kind: "tool", noun: "tool", run: t.runTool, open: t.editTool, group: t.list.title, at: (id) => `tools/${id}`, part: "/edit" },
        { kind: "wasm", noun: "tool", also: "module", run: t.runTool, open: t.openTool, group: t.list.title, at: (id) => `tools/wasm/${id}`, part: "" },
      ],
      (to) => nav.go(to),
    ),
  starter: {
    step: 2,
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
      const id = await toolsScreen().tryTemplate();
      if (id !== null) nav.go(`tools/${id}/run`);
    },
    used: async (rpc) => (await rpc.call("tools.list", { limit: 1 })).total > 0 || (await rpc.call("tools.usage", { limit: 1 })).entries.length > 0,
  },
  jobs: () => toolJobs.all,
  start: (rpc) => {
    toolJobs.start(rpc);
    toolsScreen().start();
  },
};
