/** The single Discovery screen of the page, so that what waits for approval is known on every screen. */
import { rpc } from "../../lib/rpc";
import { lasting } from "../../lib/ui/state";
import { DiscoveryScreen } from "./discovery.svelte";

let screen: DiscoveryScreen | null = null;

export function discoveryScreen(): DiscoveryScreen {
  screen ??= lasting(() => new DiscoveryScreen(rpc));
  return screen;
}
