import Settings from "@lucide/svelte/icons/settings";
import ShieldAlert from "@lucide/svelte/icons/shield-alert";
import { common } from "../../lib/i18n/common";
import { blocked, rpc } from "../../lib/rpc";
import { nav, toasts } from "../../lib/ui/state";
import type { ScreenDef } from "../../lib/ui/screen";
import { backUpNow } from "./backup";
import { ContainerJobs } from "./containers.svelte";
import { isolation } from "./isolation.svelte";
import { t } from "./messages";
import { sections } from "./sections";

const containerJobs = new ContainerJobs(toasts);

export const screen: ScreenDef = {
  id: "settings",
  get title() {
    return common.settings;
  },
  group: "System",
  order: 90,
  icon: Settings,
  needs: ["config.get", "config.schema"],
  parts: sections,
  load: () => import("./Settings.svelte"),
  keys: ["mod+,", "g s"],
  commands: () => [
    ...sections.map((id) => ({ id: `settings.${id}`, title: t.openPage(t.pages[id]), group: common.settings, words: t.pageWords[id], run: () => nav.go(`settings/${id}`) })),
    { id: "backup.now", title: t.backUpNow, group: t.pages.data, words: t.pageWords.data, when: () => blocked("storage.backup") === "", run: () => backUpNow(rpc, toasts) },
  ],
  status: () => (isolation.missing === "" ? [] : [{ id: "isolation", text: isolation.missing, icon: ShieldAlert, tone: "muted", target: "settings/sandbox", optional: true }]),
  jobs: () => containerJobs.all,
  start: (rpc) => {
    isolation.start(rpc);
    containerJobs.start(rpc);
  },
};
