import Wrench from "@lucide/svelte/icons/wrench";
import { rpc } from "../../lib/rpc";
import { commands, nav } from "../../lib/ui";
import type { ScreenDef } from "../../lib/ui/screen";
import { toolsScreen } from "./instance";
import { paletteTools } from "./palette";

export const screen: ScreenDef = {
  id: "tools",
  title: "Tools",
  group: "Work",
  order: 20,
  icon: Wrench,
  needs: ["tools.list"],
  load: () => import("./Tools.svelte"),
  keys: "g t",
  commands: [
    { id: "tools.new", title: "New tool", group: "Tools", words: "create write", run: () => nav.go("tools/new") },
    { id: "tools.import", title: "Import tools…", group: "Tools", words: "file bundle link", run: () => (nav.go("tools"), toolsScreen().importing.begin()) },
    { id: "tools.secrets", title: "Tool secrets…", group: "Tools", words: "token password key", run: () => (nav.go("tools"), toolsScreen().secrets.begin()) },
  ],
  start: () => {
    toolsScreen().start();
    commands.addSource((query) => paletteTools(rpc, query, (to) => nav.go(to)));
  },
};
