/** The single Tools screen of the page. It exists as long as the page, so runs and drafts do too. */
import { bridge, rpc } from "../../lib/rpc";
import { download } from "../../lib/ui/browser";
import { lasting, toasts } from "../../lib/ui/state";
import { ToolsScreen } from "./tools.svelte";

let screen: ToolsScreen | null = null;

/** The screen's state; created on first use. */
export function toolsScreen(): ToolsScreen {
  screen ??= lasting(() => new ToolsScreen(rpc, localStorage, toasts, download, bridge() ? pick : null));
  return screen;
}

async function pick(title: string, name: string): Promise<string> {
  // A canceled dialog returns nothing.
  return (await bridge()?.SaveFile({ title, name }))?.token ?? "";
}
