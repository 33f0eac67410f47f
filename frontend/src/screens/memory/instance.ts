/** The one Memory screen of the page. It lives as long as the page, so that drafts and imports do too. */
import { rpc } from "../../lib/rpc";
import { lasting, toasts } from "../../lib/ui/state";
import { MemoryScreen } from "./memory.svelte";

let screen: MemoryScreen | null = null;

/** The screen's state; made when it is first needed. */
export function memoryScreen(): MemoryScreen {
  screen ??= lasting(() => new MemoryScreen(rpc, toasts));
  return screen;
}
