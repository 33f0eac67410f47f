/** Cadences in the form: presets, intervals, single times, and cron expressions explained field by field. */
import { date, listing, plural } from "../../lib/i18n";
import { common } from "../../lib/i18n/common";
import { t } from "./messages";

/** The cadence of a schedule in its wire form. */
export interface CadenceSpec {
  type: "cron" | "interval" | "once";
  expression?: string;
  timezone?: string;
  everySecs?: number;
  anchor?: string;
  at?: string;
}

/** Parses the backend's cadence; null for an unknown kind. */
export function asCadence(v: unknown): CadenceSpec | null {
  if (typeof v !== "object" || v === null) return null;
  const type = (v as { type?: unknown }).type;
  return type === "cron" || type === "interval" || type === "once" ? (v as CadenceSpec) : null;
}

/** The value of the choice that shows the cron field. */
export const CUSTOM = "custom";
/** The value of the choice of weekdays and a time. */
export const DAYS = "days";

/** Expressions that can be chosen by name. */
export const presets = {
  minute: "* * * * *",
  minutes5: "*/5 * * * *",
  minutes15: "*/15 * * * *",
  hourly: "0 * * * *",
  midnight: "0 0 * * *",
  daily: "0 9 * * *",
  weekdays: "0 9 * * 1-5",
  weekly: "0 0 * * 0",
  monthly: "0 0 1 * *",
} as const;
export type Preset = keyof typeof presets | typeof DAYS | typeof CUSTOM;

/** Days of the week, 0 for Sunday, and a time such as 08:30. */
export interface Weekly {
  days: readonly number[];
  time: string;
}

/** The weekdays and the time of a cron expression that has only these, else null. */
export function weeklyOf(expression: string): Weekly | null {
  const m = /^(\d{1,2}) (\d{1,2}) \* \* (\*|[0-7](?:-[0-7])?(?:,[0-7](?:-[0-7])?)*)$/.exec(expression.trim().replace(/\s+/g, " "));
  if (!m || Number(m[1]) > 59 || Number(m[2]) > 23) return null;
  const days = new Set<number>();
  for (const part of (m[3] === "*" ? "0-6" : m[3]!).split(",")) {
    const [from, to = from] = part.split("-").map(Number) as [number, number?];
    for (let d = from; d <= to!; d++) days.add(d % 7);
  }
  return { days: [...days].sort(), time: `${m[2]!.padStart(2, "0")}:${m[1]!.padStart(2, "0")}` };
}

/** The cron expression of weekdays and a time; no weekdays or all of them mean every day. */
export function weeklyCron(w: Weekly): string {
  const [hour, minute] = w.time.split(":").map(Number);
  const days = w.days.length % 7 === 0 ? "*" : w.days.join(",") === "1,2,3,4,5" ? "1-5" : w.days.join(",");
  return `${minute} ${hour} * * ${days}`;
}

/** The preset of a cron expression, weekdays and a time, or custom. */
export const presetOf = (expression: string): Preset => (Object.entries(presets).find(([, e]) => e === expression.trim().replace(/\s+/g, " "))?.[0] as Preset | undefined) ?? (weeklyOf(expression) ? DAYS : CUSTOM);

const nicknames: Record<string, string> = { "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *" };

// Names that cron expressions may contain, in any language.
const weekdays = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const months = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
/** Sunday is 0 and 7. The 7th of January 2024 was one. */
const weekday = (n: number): string => date(Date.UTC(2024, 0, 7 + (n % 7)), { weekday: "long", timeZone: "UTC" });
/** January is 0. */
const month = (n: number): string => date(Date.UTC(2024, n, 1), { month: "long", timeZone: "UTC" });

/** One field of a cron expression with its meaning. */
export interface CronPart {
  name: string;
  text: string;
  /** In words; empty if only the backend can interpret it. */
  means: string;
  /** The accepted values. */
  takes: string;
}

type Field = keyof typeof t.cronFields;
const takes: Record<Field, string> = { second: "0–59", minute: "0–59", hour: "0–23", day: "1–31, L, 15W", month: "1–12, JAN–DEC", weekday: "0–7, SUN–SAT, 1#2, 5L" };
const five: readonly Field[] = ["minute", "hour", "day", "month", "weekday"];

/** A cron expression, field by field. Missing fields are included as empty ones, to show what is expected. */
export function explainCron(expression: string): CronPart[] {
  const line = nicknames[expression.trim().toLowerCase()] ?? expression.trim();
  const parts = line === "" ? [] : line.split(/\s+/);
  const fields: readonly Field[] = parts.length > 5 ? ["second", ...five] : five;
  return fields.map((f, i) => ({ name: t.cronFields[f], text: parts[i] ?? "", means: meaning(f, parts[i] ?? ""), takes: takes[f] }));
}

function meaning(field: Field, text: string): string {
  if (text === "") return "";
  if (text === "*" || text === "?") return t.cronAny;
  const list = text.split(",").map((part) => one(field, part));
  return list.some((w) => w === "") ? "" : listing(list);
}

function one(field: Field, text: string): string {
  const [, range = "", step = ""] = /^([^/]+)(?:\/(\d+))?$/.exec(text) ?? [];
  if (range === "") return "";
  const every = step === "" || step === "1" ? "" : t.cronEvery[field](Number(step));
  if (range === "*") return every === "" ? t.cronAny : every;
  if (field === "day" && range === "L") return t.cronLastDay;
  if (field === "day" && /^\d+W$/i.test(range)) return t.cronNearest(parseInt(range, 10));
  if (field === "weekday") {
    const last = /^([0-7])L$/i.exec(range);
    if (last) return t.cronLastWeekday(weekday(Number(last[1])));
    const count = /^([0-7])#([1-5])$/.exec(range);
    if (count) return t.cronNthWeekday(Number(count[2]), weekday(Number(count[1])));
  }
  const ends = range.split("-").map((v) => value(field, v));
  if (ends.length > 2 || ends.some((v) => v === "")) return "";
  const [from = "", to] = ends;
  const span = to === undefined ? from : t.cronRange(from, to);
  if (every === "") return span;
  return to === undefined ? t.cronEveryFrom(every, span) : t.cronEveryRange(every, span);
}

function value(field: Field, text: string): string {
  const n = /^\d+$/.test(text) ? Number(text) : NaN;
  if (field === "weekday") {
    const day = Number.isNaN(n) ? weekdays.indexOf(text.toUpperCase()) : n;
    return day >= 0 && day <= 7 ? weekday(day) : "";
  }
  if (field === "month") {
    const at = Number.isNaN(n) ? months.indexOf(text.toUpperCase()) : n - 1;
    return at >= 0 && at < 12 ? month(at) : "";
  }
  const [low, high] = field === "hour" ? [0, 23] : field === "day" ? [1, 31] : [0, 59];
  if (Number.isNaN(n) || n < low || n > high) return "";
  return field === "day" ? t.cronDay(n) : String(n);
}

/** Units of durations in seconds. */
export const units = ["60", "3600", "86400"] as const;
export type Unit = (typeof units)[number];

/** Units as choices. */
export const unitOptions = (): { value: string; label: string }[] => units.map((u) => ({ value: u, label: t.units[u].other }));

/** Seconds as a number and the largest unit that divides them: 7200 → 2 hours. */
export function inUnits(secs: number): { count: number; unit: Unit } {
  const unit = [...units].reverse().find((u) => secs % Number(u) === 0) ?? units[0];
  return { count: secs / Number(unit), unit };
}

/** "45 s", "2 hours", "1 day", "3 days": a configured duration. */
export function span(secs: number): string {
  if (secs < 120 && (secs < 60 || secs % 60 !== 0)) return common.seconds(String(secs));
  if (secs % 60 !== 0) return `${common.minutes(String(Math.floor(secs / 60)))} ${common.seconds(String(secs % 60))}`;
  const { count, unit } = inUnits(secs);
  return plural(count, t.units[unit]);
}
