/** Positions of times on a timeline. Pure. */

/** A long time range in which nothing was executed, drawn shortened. */
export interface Break {
  /** Where it is drawn, 0..1. */
  at: number;
  /** How long it was. */
  ms: number;
}

export interface Scale {
  /** 0..1 */
  x(t: number): number;
  /** Time in which something was executed, or that is short. */
  shownMs: number;
  totalMs: number;
  breaks: readonly Break[];
}

/** Pauses are drawn at most as long as this fraction of the work, and never shorter than is visible. */
const PART = 0.12;
const LEAST_MS = 250;

/**
 * Creates a scale from `from` to `to`. Waiting for a person can take days next to steps of some milliseconds,
 * so time ranges in which nothing runs are drawn shortened, with a mark.
 */
export function makeScale(busy: readonly (readonly [number, number])[], from: number, to: number): Scale {
  const end = Math.max(to, from + 1);
  const runs = union(busy, from, end);
  const work = runs.reduce((sum, [a, b]) => sum + (b - a), 0);
  const most = Math.max(LEAST_MS, work * PART);
  // Time ranges with their drawn length.
  const pieces: { from: number; to: number; length: number; cut: boolean }[] = [];
  let at = from;
  const pause = (until: number): void => {
    if (until <= at) return;
    const length = until - at;
    const cut = length > most * 2;
    pieces.push({ from: at, to: until, length: cut ? most : length, cut });
    at = until;
  };
  for (const [a, b] of runs) {
    pause(a);
    if (b > at) pieces.push({ from: at, to: b, length: b - at, cut: false });
    at = Math.max(at, b);
  }
  pause(end);
  const total = pieces.reduce((sum, p) => sum + p.length, 0) || 1;
  const starts: number[] = [];
  let sum = 0;
  for (const p of pieces) {
    starts.push(sum / total);
    sum += p.length;
  }
  return {
    x(t) {
      if (t <= from) return 0;
      if (t >= end) return 1;
      let low = 0;
      let high = pieces.length - 1;
      while (low < high) {
        const mid = (low + high + 1) >> 1;
        if (pieces[mid]!.from <= t) low = mid;
        else high = mid - 1;
      }
      const p = pieces[low]!;
      return starts[low]! + (((t - p.from) / Math.max(p.to - p.from, 1e-9)) * p.length) / total;
    },
    shownMs: total,
    totalMs: end - from,
    breaks: pieces.flatMap((p, i) => (p.cut ? [{ at: starts[i]! + p.length / total / 2, ms: p.to - p.from }] : [])),
  };
}

function union(list: readonly (readonly [number, number])[], from: number, to: number): [number, number][] {
  const sorted = list
    .map(([a, b]): [number, number] => [Math.max(a, from), Math.min(b, to)])
    .filter(([a, b]) => b >= a)
    .sort((x, y) => x[0] - y[0]);
  const out: [number, number][] = [];
  for (const [a, b] of sorted) {
    const last = out.at(-1);
    if (last && a <= last[1]) last[1] = Math.max(last[1], b);
    else out.push([a, b]);
  }
  return out;
}
