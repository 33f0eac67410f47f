import Settings from "@lucide/svelte/icons/settings";
import ShieldAlert from "@lucide/svelte/icons/shield-alert";
import { nav } from "../../lib/ui/nav.svelte";
import type { ScreenDef } from "../../lib/ui/screen";
import { isolation } from "./isolation.svelte";
import { sections } from "./sections";

export const screen: ScreenDef = {
  id: "settings",
  title: "Settings",
  group: "System",
  order: 90,
  icon: Settings,
  needs: ["config.get", "config.schema"],
  parts: sections.map((s) => s.id),
  load: () => import("./Settings.svelte"),
  keys: ["mod+,", "g s"],
  commands: () =>
    sections.map((s) => ({
      id: `settings.${s.id}`,
      title: `Settings: ${s.title}`,
      group: "Settings",
      words: s.words,
      run: () => nav.go(`settings/${s.id}`),
    })),
  status: () => (isolation.missing === "" ? [] : [{ id: "isolation", text: isolation.missing, icon: ShieldAlert, tone: "muted", target: "settings/sandbox", optional: true }]),
  start: (rpc) => isolation.start(rpc),
};
