/** Plurals, numbers, lists and dates in the language of the interface. */
import { language } from "./language.svelte";

/** The forms of a word. `other` is always needed; a language names the more that it has. */
export type Forms = { other: string } & { [K in Intl.LDMLPluralRule]?: string };

/** Formatters by kind, locale and options. */
const made = new Map<string, unknown>();

/** Formatters are costly to create, so each is created once. */
function cached<T>(kind: string, options: object | undefined, create: (locale: string) => T): T {
  const id = `${kind} ${language.locale} ${options === undefined ? "" : JSON.stringify(options)}`;
  let it = made.get(id) as T | undefined;
  if (it === undefined) made.set(id, (it = create(language.locale)));
  return it;
}

/** The form that goes with a number: `choose(n, { one: "was", other: "were" })`. */
export const choose = (n: number, forms: Forms): string => forms[cached("plural", undefined, (l) => new Intl.PluralRules(l)).select(n)] ?? forms.other;

/** "1 run", "3,000 runs". */
export const plural = (n: number, forms: Forms): string => `${number(n)} ${choose(n, forms)}`;

/** 12,345 or 12.345. */
export const number = (n: number, options?: Intl.NumberFormatOptions): string => cached("number", options, (l) => new Intl.NumberFormat(l, options)).format(n);

/** A date or time of this device's zone: `date(d, { day: "numeric", month: "short" })`. The clock has 24 hours everywhere, as times in fields have. */
export const date = (when: string | number | Date, options: Intl.DateTimeFormatOptions): string => {
  const d = new Date(when);
  return Number.isNaN(d.getTime()) ? "" : cached("date", options, (l) => new Intl.DateTimeFormat(l, { ...options, hourCycle: "h23" })).format(d);
};

/** "23–29 March 2026", with what both ends share written once. */
export const dateRange = (from: Date, to: Date, options: Intl.DateTimeFormatOptions): string => cached("date", options, (l) => new Intl.DateTimeFormat(l, options)).formatRange(from, to);

/** "a, b and c". */
export const listing = (items: readonly string[]): string => cached("list", undefined, (l) => new Intl.ListFormat(l)).format(items);
