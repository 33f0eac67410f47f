import AudioLines from "@lucide/svelte/icons/audio-lines";
import Mic from "@lucide/svelte/icons/mic";
import { rpc } from "../../lib/rpc";
import type { ScreenDef, StatusItem } from "../../lib/ui/screen";
import { lookup } from "../../lib/i18n";
import { nav } from "../../lib/ui/state";
import { addressOf, memoAt } from "./address";
import { voiceScreen } from "./instance";
import { t } from "./messages";
import { paletteVoice } from "./palette";
import PendingCommand from "./PendingCommand.svelte";
import { views } from "./types";

/** The microphone, as long as it is open. */
function microphone(): StatusItem[] {
  const state = voiceScreen().recorder.status.data;
  const open = state && (state.microphone.open || state.state === "recording" || state.state === "paused");
  return open ? [{ id: "microphone", text: lookup(t.barStates, state.state in t.barStates ? state.state : "listening"), icon: Mic, tone: "danger", target: "voice" }] : [];
}

const recorder = () => voiceScreen().recorder;

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
  status: microphone,
  overlay: PendingCommand,
  commands: () => [
    { id: "voice.record_memo", title: recorder().active ? t.stopRecording : t.recordMemo, group: t.list.title, words: t.recordWords, when: () => rpc.can("voice.start") && recorder().missing === "", run: () => recorder().toggle("memo") },
    { id: "voice.record_command", title: t.recordCommand, group: t.list.title, words: t.recordWords, when: () => rpc.can("voice.start") && recorder().missing === "" && !recorder().active, run: () => recorder().toggle("command") },
    { id: "voice.new_command", title: t.newCommand, group: t.list.title, when: () => rpc.can("voice.create_command"), run: () => (nav.go("voice/commands"), voiceScreen().commands.edit(null)) },
    { id: "voice.import", title: t.importAudio, group: t.list.title, words: t.importWords, when: () => rpc.can("voice.upload_memo"), run: () => (nav.go("voice"), (voiceScreen().importing = true)) },
    ...views.map((v) => ({ id: `voice.view.${v}`, title: t.openView[v], group: t.list.title, run: () => nav.go(addressOf(v)) })),
  ],
  search: (rpc, query) => paletteVoice(rpc, query, (to) => nav.go(to)),
  start: () => voiceScreen().start(),
};
