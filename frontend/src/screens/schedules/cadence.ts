/** Cadences as people choose them: presets, intervals, single times, and cron texts told field by field. */

/** When a schedule is due, as the backend takes and answers it. */
export interface CadenceSpec {
  type: "cron" | "interval" | "once";
  expression?: string;
  timezone?: string;
  everySecs?: number;
  anchor?: string;
  at?: string;
}

/** Reads what the backend answers; null for a kind that this version does not know. */
export function asCadence(v: unknown): CadenceSpec | null {
  if (typeof v !== "object" || v === null) return null;
  const type = (v as { type?: unknown }).type;
  return type === "cron" || type === "interval" || type === "once" ? (v as CadenceSpec) : null;
}

export interface Preset {
  value: string;
  label: string;
  expression: string;
}

/** The value of the choice that shows the cron field. */
export const CUSTOM = "custom";

export const presets: readonly Preset[] = [
  { value: "minute", label: "Every minute", expression: "* * * * *" },
  { value: "minutes5", label: "Every 5 minutes", expression: "*/5 * * * *" },
  { value: "minutes15", label: "Every 15 minutes", expression: "*/15 * * * *" },
  { value: "hourly", label: "Every hour", expression: "0 * * * *" },
  { value: "midnight", label: "Every day at 00:00", expression: "0 0 * * *" },
  { value: "daily", label: "Every day at 09:00", expression: "0 9 * * *" },
  { value: "weekdays", label: "Weekdays at 09:00", expression: "0 9 * * 1-5" },
  { value: "weekly", label: "Every Sunday at 00:00", expression: "0 0 * * 0" },
  { value: "monthly", label: "On the 1st of each month at 00:00", expression: "0 0 1 * *" },
];

/** The value of the choice of days and a time. */
export const DAYS = "days";

/** Days of the week, 0 for Sunday, and a time such as 08:30. */
export interface Weekly {
  days: readonly number[];
  time: string;
}

/** The days and the time of a cron expression that has only these, else null. */
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

/** The cron expression of days and a time; no days or all of them are every day. */
export function weeklyCron(w: Weekly): string {
  const [hour, minute] = w.time.split(":").map(Number);
  const days = w.days.length % 7 === 0 ? "*" : w.days.join(",") === "1,2,3,4,5" ? "1-5" : w.days.join(",");
  return `${minute} ${hour} * * ${days}`;
}

/** The preset of a cron expression, days and a time, or custom. */
export const presetOf = (expression: string): string => presets.find((p) => p.expression === expression.trim().replace(/\s+/g, " "))?.value ?? (weeklyOf(expression) ? DAYS : CUSTOM);

const nicknames: Record<string, string> = { "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *" };

const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

/** One part of a cron text with its meaning. */
export interface CronPart {
  name: string;
  text: string;
  /** In words; empty when only the backend can tell. */
  means: string;
  /** What may stand here. */
  takes: string;
}

const five = ["Minute", "Hour", "Day of month", "Month", "Weekday"];
const takes: Record<string, string> = { Second: "0–59", Minute: "0–59", Hour: "0–23", "Day of month": "1–31, L, 15W", Month: "1–12, JAN–DEC", Weekday: "0–7, SUN–SAT, 1#2, 5L" };

/** A cron text, part by part. Parts that are missing stand there empty, so that one sees what is to come. */
export function explainCron(expression: string): CronPart[] {
  const line = nicknames[expression.trim().toLowerCase()] ?? expression.trim();
  const parts = line === "" ? [] : line.split(/\s+/);
  const names = parts.length > 5 ? ["Second", ...five] : five;
  return names.map((name, i) => ({ name, text: parts[i] ?? "", means: meaning(name, parts[i] ?? ""), takes: takes[name] ?? "" }));
}

function meaning(name: string, text: string): string {
  if (text === "") return "";
  if (text === "*" || text === "?") return "any";
  const list = text.split(",").map((t) => one(name, t));
  return list.some((w) => w === "") ? "" : and(list);
}

function one(name: string, text: string): string {
  const unit = name === "Day of month" ? "day" : name.toLowerCase();
  const [, range = "", step = ""] = /^([^/]+)(?:\/(\d+))?$/.exec(text) ?? [];
  if (range === "") return "";
  const every = step === "" || step === "1" ? "" : `every ${step} ${unit}s`;
  if (range === "*") return every === "" ? "any" : every;
  if (name === "Day of month" && range === "L") return "the last day";
  if (name === "Day of month" && /^\d+W$/i.test(range)) return `the weekday nearest the ${nth(parseInt(range, 10))}`;
  if (name === "Weekday") {
    const last = /^([0-7])L$/i.exec(range);
    if (last) return `the last ${weekdays[Number(last[1])]} of the month`;
    const count = /^([0-7])#([1-5])$/.exec(range);
    if (count) return `the ${nth(Number(count[2]))} ${weekdays[Number(count[1])]} of the month`;
  }
  const ends = range.split("-").map((v) => value(name, v));
  if (ends.length > 2 || ends.some((v) => v === "")) return "";
  const span = ends.length === 2 ? `${ends[0]} to ${ends[1]}` : (ends[0] ?? "");
  if (every !== "") return ends.length === 2 ? `${every}, ${span}` : `${every} from ${span}`;
  return span;
}

function value(name: string, text: string): string {
  if (name === "Weekday") {
    const n = /^\d$/.test(text) ? Number(text) : weekdays.findIndex((w) => w.slice(0, 3).toLowerCase() === text.toLowerCase());
    return weekdays[n] ?? "";
  }
  if (name === "Month") {
    const n = /^\d+$/.test(text) ? Number(text) - 1 : months.findIndex((m) => m.slice(0, 3).toLowerCase() === text.toLowerCase());
    return months[n] ?? "";
  }
  const [low, high] = name === "Hour" ? [0, 23] : name === "Day of month" ? [1, 31] : [0, 59];
  if (!/^\d+$/.test(text) || Number(text) < low || Number(text) > high) return "";
  return name === "Day of month" ? `the ${nth(Number(text))}` : String(Number(text));
}

/** 1st, 2nd, 23rd. */
export function nth(n: number): string {
  const tens = n % 100;
  if (tens >= 11 && tens <= 13) return `${n}th`;
  return `${n}${["th", "st", "nd", "rd"][n % 10] ?? "th"}`;
}

function and(list: readonly string[]): string {
  return list.length < 2 ? (list[0] ?? "") : `${list.slice(0, -1).join(", ")} and ${list.at(-1)}`;
}

export const units = [
  { value: "60", label: "minutes", one: "minute" },
  { value: "3600", label: "hours", one: "hour" },
  { value: "86400", label: "days", one: "day" },
] as const;

/** Seconds as a number and the largest unit that divides them: 7200 → 2 hours. */
export function inUnits(secs: number): { count: number; unit: string } {
  const unit = [...units].reverse().find((u) => secs % Number(u.value) === 0) ?? units[0];
  return { count: secs / Number(unit.value), unit: unit.value };
}

/** "45 s", "2 h", "1 day", "3 days": a length of time that somebody set. */
export function span(secs: number): string {
  if (secs < 60 || secs % 60 !== 0) return secs < 120 ? `${secs} s` : `${Math.floor(secs / 60)} min ${secs % 60} s`;
  const { count, unit } = inUnits(secs);
  const u = units.find((x) => x.value === unit)!;
  return `${count} ${count === 1 ? u.one : u.label}`;
}
