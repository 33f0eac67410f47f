import type { RowAction } from "../../lib/list/actions";
import { blocked as may } from "../../lib/rpc";
import { nav } from "../../lib/ui/state";
import { toolAt } from "./address";
import type { DiscoveryScreen } from "./discovery.svelte";
import { t } from "./messages";
import type { Row } from "./types";

/** What can be done with a tool. */
export const toolActions = (screen: DiscoveryScreen, x: Row): (RowAction | null)[] => [
  { id: "run", label: t.run, keys: "r", run: () => nav.go(toolAt(x.manifestId)), blocked: x.status === "active" ? may("discovery.run") : t.notActive },
  { id: "enable", label: x.status === "disabled" ? t.enable : t.disable, keys: "d", run: () => screen.setEnabled(x, x.status === "disabled"), blocked: x.status === "active" || x.status === "disabled" ? may("discovery.set_enabled") : t.notActive },
  { id: "verify", label: t.verify, keys: "v", run: () => (nav.go(toolAt(x.manifestId)), screen.verify(x)), blocked: x.status === "active" || x.status === "approved" ? may("discovery.verify") : t.notActive },
  { id: "rights", label: t.showRights, run: () => nav.go(toolAt(x.manifestId, "rights")) },
  null,
  { id: "revoke", label: t.revoke, keys: "Delete", danger: true, run: () => screen.revoke(x), blocked: may("discovery.revoke") },
];
