/** Names for the backend's types that this screen uses. */
import type { Item, Params, Result } from "../../lib/rpc";

export type Schedule = Item<"schedules.list", "schedules">;
export type Run = Item<"schedules.runs", "runs">;
export type RunMark = Schedule["recentRuns"][number];
export type Status = Result<"schedules.status">;
export type TargetKind = Status["targets"][number];
export type Target = Schedule["target"];
export type Template = Item<"schedules.templates", "templates">;
export type Preview = Result<"schedules.preview">;
export type PreviewTime = Preview["times"][number];
export type CalendarItem = Item<"schedules.calendar", "items">;
export type Notice = Item<"schedules.notices", "notices">;
export type CreateParams = Params<"schedules.create">;
