import Wrench from "@lucide/svelte/icons/wrench";
import { nav } from "../../lib/ui";
import type { ScreenDef } from "../../lib/ui/screen";
import { toolsScreen } from "./instance";

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
  commands: [
    { id: "tools.new", title: "New tool", group: "Tools", words: "create write", run: () => nav.go("tools/new") },
    { id: "tools.import", title: "Import tools…", group: "Tools", words: "file bundle link", run: () => (nav.go("tools"), toolsScreen().importing.begin()) },
    { id: "tools.secrets", title: "Tool secrets…", group: "Tools", words: "token password key", run: () => (nav.go("tools"), toolsScreen().secrets.begin()) },
  ],
  start: () => {
    toolsScreen().start();
  },
};
