/** The waveform: its data, the part that is shown, and where a moment is drawn. */
import type { Result } from "../../lib/rpc";

/** Peaks with values from -1 to 1; `rms` from 0 to 1. */
export interface Peaks {
  min: Float32Array;
  max: Float32Array;
  rms: Float32Array;
}

/** The part of a recording that is shown, in milliseconds. */
export interface Range {
  from: number;
  to: number;
}

/** The shortest part that can be shown. */
const shortest = 500;

const bytes = (base64: string): Uint8Array => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

/** The numbers of a waveform, which travel as base64. */
export function decode(w: Pick<Result<"voice.waveform">, "min" | "max" | "rms">): Peaks {
  const signed = (b: Uint8Array): Float32Array => Float32Array.from(new Int8Array(b.buffer), (v) => v / 127);
  return { min: signed(bytes(w.min)), max: signed(bytes(w.max)), rms: Float32Array.from(bytes(w.rms), (v) => v / 255) };
}

/** Where a moment is, as a share of the width; outside of 0 to 1 it is not shown. */
export const shareOf = (r: Range, ms: number): number => (r.to > r.from ? (ms - r.from) / (r.to - r.from) : 0);

/** The moment at a share of the width. */
export const momentAt = (r: Range, share: number): number => r.from + Math.min(1, Math.max(0, share)) * (r.to - r.from);

/** Shows `factor` times as much, around a moment that keeps its place. */
export function zoom(r: Range, factor: number, around: number, total: number): Range {
  const length = Math.min(total, Math.max(Math.min(shortest, total), (r.to - r.from) * factor));
  const from = Math.min(Math.max(0, around - Math.min(1, Math.max(0, shareOf(r, around))) * length), total - length);
  return { from, to: from + length };
}

/** Moves the part so that a moment is shown: to its start if it was outside. */
export function follow(r: Range, ms: number, total: number): Range {
  if (ms >= r.from && ms <= r.to) return r;
  const length = r.to - r.from;
  const from = Math.min(Math.max(0, ms), Math.max(0, total - length));
  return { from, to: from + length };
}
