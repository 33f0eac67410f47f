import ShieldQuestion from "@lucide/svelte/icons/shield-question-mark";
import { system } from "../../frame/context";
import type { ScreenDef } from "../../lib/ui/screen";

export const screen: ScreenDef = {
  id: "approvals",
  title: "Approvals",
  group: "System",
  order: 30,
  icon: ShieldQuestion,
  needs: ["approvals.list", "permissions.list"],
  item: (id) => `approvals/${id}`,
  parts: ["grants", "denials", "history"],
  load: () => import("./Approvals.svelte"),
  keys: ["mod+shift+a", "g a"],
  badge: () => system.waiting,
  badgeLabel: "waiting",
};
