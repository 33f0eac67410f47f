import Layers from "@lucide/svelte/icons/layers";
import { rpc } from "../../lib/rpc";
import type { ScreenDef } from "../../lib/ui/screen";
import { nav } from "../../lib/ui/state";
import { psychologyScreen } from "./instance";
import { t } from "./messages";
import { views } from "./types";

export const screen: ScreenDef = {
  id: "psychology",
  get title() {
    return t.title;
  },
  group: "Mind",
  order: 30,
  icon: Layers,
  needs: ["psychology.overview"],
  item: (id) => `psychology/fading/${id}`,
  parts: views.filter((v) => v !== "overview"),
  load: () => import("./Psychology.svelte"),
  keys: "g p",
  commands: () => [
    { id: "psychology.check", title: t.checkNow, group: t.title, words: t.checkWords, when: () => rpc.can("psychology.decay_run"), run: () => psychologyScreen().check(false) },
    { id: "psychology.fading", title: t.views.fading, group: t.title, run: () => nav.go("psychology/fading") },
  ],
  start: () => psychologyScreen().start(),
};
