import Compass from "@lucide/svelte/icons/compass";
import { rpc } from "../../lib/rpc";
import type { ScreenDef } from "../../lib/ui/screen";
import { nav } from "../../lib/ui/state";
import { addressOf, parts, toolAt } from "./address";
import { discoveryScreen } from "./instance";
import { t } from "./messages";
import { views } from "./types";

export const screen: ScreenDef = {
  id: "discovery",
  get title() {
    return t.list.title;
  },
  group: "System",
  order: 20,
  icon: Compass,
  needs: ["discovery.list"],
  item: (id) => toolAt(id),
  parts,
  load: () => import("./Discovery.svelte"),
  keys: "g d",
  badge: () => discoveryScreen().waiting,
  get badgeLabel() {
    return t.badge;
  },
  commands: () => [
    { id: "discovery.add", title: t.add, group: t.list.title, words: t.paletteWords, when: () => rpc.can("discovery.inspect_openapi"), run: () => (nav.go("discovery"), discoveryScreen().adding.begin()) },
    ...views.map((v) => ({ id: `discovery.view.${v}`, title: t.openView[v], group: t.list.title, run: () => nav.go(addressOf(v)) })),
  ],
  search: (_, query) => {
    const q = query.trim().toLowerCase();
    const found = q === "" ? [] : discoveryScreen().list.page.items.filter((x) => x.name.includes(q)).slice(0, 4);
    return Promise.resolve(found.map((x) => ({ id: `discovery.open.${x.manifestId}`, title: `${t.list.one}: ${x.name}`, group: t.list.title, run: () => nav.go(toolAt(x.manifestId)) })));
  },
  start: () => discoveryScreen().start(),
};
