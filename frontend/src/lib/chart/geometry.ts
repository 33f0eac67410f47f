/** The geometry of charts, without a DOM: scales, ticks, lassos and label positions. */

export interface Spot {
  x: number;
  y: number;
}
export interface Box extends Spot {
  w: number;
  h: number;
}

/** Maps low..high to from..to; an empty range maps to the middle. */
export const linear =
  (low: number, high: number, from: number, to: number) =>
  (v: number): number =>
    high === low ? (from + to) / 2 : from + ((to - from) * (v - low)) / (high - low);

/** Round values from low to high, about as many as requested. */
export function ticks(low: number, high: number, count: number): number[] {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((m) => m * power >= rough - 1e-12) ?? 10);
  const out: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(Number((i * step).toPrecision(12)));
  return out;
}

const day = 86_400_000;

export interface TimeTick {
  at: number;
  unit: "day" | "month" | "year";
}

/** Local starts of days, weeks, months or years between two times, at most as many as requested. */
export function timeTicks(from: number, to: number, most: number): TimeTick[] {
  const days = (to - from) / day;
  if (!(days > 0)) return [];
  const fits = (step: number): boolean => days / step <= most;
  const months = [1, 2, 3, 6].find((m) => fits(m * 30.4));
  const dayStep = [1, 2, 7, 14].find(fits);
  const out: TimeTick[] = [];
  const d = new Date(from);
  d.setHours(0, 0, 0, 0);
  if (dayStep !== undefined) {
    for (; d.getTime() <= to; d.setDate(d.getDate() + dayStep)) if (d.getTime() >= from) out.push({ at: d.getTime(), unit: "day" });
    return out;
  }
  d.setDate(1);
  if (months !== undefined) {
    d.setMonth(Math.floor(d.getMonth() / months) * months);
    for (; d.getTime() <= to; d.setMonth(d.getMonth() + months)) if (d.getTime() >= from) out.push({ at: d.getTime(), unit: d.getMonth() === 0 ? "year" : "month" });
    return out;
  }
  d.setMonth(0);
  const years = [1, 2, 5, 10, 20, 50, 100].find((y) => fits(y * 365.25)) ?? 500;
  d.setFullYear(Math.floor(d.getFullYear() / years) * years);
  for (; d.getTime() <= to; d.setFullYear(d.getFullYear() + years)) if (d.getTime() >= from) out.push({ at: d.getTime(), unit: "year" });
  return out;
}

/** Whether a spot is in a closed polygon, by the even-odd rule. */
export function inside({ x, y }: Spot, polygon: readonly Spot[]): boolean {
  let within = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const a = polygon[i]!;
    const b = polygon[j]!;
    if (a.y > y !== b.y > y && x < ((b.x - a.x) * (y - a.y)) / (b.y - a.y) + a.x) within = !within;
  }
  return within;
}

/** The nearest of some spots, at most `reach` away; -1: none. Of equally near ones, the first wins. */
export function nearest(spots: readonly Spot[], { x, y }: Spot, reach: number): number {
  let found = -1;
  let best = reach * reach;
  for (let i = 0; i < spots.length; i++) {
    const d = (spots[i]!.x - x) ** 2 + (spots[i]!.y - y) ** 2;
    if (d < best || (found < 0 && d === best)) [found, best] = [i, d];
  }
  return found;
}

/** The next spot in the direction of an arrow key: near ahead, and not far to the side. */
export function towards(spots: readonly Spot[], from: number, dx: number, dy: number): number {
  const o = spots[from];
  if (!o) return spots.length > 0 ? 0 : -1;
  let found = from;
  let best = Infinity;
  for (let i = 0; i < spots.length; i++) {
    const ahead = (spots[i]!.x - o.x) * dx + (spots[i]!.y - o.y) * dy;
    if (i === from || ahead <= 1e-9) continue;
    const aside = Math.abs((spots[i]!.x - o.x) * dy - (spots[i]!.y - o.y) * dx);
    if (ahead + 2 * aside < best) [found, best] = [i, ahead + 2 * aside];
  }
  return found;
}

export const overlap = (a: Box, b: Box): boolean => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;

/**
 * Positions for the labels of spots, in order: above, below, right or left of each, `gap` away. A label that
 * would cover another label or an obstacle, or leave the frame, has none.
 */
export function placeLabels(labels: readonly { at: Spot; w: number; h: number; gap: number }[], frame: Box, obstacles: readonly Box[] = []): (Box | null)[] {
  const taken: Box[] = [...obstacles];
  return labels.map(({ at, w, h, gap }) => {
    const places: Spot[] = [
      { x: at.x - w / 2, y: at.y - gap - h },
      { x: at.x - w / 2, y: at.y + gap },
      { x: at.x + gap, y: at.y - h / 2 },
      { x: at.x - gap - w, y: at.y - h / 2 },
    ];
    for (const p of places) {
      const box = { ...p, w, h };
      if (p.x < frame.x || p.y < frame.y || p.x + w > frame.x + frame.w || p.y + h > frame.y + frame.h || taken.some((b) => overlap(box, b))) continue;
      taken.push(box);
      return box;
    }
    return null;
  });
}

/** The row of each span, so that no two in a row overlap: the first row that is free at its start. */
export function packRows(spans: readonly { from: number; to: number }[]): number[] {
  const ends: number[] = [];
  const order = spans.map((_, i) => i).sort((a, b) => spans[a]!.from - spans[b]!.from || a - b);
  const rows = new Array<number>(spans.length).fill(0);
  for (const i of order) {
    let row = ends.findIndex((end) => end <= spans[i]!.from);
    if (row < 0) row = ends.length;
    ends[row] = spans[i]!.to;
    rows[i] = row;
  }
  return rows;
}
