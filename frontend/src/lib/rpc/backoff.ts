/** The delay before the first retry, its factor, maximum and jitter. */
export const backoff = { first: 250, factor: 1.7, ceiling: 15_000, jitter: 0.2 };

/** The delay before attempt n (from 0), in milliseconds; random is 0..1. */
export function pause(n: number, random = Math.random()): number {
  const base = Math.min(backoff.ceiling, backoff.first * backoff.factor ** n);
  return Math.round(base * (1 - backoff.jitter + 2 * backoff.jitter * random));
}
