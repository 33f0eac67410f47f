/** Runs of one schedule or of all, newest first. */
import type { ListState } from "../../lib/list/state";
import type { Params, Rpc } from "../../lib/rpc";
import { runList, type RunRow } from "../../lib/run/runs";
import { nav } from "../../lib/ui/nav.svelte";
import { addressOf, placeOf } from "./address";
import type { Run } from "./types";
import { shipped } from "../../lib/i18n";
import { reasonWord, triggerWord } from "./words";

/** `from` and `to` are local days, `YYYY-MM-DD`; "" for none. */
type Filters = { scheduleId: string; status: string; from: string; to: string };
export type ScheduleRuns = ListState<Run, Filters>;

/** The statuses in the filter. */
export const STATUSES = ["success", "failed", "missed", "skipped", "cancelled", "interrupted", "running", "waiting"] as const;

/** The number of pages that are searched for one run. */
const SEARCHED = 4;

/** The list of the runs of a schedule, or of all schedules. */
export const scheduleRuns = (rpc: Rpc, scheduleId = ""): ScheduleRuns =>
  runList<Run, Filters>({
    id: (r) => r.runId,
    route: { selected: () => placeOf(nav.rest).runId || null, to: () => (scheduleId === "" ? addressOf("history") : addressOf("list", scheduleId, "runs")) },
    filters: { scheduleId, status: "", from: "", to: "" },
    read: async ({ filters: f, cursor, limit, signal }) => {
      const params: Params<"schedules.runs"> = { limit };
      if (cursor !== "") params.cursor = cursor;
      if (f.scheduleId !== "") params.scheduleId = f.scheduleId;
      if (f.status !== "") params.status = f.status as (typeof STATUSES)[number];
      if (f.from !== "") params.from = new Date(`${f.from}T00:00:00`).toISOString();
      if (f.to !== "") params.to = new Date(`${f.to}T23:59:59.999`).toISOString();
      const r = await rpc.call("schedules.runs", params, { signal });
      return { items: r.runs, next: r.nextCursor ?? "" };
    },
  });

/** A run as a row, with the reason for missed ones. `named` adds the schedule. */
export function rowOf(r: Run, named: boolean): RunRow {
  const lasted = r.startedAt && r.finishedAt && r.status !== "missed" ? Math.max(0, Date.parse(r.finishedAt) - Date.parse(r.startedAt)) : undefined;
  const text = r.status === "failed" ? r.error?.message || reasonWord(r) : r.status === "success" ? r.outputSummary || "" : reasonWord(r);
  return { status: r.status, text, at: r.dueAt, ms: lasted, by: r.trigger === "due" ? "" : triggerWord(r.trigger, r.attempt), ...(named ? { name: shipped(r.scheduleName) } : {}) };
}

/** Reads one run. The backend can only list runs, so the newest pages are searched. */
export async function findRun(rpc: Rpc, scheduleId: string, runId: string, signal: AbortSignal): Promise<Run | null> {
  let cursor = "";
  for (let i = 0; i < SEARCHED; i++) {
    const r = await rpc.call("schedules.runs", { scheduleId, limit: 100, ...(cursor === "" ? {} : { cursor }) }, { signal });
    const hit = r.runs.find((x) => x.runId === runId);
    if (hit) return hit;
    cursor = r.nextCursor ?? "";
    if (cursor === "") break;
  }
  return null;
}
