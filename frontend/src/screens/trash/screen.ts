import Trash2 from "@lucide/svelte/icons/trash-2";
import type { ScreenDef } from "../../lib/ui/screen";
import { nav } from "../../lib/ui/state";
import { groupNames } from "./kinds";
import { t } from "./messages";

export const screen: ScreenDef = {
  id: "trash",
  get title() {
    return t.list.title;
  },
  group: "System",
  order: 50,
  icon: Trash2,
  needs: ["trash.list"],
  item: (id) => `trash/${id}`,
  parts: groupNames,
  load: () => import("./Trash.svelte"),
  keys: "g x",
  commands: () => groupNames.map((g) => ({ id: `trash.${g}`, title: t.openTrash[g], group: t.list.title, words: t.words, run: () => nav.go(`trash/${g}`) })),
};
