/** The single Memory screen of the page. It exists as long as the page, so drafts and imports do too. */
import { rpc } from "../../lib/rpc";
import { lasting, toasts } from "../../lib/ui/state";
import { MemoryScreen } from "./memory.svelte";

let screen: MemoryScreen | null = null;

/** The screen's state; created on first use. */
export function memoryScreen(): MemoryScreen {
  screen ??= lasting(() => new MemoryScreen(rpc, toasts));
  return screen;
}
