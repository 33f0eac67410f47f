/** A position in a recording: 0:07, 12:05, 1:02:03. With `tenths` 0:07.4. */
export function position(ms: number, tenths = false): string {
  const all = Number.isFinite(ms) && ms > 0 ? Math.floor(ms / 100) : 0;
  const s = Math.floor(all / 10);
  const two = (n: number): string => String(n).padStart(2, "0");
  const hours = Math.floor(s / 3600);
  const minutes = Math.floor(s / 60) % 60;
  return `${hours > 0 ? `${hours}:${two(minutes)}` : minutes}:${two(s % 60)}${tenths ? `.${all % 10}` : ""}`;
}
