import ShieldQuestion from "@lucide/svelte/icons/shield-question-mark";
import type { ScreenDef } from "../../lib/ui/screen";
import { waiting } from "./waiting.svelte";

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
  badge: () => waiting.count,
  badgeLabel: "waiting",
  status: () => (waiting.count > 0 ? [{ id: "approvals", text: `${waiting.count} waiting for approval`, icon: ShieldQuestion, tone: "accent", target: "approvals" }] : []),
  start: (rpc) => waiting.start(rpc),
};
