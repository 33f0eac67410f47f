/** Texts that the backend ships in English: templates, built-in schedules and steps, explanations of settings. */
import { catalogue } from "./catalogue.svelte";
import { shippedTexts } from "./shipped.gen";

type Key = keyof typeof shippedTexts;
export type ShippedTexts = Record<Key, string>;

const t = catalogue<ShippedTexts>(shippedTexts, { de: () => import("./shipped.de") });
const keys = new Map(Object.entries(shippedTexts).map(([key, text]) => [text, key as Key]));

/** A text of the backend in the language of the interface. One that it does not ship, such as what a person wrote, stays as it is. */
export function shipped(text: string): string {
  const key = keys.get(text);
  return key === undefined ? text : t[key];
}
