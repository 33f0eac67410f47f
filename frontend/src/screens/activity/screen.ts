import History from "@lucide/svelte/icons/history";
import type { ScreenDef } from "../../lib/ui/screen";
import { t } from "./messages";

export const screen: ScreenDef = {
  id: "activity",
  get title() {
    return t.title;
  },
  group: "System",
  order: 40,
  icon: History,
  needs: ["audit.list"],
  link: (s, isId) => (s.length === 2 && s[0] === "runs" && isId(s[1]) ? `activity/run/${s[1]}` : null),
  item: (id) => `activity/subject/${id}`,
  load: () => import("./Activity.svelte"),
  keys: "g l",
};
