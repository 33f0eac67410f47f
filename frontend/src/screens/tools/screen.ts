import Wrench from "@lucide/svelte/icons/wrench";
import { nav } from "../../lib/ui";
import { searchCallables } from "../../lib/run/callables";
import type { ScreenDef } from "../../lib/ui/screen";
import { toolsScreen } from "./instance";
import { toolJobs } from "./jobs.svelte";

export const screen: ScreenDef = {
  id: "tools",
  title: "Tools",
  group: "Work",
  order: 20,
  icon: Wrench,
  needs: ["tools.list"],
  item: (id) => `tools/${id}`,
  load: () => import("./Tools.svelte"),
  keys: "g t",
  link: (s, isId) => (s.length === 3 && s[0] === "tools" && s[1] === "shared" && isId(s[2]) ? s.join("/") : null),
  commands: () => [
    { id: "tools.new", title: "New tool", group: "Tools", words: "create write", run: () => nav.go("tools/new") },
    { id: "tools.import", title: "Import tools…", group: "Tools", words: "file bundle link", run: () => (nav.go("tools"), toolsScreen().importing.begin()) },
    { id: "tools.secrets", title: "Tool secrets…", group: "Tools", words: "token password key", run: () => (nav.go("tools"), toolsScreen().secrets.begin()) },
  ],
  search: (rpc, query) => searchCallables(rpc, query, [{ kind: "tool", noun: "tool", open: "Edit", group: "Tools", at: (id) => `tools/${id}`, part: "/edit" }], (to) => nav.go(to)),
  jobs: () => toolJobs.all,
  start: (rpc) => {
    toolJobs.start(rpc);
    toolsScreen().start();
  },
};
