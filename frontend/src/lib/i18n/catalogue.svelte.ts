import { language, type Language } from "./language.svelte";
import { pseudo } from "./pseudo";

/** Loads the texts of a language: `{ de: () => import("./messages.de") }`. */
export type Translations<T> = { [L in Exclude<Language, "en" | "pseudo">]: () => Promise<{ default: T }> };

/**
 * Texts in the language of the interface. English comes with the program, other languages are
 * loaded when they are chosen.
 *
 *     export const en = { title: "Runs", runs: (n: number) => plural(n, { one: "run", other: "runs" }) };
 *     export const t = catalogue(en, { de: () => import("./messages.de") });
 *
 * A text is read where it is shown (`t.title` in markup, a `$derived` or a function), so that it
 * changes with the language. A constant of a module would keep the language of the start.
 */
export function catalogue<T extends object>(en: T, translations: Translations<T>): T {
  let texts = $state.raw<Partial<Record<Language, T>>>({ en });
  language.register(async (wanted) => {
    if (texts[wanted]) return;
    const found = wanted === "pseudo" ? pseudo(en) : (await translations[wanted as keyof Translations<T>]()).default;
    texts = { ...texts, [wanted]: found };
  });
  return new Proxy(en, { get: (_, key) => Reflect.get(texts[language.current] ?? en, key) });
}
