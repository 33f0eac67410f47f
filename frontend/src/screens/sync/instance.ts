/** The one Sync screen of the page. */
import { rpc } from "../../lib/rpc";
import { lasting, toasts } from "../../lib/ui/state";
import { SyncStatus } from "./status.svelte";
import { SyncScreen } from "./sync.svelte";

export const status = new SyncStatus();

let screen: SyncScreen | null = null;

/** The screen's state; made when it is first needed. */
export function syncScreen(): SyncScreen {
  screen ??= lasting(() => new SyncScreen(rpc, toasts, status));
  return screen;
}
