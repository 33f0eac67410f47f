/** What the policy for missed runs would do, with the schedule's own next times. */
import { span } from "./cadence";
import { t } from "./messages";
import type { PreviewTime } from "./types";
import { shortDay, wallTime } from "./words";

export type MissedPolicy = "skip" | "once" | "all";

const short = (p: PreviewTime): string => `${shortDay(p.local)} ${wallTime(p.local)}`;

/** The maximum number of catch-up runs of the policy `all`. */
export const MAX_CATCHUP = 24;

/** An example in which the computer sleeps through the first three of the next times. Empty if there are none. */
export function missedExample(times: readonly PreviewTime[], policy: MissedPolicy, graceSecs: number): string {
  const slept = times.slice(0, Math.min(3, times.length));
  const last = slept.at(-1);
  if (last === undefined) return "";
  const end = Date.parse(last.at);
  const gap = slept.length > 1 ? end - Date.parse(slept.at(-2)!.at) : 600_000;
  const wake = end + Math.min(600_000, Math.max(60_000, gap / 4));
  const inside = slept.filter((p) => wake - Date.parse(p.at) <= graceSecs * 1000);
  const begin = t.sleeps(slept.map(short));
  if (policy === "skip" || graceSecs === 0) return `${begin} ${t.noCatchUp(slept.length)}`;
  if (inside.length === 0) return `${begin} ${t.allLate(span(graceSecs))} ${t.noCatchUp(slept.length)}`;
  if (policy === "once") return `${begin} ${slept.length === 1 ? t.runsAtOnce : t.onlyLatest(short(inside.at(-1)!), slept.length - 1)}`;
  const lost = slept.length - inside.length;
  const done = inside.length === 1 ? t.oneRuns(short(inside[0]!)) : t.manyRun(inside.length);
  return `${begin} ${done}${lost > 0 ? t.othersLate(lost, span(graceSecs)) : ""}. ${t.atMostRun(MAX_CATCHUP)}`;
}
