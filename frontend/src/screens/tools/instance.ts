/** The one Tools screen of the page. It lives as long as the page, so runs and drafts do too. */
import { bridge, rpc } from "../../lib/rpc";
import { download } from "../../lib/ui/browser";
import { lasting, toasts } from "../../lib/ui/state";
import { ToolsScreen } from "./tools.svelte";

let screen: ToolsScreen | null = null;

/** The screen's state; made when it is first needed. */
export function toolsScreen(): ToolsScreen {
  screen ??= lasting(() => new ToolsScreen(rpc, localStorage, toasts, download, bridge() ? pick : null));
  return screen;
}

async function pick(title: string, name: string): Promise<string> {
  // A cancelled dialog answers with nothing.
  return (await bridge()?.SaveFile({ title, name }))?.token ?? "";
}
