import type { RowAction } from "../../lib/list";
import { common } from "../../lib/i18n/common";
import { blocked as may } from "../../lib/rpc";
import { nav } from "../../lib/ui/state";
import { addressOf } from "./address";
import { t } from "./messages";
import type { SchedulesScreen } from "./schedules.svelte";
import type { Schedule } from "./types";

/** What can be done with a schedule: its menu, its commands and its shortcuts. `run` starts it and shows the run. */
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
