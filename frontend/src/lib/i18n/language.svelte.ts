/** A language with a catalogue. `pseudo` is English with longer, accented texts, made by code. */
export type Language = "en" | "de" | "pseudo";
/** What the person chose; `system` follows the browser. */
export type LanguageChoice = "system" | Language;

/** Languages by their own names, as a choice shows them. */
export const languageNames: Readonly<Record<Exclude<Language, "pseudo">, string>> = { en: "English", de: "Deutsch" };

const key = "helix.language";
const isLanguage = (v: unknown): v is Language => v === "en" || v === "de" || v === "pseudo";

/** The first language of the list that has a catalogue; English when none has. */
export function preferred(languages: readonly string[]): Language {
  return languages.map((l) => l.toLowerCase().split("-")[0]).find((l): l is "en" | "de" => l === "en" || l === "de") ?? "en";
}

/** The language of the interface. A change shows at once, without a reload. */
export class LanguageState {
  /** English until the person chooses: some screens have no other language yet, and a mix is worse. */
  choice = $state<LanguageChoice>("en");
  /** The language that is shown. It changes only when every catalogue has been loaded, so that languages never mix. */
  current = $state<Language>("en");
  readonly #loaders = new Set<(language: Language) => Promise<void>>();
  #loading: Promise<unknown> = Promise.resolve();

  /** The locale of numbers, dates and plurals. English writes the day first and counts 24 hours. */
  get locale(): string {
    return this.current === "de" ? "de" : "en-GB";
  }

  /** Applies the stored choice and follows the browser's languages; call the result to stop. */
  listen(): () => void {
    const stored = localStorage.getItem(key);
    if (isLanguage(stored) || stored === "system") this.choice = stored;
    const follow = (): void => void this.#apply().catch(() => {}); // without its texts the former language stays
    follow();
    addEventListener("languagechange", follow);
    return () => removeEventListener("languagechange", follow);
  }

  /** Switches the language and keeps the choice on this device. Rejects when its texts can't be loaded; the former language stays. */
  async set(choice: LanguageChoice): Promise<void> {
    const before = this.choice;
    this.choice = choice;
    try {
      await this.#apply();
    } catch (e) {
      this.choice = before;
      throw e;
    }
    localStorage.setItem(key, choice);
  }

  /** Resolves when the texts of all catalogues are there. Await it before showing a screen that was just loaded. */
  async ready(): Promise<void> {
    await this.#loading.catch(() => {});
  }

  /** Adds a catalogue; `load` makes a language available in it. */
  register(load: (language: Language) => Promise<void>): void {
    this.#loaders.add(load);
    this.#loading = Promise.allSettled([this.#loading, load(this.current)]);
  }

  async #apply(): Promise<void> {
    const wanted = this.choice === "system" ? preferred(globalThis.navigator?.languages ?? []) : this.choice;
    const loading = Promise.all([...this.#loaders].map((load) => load(wanted)));
    this.#loading = loading;
    await loading;
    // Another language may have been chosen meanwhile.
    if (this.#loading !== loading) return;
    this.current = wanted;
    if (typeof document !== "undefined") document.documentElement.lang = wanted === "pseudo" ? "en-XA" : wanted;
  }
}

/** The page's own language. */
export const language = new LanguageState();
