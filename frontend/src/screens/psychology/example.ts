/** How a memory of layer 1 and medium salience fades from 1, as computed in `backend/psychology/decay.go`. */
import type { Forecast } from "./types";

const halfLife = 720; // hours
const days = 90;

export function example(rate: number, floor: number, now: number): Pick<Forecast, "points" | "crossings" | "floor"> {
  const pace = Math.log(rate) / Math.log(0.95);
  const ok = Number.isFinite(pace) && pace > 0 && floor >= 0 && floor <= 1;
  const at = (hours: number): string => new Date(now + hours * 3600e3).toISOString();
  const value = (hours: number): number => (ok ? Math.max(floor, 0.5 ** ((hours * pace) / halfLife)) : 1);
  const reach = (threshold: number): number => (-Math.log2(threshold) * halfLife) / pace;
  return {
    points: Array.from({ length: days + 1 }, (_, d) => ({ at: at(d * 24), retention: value(d * 24) })),
    crossings: ok ? [0.7, 0.5, 0.3].filter((v) => v > floor && reach(v) <= days * 24).map((v) => ({ threshold: v, at: at(reach(v)) })) : [],
    floor,
  };
}
