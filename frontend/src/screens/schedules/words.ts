import { date, lookup, shipped } from "../../lib/i18n";
import { common } from "../../lib/i18n/common";
import { clock, day, duration } from "../../lib/ui/format";
import { isOpen, runState, stateWord, type Tone } from "../../lib/run/states";
import { t } from "./messages";
import type { Run, RunMark, Schedule } from "./types";

/** How a mark is drawn. Each has its own shape, so that color is never needed to distinguish them. */
export type MarkKind = "planned" | "succeeded" | "failed" | "missed" | "skipped" | "canceled" | "running";

const kinds: readonly string[] = ["succeeded", "failed", "missed", "skipped", "canceled"];
/** The mark of a run's status, or of a kind in the calendar. */
export function markOf(status: string): MarkKind {
  const state = runState(status);
  if (state === "interrupted") return "canceled";
  return isOpen(state) ? "running" : kinds.includes(state) ? (state as MarkKind) : "planned";
}

/** The state of a schedule as a badge; null if it is simply enabled. */
export function stateBadge(s: Pick<Schedule, "status" | "disabledReason" | "needsNewer">): { word: string; tone: Tone; why: string } | null {
  const b = t.badges;
  if (s.needsNewer) return { word: b.newer, tone: "warn", why: b.newerWhy };
  if (s.status === "paused") return { word: b.paused, tone: "neutral", why: b.pausedWhy };
  if (s.status === "completed") return { word: b.completed, tone: "ok", why: b.completedWhy };
  if (s.status === "disabled") return { word: b.disabled, tone: "danger", why: (t.disabledWhy as Record<string, string>)[s.disabledReason ?? ""] ?? t.disabledWhy.other };
  return null;
}

/** The name of a schedule. Built-in ones are translated. */
export const scheduleName = (s: Pick<Schedule, "name">): string => shipped(s.name);

/** The name of the target. */
export const targetName = (target: Schedule["target"]): string => target.name || lookup(t.kinds, target.kind);

/** Why a run was started. */
export const triggerWord = (trigger: string, attempt = 0): string => (attempt > 0 && trigger === "retry" ? t.attempt(attempt + 1) : lookup(t.triggers, trigger));

const hm = (when: string): string => clock(when).slice(0, 5);

/** A time range: "2 Mar 02:10–07:45", with both days if they differ. */
export function stretch(from: string, to: string, now = Date.now()): string {
  const begin = `${day(from, now)} ${hm(from)}`;
  if (from === to) return begin;
  return day(from, now) === day(to, now) ? `${begin}–${hm(to)}` : t.stretch(begin, `${day(to, now)} ${hm(to)}`);
}

/** The reason of runs that are open, or that ended in an unusual way for this reason. */
const special = (run: Pick<Run, "status" | "reason">): string | undefined => {
  if (run.reason === "overlap" && run.status === "cancelled") return t.reasons.madeRoom;
  if (run.reason === "person" && isOpen(run.status)) return t.reasons.canceling;
  return run.reason === "timeout" && isOpen(run.status) ? t.reasons.timingOut : undefined;
};
/** Reasons that are shown with the time at which runs were missed. */
const dated = ["busy", "not_running", "clock", "clock_changed", "clock_jump", "too_late", "grace", "asleep"];

/** The reason for a run's state, as a part of a sentence; empty if the status says everything. */
export function reasonWord(run: Pick<Run, "status" | "reason" | "dueAt" | "lastMissedAt" | "missedCount" | "missedMore" | "startedAt" | "finishedAt">, now = Date.now()): string {
  const reason = run.reason ?? "";
  const count = run.missedCount ?? 0;
  const missed = count > 1 && run.lastMissedAt ? ` ${stretch(run.dueAt, run.lastMissedAt, now)}` : "";
  const times = count > 1 ? t.times(count, run.missedMore === true) : "";
  if (reason === "") return times + (times === "" ? "" : missed);
  // A missed run has the time range in which the clock was not watched.
  const slept = reason === "asleep" && run.startedAt && run.finishedAt ? ` ${stretch(run.startedAt, run.finishedAt, now)}` : missed;
  const known = special(run) ?? lookup(t.reasons, reason);
  const isDated = dated.includes(reason) || !(reason in t.reasons);
  const why = isDated ? known + slept : known;
  return isDated && times !== "" ? t.timesFor(times, why) : why;
}

/** "in 14 min", "in 3 h", "in 2 d", "on 3 Mar": a future time. */
export function until(when: string | number | Date, now = Date.now()): string {
  const s = (new Date(when).getTime() - now) / 1000;
  if (!Number.isFinite(s)) return "";
  if (s <= 0) return common.now;
  if (s < 60) return t.in(common.seconds(String(Math.ceil(s))));
  if (s < 3600) return t.in(common.minutes(String(Math.round(s / 60))));
  if (s < 86_400) return t.in(common.hours(String(Math.round(s / 3600))));
  return s < 14 * 86_400 ? t.in(common.days(String(Math.round(s / 86_400)))) : common.onDay(day(when, now));
}

const dayOf = { weekday: "short", day: "numeric", month: "short" } as const;

/** "Mon 3 Mar, 09:00" in local time. */
export function absolute(when: string | number | Date, now = Date.now()): string {
  const year = new Date(when).getFullYear();
  return `${date(when, dayOf)}${year === new Date(now).getFullYear() ? "" : ` ${year}`}, ${clock(when).slice(0, 5)}`;
}

/** "18 succeeded, 1 failed": a text alternative for the sparkline. */
export function marksWords(runs: readonly Pick<RunMark, "status">[]): string {
  if (runs.length === 0) return t.neverRun;
  const by = new Map<MarkKind, number>();
  for (const r of runs) by.set(markOf(r.status), (by.get(markOf(r.status)) ?? 0) + 1);
  return t.lastRuns(runs.length, [...by].map(([k, n]) => t.markCount(n, stateWord(k))));
}

const two = (n: number): string => String(n).padStart(2, "0");
/** YYYY-MM-DD of a local day, the format of date fields. */
export const dayText = (d: Date): string => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;

/** Due times in local time, for those without a time zone of their own. */
export function onThisClock<T extends { at: string; local: string; offset: string }>(times: readonly T[], hasZone: boolean): readonly T[] {
  if (hasZone) return times;
  return times.map((time) => {
    const d = new Date(time.at);
    const away = -d.getTimezoneOffset();
    return {
      ...time,
      local: `${dayText(d)} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`,
      offset: `${away < 0 ? "-" : "+"}${two(Math.floor(Math.abs(away) / 60))}:${two(Math.abs(away) % 60)}`,
    };
  });
}

/** How late a run started, or empty if it is negligible. */
export const lateWord = (ms: number): string => (ms < 1000 ? "" : t.lateBy(duration(ms)));

/** The effect of a clock change on a due time. */
export function noteWords(note: string | undefined, local: string): string {
  if (note === "gap_shifted") return t.clockGap(local.slice(11, 16));
  if (note === "overlap_first") return t.clockFirst;
  return note === "overlap_both" ? t.clockBoth : (note ?? "").replaceAll("_", " ");
}

/** "Mon 3 Mar" for a wall-clock text such as 2026-03-02 09:00:00, without any time zone. */
export const shortDay = (local: string): string => date(`${local.slice(0, 10)}T00:00:00Z`, { ...dayOf, timeZone: "UTC" }) || local.slice(0, 10);

/** "Mon 3 Mar 2026" for a wall-clock text. */
export const wallDay = (local: string): string => `${shortDay(local)} ${local.slice(0, 4)}`;

/** 09:00, with seconds only if they are not zero. */
export const wallTime = (local: string): string => (local.slice(17, 19) === "00" || local.length < 19 ? local.slice(11, 16) : local.slice(11, 19));
