import Blocks from "@lucide/svelte/icons/blocks";
import { rpc } from "../../lib/rpc";
import { commands, nav } from "../../lib/ui";
import type { ScreenDef } from "../../lib/ui/screen";
import { wasmScreen } from "./instance";
import { paletteSkills } from "./palette";

export const screen: ScreenDef = {
  id: "skills",
  title: "Skills",
  group: "Work",
  order: 30,
  icon: Blocks,
  needs: ["skills.list_wasm"],
  load: () => import("./Skills.svelte"),
  keys: "g k",
  commands: [{ id: "skills.install", title: "Install WASM skill…", group: "Skills", words: "module file add", run: () => (nav.go("skills/wasm"), wasmScreen().form.begin()) }],
  start: () => {
    wasmScreen().start();
    commands.addSource((query) => paletteSkills(rpc, query, (to) => nav.go(to)));
  },
};
