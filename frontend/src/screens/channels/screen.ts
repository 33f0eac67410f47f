import RadioTower from "@lucide/svelte/icons/radio-tower";
import { rpc } from "../../lib/rpc";
import type { ScreenDef } from "../../lib/ui/screen";
import { nav } from "../../lib/ui/state";
import { channelAt } from "./address";
import { channelsScreen } from "./instance";
import { t } from "./messages";
import { reportFocus } from "./presence";

const begin = (kind: "telegram" | "webhook") => (): void => {
  nav.go("channels");
  channelsScreen().adding.begin(kind);
};

export const screen: ScreenDef = {
  id: "channels",
  get title() {
    return t.list.title;
  },
  group: "System",
  order: 85,
  icon: RadioTower,
  needs: ["channels.list"],
  item: (id) => channelAt(id),
  // helix://settings/channels
  link: (segments) => (segments.join("/") === "settings/channels" ? "channels" : null),
  load: () => import("./Channels.svelte"),
  keys: "g n",
  badge: () => channelsScreen().failed,
  get badgeLabel() {
    return t.badge;
  },
  commands: () => [
    { id: "channels.add_telegram", title: t.addTelegram, group: t.list.title, words: t.paletteWords, when: () => rpc.can("channels.add"), run: begin("telegram") },
    { id: "channels.add_webhook", title: t.addWebhook, group: t.list.title, words: t.paletteWords, when: () => rpc.can("channels.add"), run: begin("webhook") },
  ],
  search: (_, query) => {
    const q = query.trim().toLowerCase();
    const found = q === "" ? [] : channelsScreen().list.page.items.filter((c) => c.name.toLowerCase().includes(q)).slice(0, 4);
    return Promise.resolve(found.map((c) => ({ id: `channels.open.${c.id}`, title: t.openChannel(c.name), group: t.list.title, run: () => nav.go(channelAt(c.id)) })));
  },
  start: (rpc) => {
    channelsScreen().start();
    reportFocus(rpc);
  },
};
