import CalendarClock from "@lucide/svelte/icons/calendar-clock";
import CirclePause from "@lucide/svelte/icons/circle-pause";
import { rpc } from "../../lib/rpc";
import type { ScreenDef } from "../../lib/ui/screen";
import { nav } from "../../lib/ui/state";
import { schedulesScreen, startNotices } from "./instance";
import { t } from "./messages";
import { paletteSchedules } from "./palette";
import { pause } from "./pause.svelte";

export const screen: ScreenDef = {
  id: "schedules",
  get title() {
    return t.list.title;
  },
  group: "Work",
  order: 40,
  icon: CalendarClock,
  needs: ["schedules.list"],
  item: (id) => `schedules/${id}`,
  parts: ["calendar", "history"],
  load: () => import("./Schedules.svelte"),
  keys: "g h",
  commands: () => [
    { id: "schedules.new", title: t.newSchedule, group: t.list.title, words: t.createWords, run: () => (nav.go("schedules"), schedulesScreen().create()) },
    { id: "schedules.pause_all", title: t.pauseAll, group: t.list.title, words: "stop cron", when: () => rpc.can("schedules.pause_all"), run: () => schedulesScreen().pauseAll("resume") },
    { id: "schedules.resume_all", title: t.resumeAll, group: t.list.title, words: "cron", when: () => rpc.can("schedules.resume_all"), run: () => schedulesScreen().resumeAll() },
  ],
  search: (rpc, query) => paletteSchedules(rpc, query, (to) => nav.go(to)),
  status: () => (pause.active ? [{ id: "schedules", text: t.pausedUntil(pause.end), icon: CirclePause, tone: "warn", target: "schedules" }] : []),
  start: (rpc) => {
    pause.start(rpc);
    startNotices();
  },
};
