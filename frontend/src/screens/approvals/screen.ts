import ShieldQuestion from "@lucide/svelte/icons/shield-question-mark";
import type { ScreenDef } from "../../lib/ui/screen";
import { t } from "../../lib/approvals/messages";
import { waiting } from "./waiting.svelte";
import { TABS } from "../../lib/approvals/words";

export const screen: ScreenDef = {
  id: "approvals",
  get title() {
    return t.title;
  },
  group: "System",
  order: 30,
  icon: ShieldQuestion,
  needs: ["approvals.list", "permissions.list"],
  item: (id) => `approvals/${id}`,
  parts: TABS.slice(1),
  load: () => import("./Approvals.svelte"),
  keys: ["mod+shift+a", "g a"],
  badge: () => waiting.count,
  get badgeLabel() {
    return t.waiting;
  },
  status: () => (waiting.count > 0 ? [{ id: "approvals", text: t.waitingFor(waiting.count), icon: ShieldQuestion, tone: "accent", target: "approvals" }] : []),
  start: (rpc) => waiting.start(rpc),
};
