import { clock, count, day, duration, plural } from "../../lib/ui/format";
import type { Run, RunMark, Schedule } from "./types";

export type Tone = "neutral" | "accent" | "ok" | "warn" | "danger" | "info";

/** How a mark is drawn. Each is another shape, so that colour is never needed to tell them apart. */
export type MarkKind = "planned" | "ran" | "failed" | "missed" | "skipped" | "cancelled" | "running";

/** The mark of a run's status, or of a kind that the calendar answers. */
export function markOf(status: string): MarkKind {
  switch (status) {
    case "success":
    case "ran":
      return "ran";
    case "failed":
      return "failed";
    case "missed":
      return "missed";
    case "skipped":
      return "skipped";
    case "cancelled":
    case "interrupted":
      return "cancelled";
    case "queued":
    case "running":
    case "waiting":
      return "running";
    default:
      return "planned";
  }
}

export const markWord: Record<MarkKind, string> = { planned: "planned", ran: "succeeded", failed: "failed", missed: "missed", skipped: "skipped", cancelled: "canceled", running: "running" };

/** A run's status as a word with its tone. */
export function runWord(status: string): { word: string; tone: Tone } {
  switch (status) {
    case "queued":
      return { word: "Waits for its turn", tone: "info" };
    case "running":
      return { word: "Running", tone: "accent" };
    case "waiting":
      return { word: "Waits for an answer", tone: "warn" };
    case "success":
      return { word: "Succeeded", tone: "ok" };
    case "failed":
      return { word: "Failed", tone: "danger" };
    case "cancelled":
      return { word: "Canceled", tone: "neutral" };
    case "interrupted":
      return { word: "Interrupted", tone: "warn" };
    case "missed":
      return { word: "Missed", tone: "warn" };
    case "skipped":
      return { word: "Skipped", tone: "neutral" };
    default:
      return { word: status, tone: "neutral" };
  }
}

/** Runs that have not ended. */
export const open = (status: string): boolean => status === "queued" || status === "running" || status === "waiting";

/** What a schedule is doing, as a badge; null while it simply is on. */
export function stateBadge(s: Pick<Schedule, "status" | "disabledReason" | "needsNewer">): { word: string; tone: Tone; why: string } | null {
  if (s.needsNewer) return { word: "Needs a newer Helix", tone: "warn", why: "It was made by a newer Helix. It is not run and not changed here." };
  switch (s.status) {
    case "paused":
      return { word: "Paused", tone: "neutral", why: "It does not run until you resume it. Times that pass meanwhile are not made up for." };
    case "completed":
      return { word: "Completed", tone: "ok", why: "It has done what it was made for." };
    case "disabled":
      return { word: "Turned off", tone: "danger", why: disabledWhy(s.disabledReason ?? "") };
    default:
      return null;
  }
}

/** Why Helix turned a schedule off. */
export function disabledWhy(reason: string): string {
  switch (reason) {
    case "failures":
      return "It failed too many times in a row. Turning it on starts the count again.";
    case "missed":
      return "Its time passed while Helix could not run, and it was too late to make up for it.";
    case "target_gone":
      return "Its target was deleted.";
    case "invalid":
      return "Its times or its input are no longer valid.";
    default:
      return "It was turned off.";
  }
}

/** What it starts, in a word. */
export const kindWord: Record<string, string> = { skill: "Skill", tool: "Tool", synthesis: "Synthesis", decay: "Decay", agent: "Agent turn", cleanup: "History clean-up" };

/** The target by name. */
export const targetName = (t: Schedule["target"]): string => t.name || (kindWord[t.kind] ?? t.kind);

/** Why a run was started. */
export function triggerWord(trigger: string, attempt = 0): string {
  if (attempt > 0 && trigger === "retry") return `attempt ${attempt + 1}`;
  return { due: "on time", catchup: "made up for a missed time", retry: "tried again", manual: "by hand" }[trigger] ?? trigger;
}

const hm = (when: string): string => clock(when).slice(0, 5);

/** A stretch of time in local words: "02:10–07:45", with days where they differ. */
export function stretch(from: string, to: string, now = Date.now()): string {
  if (from === to) return `${day(from, now)} ${hm(from)}`;
  return day(from, now) === day(to, now) ? `${day(from, now)} ${hm(from)}–${hm(to)}` : `${day(from, now)} ${hm(from)} to ${day(to, now)} ${hm(to)}`;
}

/** Why a run is what it is, in a sentence's part; empty when the status says it all. */
export function reasonWord(run: Pick<Run, "status" | "reason" | "dueAt" | "lastMissedAt" | "missedCount" | "missedMore" | "startedAt" | "finishedAt">, now = Date.now()): string {
  const many = run.missedCount !== undefined && run.missedCount > 1;
  const times = many ? `${run.missedMore ? "more than " : ""}${count(run.missedCount ?? 0)} times, ` : "";
  const when = many && run.lastMissedAt ? ` ${stretch(run.dueAt, run.lastMissedAt, now)}` : "";
  switch (run.reason ?? "") {
    case "asleep":
      // A missed time says since when nobody looked at the clock, and when somebody did again.
      return `${times}asleep${run.startedAt && run.finishedAt ? ` ${stretch(run.startedAt, run.finishedAt, now)}` : when}`;
    case "busy":
      return `${times}Helix was too busy${when}`;
    case "not_running":
      return `${times}Helix was not running${when}`;
    case "clock":
    case "clock_changed":
    case "clock_jump":
      return `${times}the clock was set forward${when}`;
    case "overlap":
      return run.status === "cancelled" ? "to make room for the next one" : "the run before was still going on";
    case "person":
      return open(run.status) ? "is being canceled" : "by hand";
    case "other_device":
      return "another device ran it";
    case "target_gone":
      return "what it starts was deleted";
    case "needs_approval":
      return "a right is missing";
    case "approval":
      return "a step asks for your approval";
    case "permission":
      return "a right is missing";
    case "unknown_outcome":
      return "nobody knows whether a step happened";
    case "quarantined":
      return "Helix ended unexpectedly with it";
    case "timer":
      return "a step waits";
    case "no_lease":
      return "another device may have run it";
    case "timeout":
      return open(run.status) ? "took too long and is being canceled" : "it took too long";
    case "too_late":
    case "grace":
      return `${times}too late to make up for it${when}`;
    case "":
      return many ? `${times.replace(/, $/, "")}${when}` : "";
    default:
      return `${times}${(run.reason ?? "").replaceAll("_", " ")}${when}`;
  }
}

/** "in 14 min", "in 3 h", "in 2 d", "tomorrow 09:00"…: the time that is to come. */
export function until(when: string | number | Date, now = Date.now()): string {
  const s = (new Date(when).getTime() - now) / 1000;
  if (!Number.isFinite(s)) return "";
  if (s <= 0) return "now";
  if (s < 60) return `in ${Math.ceil(s)} s`;
  if (s < 3600) return `in ${Math.round(s / 60)} min`;
  if (s < 86_400) return `in ${Math.round(s / 3600)} h`;
  if (s < 14 * 86_400) return `in ${Math.round(s / 86_400)} d`;
  return `on ${day(when, now)}`;
}

const weekday = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/** "Mon 3 Mar, 09:00" in local time. */
export const absolute = (when: string | number | Date, now = Date.now()): string => `${weekday[new Date(when).getDay()]} ${day(when, now)}, ${clock(when).slice(0, 5)}`;

/** "18 succeeded, 1 failed": what the sparkline shows, for those who do not see it. */
export function marksWords(runs: readonly Pick<RunMark, "status">[]): string {
  if (runs.length === 0) return "never run";
  const by = new Map<MarkKind, number>();
  for (const r of runs) by.set(markOf(r.status), (by.get(markOf(r.status)) ?? 0) + 1);
  return `last ${plural(runs.length, "run")}: ${[...by].map(([k, n]) => `${n} ${markWord[k]}`).join(", ")}`;
}

/** Due times by the clock of this device, for those that come without a zone of their own. */
export function onThisClock<T extends { at: string; local: string; offset: string }>(times: readonly T[], hasZone: boolean): readonly T[] {
  if (hasZone) return times;
  const two = (n: number): string => String(n).padStart(2, "0");
  return times.map((t) => {
    const d = new Date(t.at);
    const away = -d.getTimezoneOffset();
    return {
      ...t,
      local: `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`,
      offset: `${away < 0 ? "-" : "+"}${two(Math.floor(Math.abs(away) / 60))}:${two(Math.abs(away) % 60)}`,
    };
  });
}

/** How late a run began, or nothing when nobody would notice. */
export const lateWord = (ms: number): string => (ms < 1000 ? "" : `${duration(ms)} late`);

/** What a clock change does to a due time. */
export function noteWords(note: string | undefined, local: string): string {
  switch (note) {
    case "gap_shifted":
      return `clock change: runs at ${local.slice(11, 16)}`;
    case "overlap_first":
      return "clock change: comes twice, runs the first time";
    case "overlap_both":
      return "clock change: comes twice, runs both times";
    default:
      return (note ?? "").replaceAll("_", " ");
  }
}

/** "Mon 3 Mar 2026" of a wall-clock text such as 2026-03-02 09:00:00, without any zone. */
export function wallDay(local: string): string {
  const d = new Date(`${local.slice(0, 10)}T00:00:00Z`);
  if (Number.isNaN(d.getTime())) return local.slice(0, 10);
  const month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][d.getUTCMonth()];
  return `${weekday[d.getUTCDay()]} ${d.getUTCDate()} ${month} ${d.getUTCFullYear()}`;
}

/** 09:00, with seconds only where there are some. */
export const wallTime = (local: string): string => (local.slice(17, 19) === "00" || local.length < 19 ? local.slice(11, 16) : local.slice(11, 19));
