import { date } from "../i18n";
import type { TimeTick } from "./geometry";

/** The label of a tick of a time axis: "5 Mar", "Mar", "2026". */
export const tickLabel = ({ at, unit }: TimeTick): string => date(at, unit === "day" ? { day: "numeric", month: "short" } : unit === "month" ? { month: "short" } : { year: "numeric" });

const two = (n: number): string => String(n).padStart(2, "0");
/** The local day of a time, as 2026-05-31. */
export const dayOf = (ms: number): string => {
  const d = new Date(ms);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
};
/** The local start of a day, in milliseconds. */
export const startOf = (day: string): number => new Date(`${day}T00:00:00`).getTime();
