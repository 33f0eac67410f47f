/** Numbers and times in the language of the interface. Every function is pure; `now` is a parameter for tests. */
import { date, number } from "../i18n";
import { common as t } from "../i18n/common";

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

/** 0 B, 1.5 KiB, 12 MiB. */
export function bytes(n: number): string {
  let i = 0;
  let v = Math.max(0, n);
  while (v >= 1024 && i < units.length - 1) {
    v /= 1024;
    i++;
  }
  const digits = i === 0 || v >= 10 ? 0 : 1;
  return `${number(v, { minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false })} ${units[i]}`;
}

/** 12,345 */
export const count = (n: number): string => number(n);

/** Millionths of a dollar as an amount; less than a cent with four digits. */
export function money(micros: number): string {
  const value = micros / 1e6;
  return number(value, { style: "currency", currency: "USD", maximumFractionDigits: value !== 0 && Math.abs(value) < 0.01 ? 4 : 2 });
}

/** "1 tool", "3 tools", for texts that are not in a catalog yet; those use `plural` of lib/i18n. */
export const plural = (n: number, one: string, many = one + "s"): string => `${number(n)} ${n === 1 ? one : many}`;

/** 820 ms, 1.4 s, 2 min 5 s, 3 h 10 min. */
export function duration(ms: number): string {
  if (ms < 1000) return t.milliseconds(number(Math.round(ms)));
  const digits = ms < 10_000 ? 1 : 0;
  if (ms < 60_000) return t.seconds(number(ms / 1000, { minimumFractionDigits: digits, maximumFractionDigits: digits }));
  const s = Math.round(ms / 1000);
  if (s < 3600) return s % 60 ? `${t.minutes(number(Math.floor(s / 60)))} ${t.seconds(number(s % 60))}` : t.minutes(number(s / 60));
  const m = Math.round(s / 60);
  return m % 60 ? `${t.hours(number(Math.floor(m / 60)))} ${t.minutes(number(m % 60))}` : t.hours(number(m / 60));
}

const secondsSince = (when: string | number | Date, now: number): number => Math.max(0, (now - new Date(when).getTime()) / 1000);

/** "now", "4 min", "3 h", "2 d", then the date. */
export function age(when: string | number | Date, now = Date.now()): string {
  const s = secondsSince(when, now);
  if (!Number.isFinite(s)) return "";
  if (s < 45) return t.now;
  if (s < 3600) return t.minutes(number(Math.max(1, Math.round(s / 60))));
  if (s < 86_400) return t.hours(number(Math.round(s / 3600)));
  if (s < 14 * 86_400) return t.days(number(Math.round(s / 86_400)));
  return day(when, now);
}

/** As age, in a sentence: "just now", "4 min ago", "on 3 Mar". */
export function ago(when: string | number | Date, now = Date.now()): string {
  const s = secondsSince(when, now);
  if (!Number.isFinite(s)) return "";
  if (s < 45) return t.justNow;
  return s < 14 * 86_400 ? t.ago(age(when, now)) : t.onDay(day(when, now));
}

/** "3 Mar", with the year if it is not the current one. Local time. */
export function day(when: string | number | Date, now = Date.now()): string {
  const other = new Date(when).getFullYear() !== new Date(now).getFullYear();
  return date(when, { day: "numeric", month: "short", ...(other ? { year: "numeric" } : {}) });
}

/** 14:05:09, local time. */
export const clock = (when: string | number | Date): string => date(when, { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** "3 Mar, 14:05", local time. */
export const moment = (when: string | number | Date, now = Date.now()): string => `${day(when, now)}, ${clock(when).slice(0, 5)}`;

/** "Today", "Yesterday", else the day. */
export function dayName(when: string | number | Date, now = Date.now()): string {
  const start = (at: number | string | Date): number => new Date(at).setHours(0, 0, 0, 0);
  const days = Math.round((start(now) - start(when)) / 86_400_000);
  return days === 0 ? t.today : days === 1 ? t.yesterday : day(when, now);
}

/**
 * Untrusted text made safe to show on one line: control and direction characters become visible, truncated at
 * `max`.
 */
export function visible(text: string, max = 300): string {
  const shown = text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (c) => {
    const n = c.charCodeAt(0);
    return n < 0x20 ? String.fromCharCode(0x2400 + n) : `⟨U+${n.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
  return shown.length > max ? shown.slice(0, max) + "…" : shown;
}
