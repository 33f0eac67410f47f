import MessageSquare from "@lucide/svelte/icons/message-square";
import { common } from "../../lib/i18n/common";
import type { ScreenDef } from "../../lib/ui/screen";
import { nav } from "../../lib/ui/state";
import { chatScreen } from "./instance";
import { t } from "./messages";

export const screen: ScreenDef = {
  id: "chat",
  get title() {
    return t.list.title;
  },
  group: "Work",
  order: 0,
  icon: MessageSquare,
  needs: ["chat.list", "chat.send"],
  item: (id) => `chat/${id}`,
  load: () => import("./Chat.svelte"),
  keys: "g c",
  commands: () => [{ id: "chat.new", title: t.new, group: t.list.title, words: t.newWords, keys: "mod+n", run: () => (nav.go("chat"), chatScreen().write()) }],
  search: async (rpc, query) =>
    query.trim() === "" ? [] : (await rpc.call("chat.list", { query: query.trim(), limit: 8 })).sessions.map((s) => ({ id: `chat.open.${s.id}`, title: common.onThing(t.open, s.title || t.untitled), group: t.list.title, run: () => nav.go(`chat/${s.id}`) })),
};
