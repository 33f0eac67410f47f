/** Plain-language numbers and times. Every function is pure; `now` is given for tests. */

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

/** 0 B, 1.5 KiB, 12 MiB. */
export function bytes(n: number): string {
  let i = 0;
  let v = Math.max(0, n);
  while (v >= 1024 && i < units.length - 1) {
    v /= 1024;
    i++;
  }
  return `${i === 0 || v >= 10 ? Math.round(v) : v.toFixed(1)} ${units[i]}`;
}

/** 12,345 */
export const count = (n: number): string => n.toLocaleString("en");

/** "1 tool", "3 tools". */
export const plural = (n: number, one: string, many = one + "s"): string => `${count(n)} ${n === 1 ? one : many}`;

/** 820 ms, 1.4 s, 2 min 5 s, 3 h 10 min. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const s = Math.round(ms / 1000);
  if (s < 3600) return s % 60 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${s / 60} min`;
  const m = Math.round(s / 60);
  return m % 60 ? `${Math.floor(m / 60)} h ${m % 60} min` : `${m / 60} h`;
}

/** "now", "4 min", "3 h", "2 d", then the date. */
export function age(when: string | number | Date, now = Date.now()): string {
  const t = new Date(when).getTime();
  if (!Number.isFinite(t)) return "";
  const s = Math.max(0, (now - t) / 1000);
  if (s < 45) return "now";
  if (s < 3600) return `${Math.max(1, Math.round(s / 60))} min`;
  if (s < 86_400) return `${Math.round(s / 3600)} h`;
  if (s < 14 * 86_400) return `${Math.round(s / 86_400)} d`;
  return day(when, now);
}

/** As age, in a sentence: "just now", "4 min ago", "on 3 Mar". */
export function ago(when: string | number | Date, now = Date.now()): string {
  const a = age(when, now);
  if (!a) return "";
  if (a === "now") return "just now";
  return /^\d+ (min|h|d)$/.test(a) ? `${a} ago` : `on ${a}`;
}

const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** "3 Mar", with the year when it is another one. Local time. */
export function day(when: string | number | Date, now = Date.now()): string {
  const d = new Date(when);
  const year = d.getFullYear() === new Date(now).getFullYear() ? "" : ` ${d.getFullYear()}`;
  return `${d.getDate()} ${months[d.getMonth()]}${year}`;
}

const two = (n: number): string => String(n).padStart(2, "0");

/** 14:05:09, local time. */
export function clock(when: string | number | Date): string {
  const d = new Date(when);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** "3 Mar, 14:05", local time. */
export const moment = (when: string | number | Date, now = Date.now()): string => `${day(when, now)}, ${clock(when).slice(0, 5)}`;

/** "Today", "Yesterday", else the day. */
export function dayName(when: string | number | Date, now = Date.now()): string {
  const start = (t: number | string | Date): number => new Date(t).setHours(0, 0, 0, 0);
  const days = Math.round((start(now) - start(when)) / 86_400_000);
  return days === 0 ? "Today" : days === 1 ? "Yesterday" : day(when, now);
}

/** Text from others, safe to show in one place: control and direction signs become visible, cut at `max`. */
export function visible(text: string, max = 300): string {
  const shown = text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (c) => {
    const n = c.charCodeAt(0);
    return n < 0x20 ? String.fromCharCode(0x2400 + n) : `⟨U+${n.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
  return shown.length > max ? shown.slice(0, max) + "…" : shown;
}
