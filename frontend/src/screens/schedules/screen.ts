import CalendarClock from "@lucide/svelte/icons/calendar-clock";
import { rpc } from "../../lib/rpc";
import { commands, nav } from "../../lib/ui/state";
import type { ScreenDef } from "../../lib/ui/screen";
import { schedulesScreen, startNotices } from "./instance";
import { paletteSchedules } from "./palette";

export const screen: ScreenDef = {
  id: "schedules",
  title: "Schedules",
  group: "Work",
  order: 40,
  icon: CalendarClock,
  needs: ["schedules.list"],
  item: (id) => `schedules/${id}`,
  parts: ["calendar", "history"],
  load: () => import("./Schedules.svelte"),
  keys: "g h",
  commands: [
    { id: "schedules.new", title: "New schedule…", group: "Schedules", words: "cron timer repeat every day", run: () => (nav.go("schedules"), schedulesScreen().create()) },
    { id: "schedules.pause_all", title: "Pause all schedules", group: "Schedules", words: "stop cron", when: () => rpc.can("schedules.pause_all"), run: () => void schedulesScreen().pauseAll("resume") },
    { id: "schedules.resume_all", title: "Resume all schedules", group: "Schedules", words: "cron", when: () => rpc.can("schedules.resume_all"), run: () => void schedulesScreen().resumeAll() },
  ],
  start: () => {
    startNotices();
    commands.addSource((query) => paletteSchedules(rpc, query, (to) => nav.go(to)));
  },
};
