/** The user's choice: the system's theme, or always one of the two. */
export type ThemeChoice = "system" | "light" | "dark";

/** Light or dark: follows the system unless overridden, and keeps the choice on this device. */
export class Theme {
  choice = $state<ThemeChoice>("system");
  #systemDark = $state(false);
  readonly resolved: "light" | "dark" = $derived(
    this.choice === "system" ? (this.#systemDark ? "dark" : "light") : this.choice,
  );

  /** Reads the stored choice, applies it and follows the system. */
  listen(): () => void {
    const query = matchMedia("(prefers-color-scheme: dark)");
    this.#systemDark = query.matches;
    const stored = localStorage.getItem("helix.theme");
    if (stored === "light" || stored === "dark" || stored === "system") this.choice = stored;
    this.#apply();
    const onChange = (): void => {
      this.#systemDark = query.matches;
      this.#apply();
    };
    query.addEventListener("change", onChange);
    return () => query.removeEventListener("change", onChange);
  }

  /** The theme in the settings; a choice made on this device takes precedence. */
  suggest(choice: unknown): void {
    if (localStorage.getItem("helix.theme") || (choice !== "light" && choice !== "dark")) return;
    this.choice = choice;
    this.#apply();
  }

  set(choice: ThemeChoice): void {
    this.choice = choice;
    localStorage.setItem("helix.theme", choice);
    this.#apply();
  }

  #apply(): void {
    document.documentElement.dataset.theme = this.resolved;
  }
}

/** The page's own theme. */
export const theme = new Theme();
