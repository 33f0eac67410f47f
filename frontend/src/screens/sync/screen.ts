import Cloud from "@lucide/svelte/icons/cloud";
import CloudAlert from "@lucide/svelte/icons/cloud-alert";
import CloudOff from "@lucide/svelte/icons/cloud-off";
import RefreshCw from "@lucide/svelte/icons/refresh-cw";
import { lookup } from "../../lib/i18n";
import { rpc } from "../../lib/rpc";
import type { ScreenDef, StatusItem } from "../../lib/ui/screen";
import { nav } from "../../lib/ui/state";
import { status, syncScreen } from "./instance";
import { t } from "./messages";
import { copyText } from "./words";
import { views } from "./types";

/** The state in a few words, with the number of waiting changes. */
function barItem(): StatusItem[] {
  const s = status.data;
  if (!s || s.state === "off") return [];
  const word = lookup(t.bar, s.state);
  const bad = s.state === "error" || s.problem !== undefined;
  return [
    {
      id: "sync",
      text: s.queueLength > 0 ? t.barWith(word, s.queueLength) : word,
      icon: bad ? CloudAlert : s.state === "offline" || s.state === "paused" ? CloudOff : Cloud,
      tone: bad || s.state === "offline" ? "warn" : "muted",
      target: "sync",
    },
  ];
}

const connected = (): boolean => status.connected;

export const screen: ScreenDef = {
  id: "sync",
  get title() {
    return t.title;
  },
  group: "System",
  order: 10,
  icon: RefreshCw,
  needs: ["sync.status"],
  item: (id) => `sync/${id}`,
  parts: views.slice(1),
  load: () => import("./Sync.svelte"),
  keys: "g y",
  badge: () => status.open,
  get badgeLabel() {
    return t.badge;
  },
  status: barItem,
  jobs: () => (status.data?.state === "initial" ? [{ id: "sync.first", title: t.firstCopy, step: status.progress ? copyText(status.progress) : "", progress: status.progress && status.progress.of > 0 ? status.progress.rows / status.progress.of : undefined, since: status.began, target: "sync" }] : []),
  commands: () => {
    const all = { group: t.title, words: t.words };
    return [
      { ...all, id: "sync.now", title: t.syncNow, when: () => connected() && rpc.can("sync.coordinate"), run: () => syncScreen().syncNow() },
      { ...all, id: "sync.pause", title: t.pauseSync, when: () => connected() && status.data?.state !== "paused", run: () => syncScreen().setPaused(true) },
      { ...all, id: "sync.resume", title: t.resumeSync, when: () => status.data?.state === "paused", run: () => syncScreen().setPaused(false) },
      { ...all, id: "sync.invite", title: t.invite, when: () => connected() && rpc.can("sync.invite"), run: () => (nav.go("sync/devices"), syncScreen().connecting.openInvite()) },
      { ...all, id: "sync.disconnect", title: t.leave, when: () => connected() && rpc.can("sync.disconnect"), run: () => (nav.go("sync"), (syncScreen().disconnecting = true)) },
      { ...all, id: "sync.connect", title: t.connectHubMore, when: () => status.data?.state === "off" && rpc.can("sync.setup"), run: () => (nav.go("sync"), syncScreen().connecting.begin("hub")) },
      { ...all, id: "sync.enter_code", title: t.enterCodeMore, when: () => status.data?.state === "off" && rpc.can("sync.enroll"), run: () => (nav.go("sync"), syncScreen().connecting.begin("code")) },
      ...views.map((v) => ({ ...all, id: `sync.view.${v}`, title: t.openView[v], when: connected, run: () => nav.go(v === "conflicts" ? "sync" : `sync/${v}`) })),
    ];
  },
  start: (rpc) => status.start(rpc),
};
