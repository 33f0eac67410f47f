/** Texts for values that the backend names. */

/** The text of a value; the value itself, readable, for one that this version does not know. */
export const lookup = (texts: Readonly<Record<string, string>>, value: string): string => texts[value] ?? value.replaceAll("_", " ");

/** Texts by value as the options of a choice. */
export const optionsOf = <K extends string>(texts: { readonly [V in K]: string | { label: string; hint: string } }): { value: K; label: string; hint?: string }[] =>
  (Object.entries(texts) as [K, string | { label: string; hint: string }][]).map(([value, x]) => ({ value, ...(typeof x === "string" ? { label: x } : x) }));
