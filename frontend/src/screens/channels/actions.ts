import type { RowAction } from "../../lib/list/actions";
import { blocked as may } from "../../lib/rpc";
import { nav } from "../../lib/ui/state";
import { channelAt } from "./address";
import type { ChannelsScreen } from "./channels.svelte";
import { t } from "./messages";
import type { Channel } from "./types";

/** What can be done with a channel. */
export function channelActions(screen: ChannelsScreen, c: Channel): (RowAction | null)[] {
  const elsewhere = c.here ? "" : t.elsewhere;
  const show = (act: () => unknown) => () => {
    nav.go(channelAt(c.id));
    screen.open.show(c.id);
    act();
  };
  return [
    { id: "pair", label: t.pair, keys: "p", run: show(() => screen.open.pair()), blocked: may("channels.pair") },
    { id: "test", label: t.test, keys: "t", run: show(() => screen.open.runTest()), blocked: may("channels.test") },
    { id: "enable", label: c.enabled ? t.disable : t.enable, keys: "space", run: () => screen.setEnabled(c, !c.enabled), blocked: may("channels.set_enabled") || elsewhere },
    ...(c.here ? [] : [{ id: "takeover", label: t.takeOver, run: () => screen.takeOver(c), blocked: may("channels.update") }]),
    null,
    { id: "remove", label: t.remove, keys: "Delete", danger: true, run: () => screen.remove(c), blocked: may("channels.remove") },
  ];
}
