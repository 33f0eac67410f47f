/** Times of day as HH:MM, the value of fields regardless of the browser's clock format. */

/** Parses a typed time: "9", "930", "9:30", "9.30", "9 pm". Null if it is invalid. */
export function parseTime(text: string): string | null {
  const [, hours = "", minutes = "", half = ""] = /^(\d{1,2})(?:[:.h ]?(\d{2}))?\s*(?:uhr)?\s*([ap])?\.?(?:m\.?)?$/i.exec(text.trim()) ?? [];
  if (hours === "") return null;
  let h = Number(hours);
  const m = Number(minutes || 0);
  if (half !== "") {
    if (h < 1 || h > 12) return null;
    h = (h % 12) + (half.toLowerCase() === "p" ? 12 : 0);
  }
  return h > 23 || m > 59 ? null : timeText(h * 60 + m);
}

/** Minutes of the day as HH:MM; values beyond the day wrap around. */
export function timeText(minutes: number): string {
  const m = ((minutes % 1440) + 1440) % 1440;
  return `${String(Math.floor(m / 60)).padStart(2, "0")}:${String(m % 60).padStart(2, "0")}`;
}

/** The time the given number of minutes later. */
export function shiftTime(time: string, by: number): string {
  const [h = 0, m = 0] = time.split(":").map(Number);
  return timeText(h * 60 + m + by);
}
