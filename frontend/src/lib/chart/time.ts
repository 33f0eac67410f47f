import { date } from "../i18n";
import type { TimeTick } from "./geometry";

/** What a tick of a time axis says: "5 Mar", "Mar", "2026". */
export const tickLabel = ({ at, unit }: TimeTick): string => date(at, unit === "day" ? { day: "numeric", month: "short" } : unit === "month" ? { month: "short" } : { year: "numeric" });

const two = (n: number): string => String(n).padStart(2, "0");
/** The day of a time here, as 2026-05-31. */
export const dayOf = (ms: number): string => {
  const d = new Date(ms);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
};
/** The beginning of a day here, in milliseconds. */
export const startOf = (day: string): number => new Date(`${day}T00:00:00`).getTime();
