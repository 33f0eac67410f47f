/** The single Channels screen of the page, so that channels are followed on every screen. */
import { rpc } from "../../lib/rpc";
import { lasting } from "../../lib/ui/state";
import { ChannelsScreen } from "./channels.svelte";

let screen: ChannelsScreen | null = null;

export function channelsScreen(): ChannelsScreen {
  screen ??= lasting(() => new ChannelsScreen(rpc));
  return screen;
}
