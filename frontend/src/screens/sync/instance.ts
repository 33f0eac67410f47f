/** The state of the Sync screen, shared by the whole page. */
import { rpc } from "../../lib/rpc";
import { lasting, toasts } from "../../lib/ui/state";
import { SyncStatus } from "./status.svelte";
import { SyncScreen } from "./sync.svelte";

export const status = new SyncStatus();

let screen: SyncScreen | null = null;

/** The screen's state, created on first use. */
export function syncScreen(): SyncScreen {
  screen ??= lasting(() => new SyncScreen(rpc, toasts, status));
  return screen;
}
