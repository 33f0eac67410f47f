/** The single Insights screen of the page, so that a running analysis is followed on every screen. */
import { rpc } from "../../lib/rpc";
import { lasting, toasts } from "../../lib/ui/state";
import { InsightsScreen } from "./insights.svelte";

let screen: InsightsScreen | null = null;

export function insightsScreen(): InsightsScreen {
  screen ??= lasting(() => new InsightsScreen(rpc, toasts));
  return screen;
}
