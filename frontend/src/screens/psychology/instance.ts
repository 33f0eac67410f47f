/** The single Psychology screen of the page. */
import { rpc } from "../../lib/rpc";
import { lasting, toasts } from "../../lib/ui/state";
import { PsychologyScreen } from "./psychology.svelte";

let screen: PsychologyScreen | null = null;

export function psychologyScreen(): PsychologyScreen {
  screen ??= lasting(() => new PsychologyScreen(rpc, toasts));
  return screen;
}
