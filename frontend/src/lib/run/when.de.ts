/** When a schedule runs, in German. */
import { date, listing } from "../i18n";
import type { CadenceParts } from "./when";

type CadenceSet = NonNullable<CadenceParts["minutes"]>;

const spans: readonly (readonly [number, string, string])[] = [
  [604_800, "jede Woche", "Wochen"],
  [86_400, "jeden Tag", "Tage"],
  [3600, "jede Stunde", "Stunden"],
  [60, "jede Minute", "Minuten"],
  [1, "jede Sekunde", "Sekunden"],
];
const adverbs = ["sonntags", "montags", "dienstags", "mittwochs", "donnerstags", "freitags", "samstags"];
const weekdays = ["Sonntag", "Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag"];
const months = ["", "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November", "Dezember"];
const nth = ["", "ersten", "zweiten", "dritten", "vierten", "fünften"];

function every(secs: number): string {
  const [size, one, many] = spans.find(([size]) => secs % size === 0)!;
  return secs === size ? one : `alle ${secs / size} ${many}`;
}

function inSet(s: CadenceSet, unit: "Sekunde" | "Minute" | "Stunde"): string {
  if (s.step) return `alle ${s.step} ${unit}n`;
  if (s.last) return `${unit}n ${s.first ?? 0} bis ${s.last}`;
  const values = s.values ?? [];
  return values.length === 0 ? `jede ${unit}` : `${unit}${values.length > 1 ? "n" : ""} ${listing(values.map(String))}`;
}

function clock(p: CadenceParts): string {
  const minutes = p.minutes ?? {};
  if (!p.hours && !p.seconds && minutes.values?.length === 1) return minutes.values[0] === 0 ? "jede Stunde" : `jede Stunde zur Minute ${minutes.values[0]}`;
  return [...(p.seconds ? [inSet(p.seconds, "Sekunde")] : []), inSet(minutes, "Minute"), ...(p.hours ? [inSet(p.hours, "Stunde")] : [])].join(", ");
}

function monthDays(p: CadenceParts): string {
  return listing([
    ...(p.days?.length ? [`am ${listing(p.days.map((d) => `${d}.`))} des Monats`] : []),
    ...(p.dayStep ? [`alle ${p.dayStep} Tage ab dem 1. des Monats`] : []),
    ...(p.nearestDays ?? []).map((d) => `am Werktag, der dem ${d}. am nächsten ist,`),
    ...(p.lastDay ? ["am letzten Tag des Monats"] : []),
  ]);
}

function weekDays(p: CadenceParts): string {
  const days = p.weekdays ?? [];
  const plain = days.join() === "1,2,3,4,5" ? ["montags bis freitags"] : days.join() === "0,6" ? ["am Wochenende"] : days.map((d) => adverbs[d]!);
  return listing([...plain, ...(p.nthWeekdays ?? []).map((n) => `am ${nth[n.nth]} ${weekdays[n.weekday]} des Monats`), ...(p.lastWeekdays ?? []).map((d) => `am letzten ${weekdays[d]} des Monats`)]);
}

/** Empty if there is nothing to say, as for a schedule from a newer Helix. */
export function whenGerman(p: CadenceParts): string {
  if (p.everySecs) return every(p.everySecs);
  if (p.at) return `einmal am ${date(p.at, { day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit" })}`;
  if (!p.times && !p.minutes) return "";
  const month = monthDays(p);
  const week = weekDays(p);
  const days = month && week ? `${week}${p.bothDays ? ", aber nur " : " und außerdem "}${month}` : month || week;
  const inMonths = p.months?.length ? ` im ${listing(p.months.map((m) => months[m]!))}` : "";
  const zone = p.timezone ? `, ${p.timezone.split("/").pop()!.replaceAll("_", " ")}` : "";
  if (p.times?.length) return `${days || "täglich"}${inMonths} um ${listing(p.times)}${zone}`;
  return `${clock(p)}${days || inMonths ? `, ${days || "täglich"}${inMonths}` : ""}${zone}`;
}
