/** What the rule for missed times would do, shown on the schedule's own next times. */
import { span } from "./cadence";
import { plural } from "../../lib/ui/format";
import { wallDay, wallTime } from "./words";
import type { PreviewTime } from "./types";

export type MissedPolicy = "skip" | "once" | "all";

const short = (t: PreviewTime): string => `${wallDay(t.local).replace(/ \d{4}$/, "")} ${wallTime(t.local)}`;

/** At most so many are made up for by `all`. */
export const MAX_CATCHUP = 24;

/** An example over the first three of the times that come: the computer sleeps through them. Empty without any time. */
export function missedExample(times: readonly PreviewTime[], policy: MissedPolicy, graceSecs: number): string {
  const slept = times.slice(0, Math.min(3, times.length));
  const last = slept.at(-1);
  if (last === undefined) return "";
  const end = Date.parse(last.at);
  const gap = slept.length > 1 ? end - Date.parse(slept.at(-2)!.at) : 600_000;
  const wake = end + Math.min(600_000, Math.max(60_000, gap / 4));
  const inside = slept.filter((t) => wake - Date.parse(t.at) <= graceSecs * 1000);
  const begin = slept.length === 1 ? `If the computer sleeps at ${short(last)} and wakes a little later.` : `If the computer sleeps through ${list(slept.map(short))} and wakes a little later.`;
  const none = `No catch-up runs: ${slept.length === 1 ? "it is" : `all ${slept.length} are`} listed as missed.`;
  if (policy === "skip" || graceSecs === 0) return `${begin} ${none}`;
  if (inside.length === 0) return `${begin} All are more than ${span(graceSecs)} late by then. ${none}`;
  const lost = slept.length - (policy === "once" ? 1 : inside.length);
  if (policy === "once") {
    return slept.length === 1 ? `${begin} It runs at once.` : `${begin} Only the latest, ${short(inside.at(-1)!)}, runs at once; the other ${lost === 1 ? "one is" : `${lost} are`} listed as missed.`;
  }
  const done = inside.length === 1 ? `${short(inside[0]!)} runs at once` : `${plural(inside.length, "run")} come one after the other, the oldest first`;
  return `${begin} ${done}${lost > 0 ? `; ${lost === 1 ? "the other one is" : `the other ${lost} are`} more than ${span(graceSecs)} late and listed as missed` : ""}. At most ${MAX_CATCHUP} are run.`;
}

function list(items: readonly string[]): string {
  return items.length < 2 ? (items[0] ?? "") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}
