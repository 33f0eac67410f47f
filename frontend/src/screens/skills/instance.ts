/** The one WASM tab of the page. It lives as long as the page, so runs and sheets do too. */
import { rpc } from "../../lib/rpc";
import { lasting, toasts } from "../../lib/ui/state";
import { WasmScreen } from "./skills.svelte";

let screen: WasmScreen | null = null;

/** The tab's state; made when it is first needed. */
export function wasmScreen(): WasmScreen {
  screen ??= lasting(() => new WasmScreen(rpc, toasts));
  return screen;
}
