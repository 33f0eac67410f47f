import type { RowAction } from "../../lib/list";
import { common } from "../../lib/i18n/common";
import { blocked as may } from "../../lib/rpc";
import { nav } from "../../lib/ui/state";
import { t as runs } from "../../lib/run/messages";
import { isOpen } from "../../lib/run/states";
import { addressOf } from "./address";
import { t } from "./messages";
import type { SchedulesScreen } from "./schedules.svelte";
import type { Run, Schedule } from "./types";

/** The actions on a schedule: its menu, its commands and its shortcuts. `run` starts it and shows the run. */
export function scheduleActions(screen: SchedulesScreen, s: Schedule, run: (s: Schedule) => unknown): (RowAction | null)[] {
  const newer = s.needsNewer ? t.needsNewer : "";
  const here = s.placement.here || !s.placement.homeDeviceId;
  return [
    { id: "run", label: t.runNow, keys: "r", run: () => run(s), blocked: newer || may("schedules.run_now") },
    { id: "edit", label: common.edit, keys: "e", run: () => screen.form.edit(s), blocked: newer || may("schedules.update") },
    { id: "toggle", label: s.status === "active" ? t.pause : t.resume, keys: "space", run: () => screen.toggle(s), blocked: newer || (s.status === "completed" ? t.completed : may("schedules.pause")) },
    { id: "runs", label: t.views.history, keys: "h", run: () => nav.go(addressOf("list", s.scheduleId, "runs")) },
    { id: "copy", label: t.duplicate, run: () => screen.form.copy(s), blocked: newer || may("schedules.create") },
    ...(here ? [] : [{ id: "take_over", label: t.takeOver, run: () => screen.takeOver(s), blocked: may("schedules.take_over") }]),
    null,
    { id: "delete", label: common.delete, danger: true, keys: "Delete", run: () => screen.remove(s), blocked: s.system ? t.builtInDelete : may("schedules.delete") },
  ];
}

/** The actions on a run of a schedule. `again` starts the schedule. */
export const runActions = (screen: SchedulesScreen, r: Run, open: (r: Run) => void, again: () => unknown): RowAction[] => [
  { id: "open", label: runs.openRun, run: () => open(r) },
  isOpen(r.status)
    ? { id: "cancel", label: common.cancel, run: () => screen.cancel(r), blocked: may("schedules.cancel_run") }
    : { id: "again", label: r.status === "failed" || r.status === "missed" ? common.retry : t.runNow, run: again, blocked: may("schedules.run_now") },
];
