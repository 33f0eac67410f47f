import AudioLines from "@lucide/svelte/icons/audio-lines";
import { rpc } from "../../lib/rpc";
import type { ScreenDef } from "../../lib/ui/screen";
import { nav } from "../../lib/ui/state";
import { addressOf, memoAt } from "./address";
import { voiceScreen } from "./instance";
import { t } from "./messages";
import { paletteVoice } from "./palette";
import { views } from "./types";

export const screen: ScreenDef = {
  id: "voice",
  get title() {
    return t.list.title;
  },
  group: "Voice",
  order: 10,
  icon: AudioLines,
  needs: ["voice.list_memos"],
  item: (id) => memoAt(id),
  parts: views.slice(1),
  load: () => import("./Voice.svelte"),
  keys: "g v",
  badge: () => voiceScreen().queue.data?.failed ?? 0,
  get badgeLabel() {
    return t.badge;
  },
  jobs: () => voiceScreen().jobs.all,
  commands: () => [
    { id: "voice.import", title: t.importAudio, group: t.list.title, words: t.importWords, when: () => rpc.can("voice.upload_memo"), run: () => (nav.go("voice"), (voiceScreen().importing = true)) },
    ...views.map((v) => ({ id: `voice.view.${v}`, title: t.openView[v], group: t.list.title, run: () => nav.go(addressOf(v)) })),
  ],
  search: (rpc, query) => paletteVoice(rpc, query, (to) => nav.go(to)),
  start: () => voiceScreen().start(),
};
