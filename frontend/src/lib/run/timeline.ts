/** Positions of runs on a timeline. Pure. */

/** A run with the fields that the timeline needs. */
export interface Spot {
  id: string;
  timestamp: string;
  executionTimeMs: number;
  status: string;
}

/** A bar: `x` from 0 (oldest) to 1, `height` from 0 to 1 on a logarithmic scale of time. */
export interface Bar {
  id: string;
  x: number;
  height: number;
  status: string;
}

/** One bar per run, oldest on the left, evenly spaced so that bursts stay readable. */
export function bars(runs: readonly Spot[]): Bar[] {
  const sorted = [...runs].sort((a, b) => Date.parse(a.timestamp) - Date.parse(b.timestamp));
  const top = Math.log1p(Math.max(1, ...sorted.map((r) => r.executionTimeMs)));
  const n = sorted.length;
  return sorted.map((r, i) => ({
    id: r.id,
    x: n === 1 ? 0.5 : i / (n - 1),
    height: Math.max(0.12, Math.log1p(Math.max(0, r.executionTimeMs)) / top),
    status: r.status,
  }));
}
