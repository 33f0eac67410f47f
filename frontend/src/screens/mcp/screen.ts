import Plug from "@lucide/svelte/icons/plug";
import { rpc } from "../../lib/rpc";
import type { ScreenDef } from "../../lib/ui/screen";
import { nav } from "../../lib/ui/state";
import { copyConfig } from "./actions";
import { addressOf, serverAt } from "./address";
import { mcpScreen } from "./instance";
import { t } from "./messages";
import { views } from "./types";

const name = /^[a-z0-9][a-z0-9_-]{0,31}$/;

export const screen: ScreenDef = {
  id: "mcp",
  get title() {
    return t.list.title;
  },
  group: "Work",
  order: 25,
  icon: Plug,
  needs: ["mcp.servers"],
  parts: ["serve"],
  // helix://mcp/servers/calendar
  link: (segments) => (segments.length === 3 && segments[0] === "mcp" && segments[1] === "servers" && name.test(segments[2]!) ? serverAt(segments[2]!) : null),
  load: () => import("./Mcp.svelte"),
  keys: "g e",
  badge: () => mcpScreen().waiting,
  get badgeLabel() {
    return t.badge;
  },
  jobs: () => mcpScreen().jobs.all,
  commands: () => [
    { id: "mcp.add", title: t.add, group: t.list.title, words: t.paletteWords, when: () => rpc.can("mcp.add"), run: () => (nav.go("mcp"), mcpScreen().form.begin()) },
    { id: "mcp.import", title: t.importOpen, group: t.list.title, words: t.importWords, when: () => rpc.can("mcp.import"), run: () => (nav.go("mcp"), mcpScreen().importing.begin()) },
    { id: "mcp.export", title: t.exportConfig, group: t.list.title, when: () => rpc.can("mcp.export") && mcpScreen().list.page.items.length > 0, run: () => copyConfig(mcpScreen()) },
    ...views.map((v) => ({ id: `mcp.view.${v}`, title: t.openView[v], group: t.list.title, run: () => nav.go(addressOf(v)) })),
  ],
  search: (_, query) => {
    const q = query.trim().toLowerCase();
    const found = q === "" ? [] : mcpScreen().list.page.items.filter((s) => s.name.includes(q)).slice(0, 4);
    return Promise.resolve(found.map((s) => ({ id: `mcp.open.${s.name}`, title: `${t.list.one}: ${s.name}`, group: t.list.title, run: () => nav.go(serverAt(s.name)) })));
  },
  start: () => mcpScreen().start(),
};
