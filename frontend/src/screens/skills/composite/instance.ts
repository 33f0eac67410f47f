/** The single Skills tab of the page. It exists as long as the page, so runs and forms do too. */
import { rpc } from "../../../lib/rpc";
import { lasting, toasts } from "../../../lib/ui/state";
import { CompositeScreen } from "./composite.svelte";

let screen: CompositeScreen | null = null;

/** The tab's state; created on first use. */
export function compositeScreen(): CompositeScreen {
  screen ??= lasting(() => new CompositeScreen(rpc, toasts));
  return screen;
}
