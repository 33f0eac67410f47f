/**
 * Texts of the interface in several languages. A screen has one catalogue, `messages.ts`, and its
 * translations beside it; `common.ts` here is that of the frame and `lib/ui`.
 */
export { catalogue } from "./catalogue.svelte";
export { choose, date, dateRange, listing, number, plural, type Forms } from "./intl";
export { language, languageNames, type Language, type LanguageChoice } from "./language.svelte";
export { shipped } from "./shipped.svelte";
export { lookup, optionsOf } from "./values";
