/**
 * Addresses of the screen:
 *   schedules                              the list
 *   schedules/<id>                         one schedule
 *   schedules/<id>/runs[/<run>]            its runs, one of them
 *   schedules/calendar[/<id>/<run>]        the calendar, with a run of it
 *   schedules/history[/<id>/<run>]         the runs of all, one of them
 */
import type { InspectorTab } from "./inspector.svelte";

export type View = "list" | "calendar" | "history";

export interface Place {
  view: View;
  scheduleId: string;
  tab: InspectorTab;
  runId: string;
}

/** The place for an address. */
export function placeOf(rest: readonly string[]): Place {
  const [head = "", second = "", third = ""] = rest;
  if (head === "calendar" || head === "history") return { view: head, scheduleId: third === "" ? "" : second, tab: "runs", runId: third };
  return { view: "list", scheduleId: head, tab: second === "runs" ? "runs" : "overview", runId: second === "runs" ? third : "" };
}

/** The address of a place. */
export function addressOf(view: View, scheduleId = "", tab: InspectorTab = "overview", runId = ""): string {
  if (view !== "list") return runId === "" ? `schedules/${view}` : `schedules/${view}/${scheduleId}/${runId}`;
  if (scheduleId === "") return "schedules";
  return `schedules/${scheduleId}${tab === "runs" ? "/runs" : ""}${runId === "" ? "" : `/${runId}`}`;
}
