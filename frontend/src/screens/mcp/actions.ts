import { common } from "../../lib/i18n/common";
import type { RowAction } from "../../lib/list/actions";
import { blocked as may } from "../../lib/rpc";
import { copy, nav } from "../../lib/ui/state";
import { serverAt } from "./address";
import type { McpScreen } from "./mcp.svelte";
import { t } from "./messages";
import type { Row } from "./types";

/** What can be done with a server. */
export function serverActions(screen: McpScreen, s: Row): (RowAction | null)[] {
  const update = may("mcp.update");
  const start = may("mcp.start") || (s.enabled ? "" : t.turnedOff);
  const running = s.state === "ready" || s.state === "starting";
  return [
    running ? { id: "stop", label: t.stop, keys: "s", run: () => screen.stop(s), blocked: may("mcp.stop") } : { id: "start", label: t.start, keys: "s", run: () => screen.startServer(s), blocked: start },
    { id: "restart", label: t.restart, keys: "r", run: () => screen.startServer(s, "restart"), blocked: start },
    { id: "test", label: t.test, keys: "t", run: () => (nav.go(serverAt(s.name)), screen.open.show(s.name), screen.open.runTest()), blocked: may("mcp.test") || start },
    { id: "log", label: t.showLog, keys: "l", run: () => nav.go(serverAt(s.name, "log")) },
    null,
    { id: "edit", label: common.edit, keys: "e", run: () => screen.edit(s.name), blocked: update },
    { id: "enable", label: s.enabled ? t.disable : t.enable, keys: "o", run: () => screen.setEnabled(s, !s.enabled), blocked: update },
    null,
    { id: "remove", label: t.remove, keys: "Delete", danger: true, run: () => screen.remove(s), blocked: may("mcp.remove") },
  ];
}

/** Copies all servers in the form that other programs read. */
export async function copyConfig(screen: McpScreen): Promise<void> {
  const content = await screen.export();
  if (content !== null) await copy(content, t.exported);
}
