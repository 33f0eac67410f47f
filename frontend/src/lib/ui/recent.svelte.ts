import type { Command } from "./commands.svelte";

const key = "helix.recent";
const most = 6;

/**
 * The most recently used commands, latest first. Ids are stored between starts; a command found by a search,
 * such as opening a chat, is kept until the page closes.
 */
export class Recent {
  #ids = $state.raw<readonly string[]>([]);
  #found = new Map<string, Command>();
  readonly #store: Pick<Storage, "getItem" | "setItem">;

  constructor(store: Pick<Storage, "getItem" | "setItem">) {
    this.#store = store;
    try {
      const ids: unknown = JSON.parse(store.getItem(key) ?? "[]");
      if (Array.isArray(ids)) this.#ids = ids.filter((x) => typeof x === "string").slice(0, most);
    } catch {
      // Not written by this code: start over.
    }
  }

  add(c: Command): void {
    this.#found.set(c.id, c);
    this.#ids = [c.id, ...this.#ids.filter((id) => id !== c.id)].slice(0, most);
    this.#store.setItem(key, JSON.stringify(this.#ids));
  }

  /**
   * The recent commands that are available now. `table` takes precedence, because its texts and conditions
   * are current.
   */
  list(table: readonly Command[]): Command[] {
    const now = new Map(table.map((c) => [c.id, c]));
    return this.#ids.flatMap((id) => {
      const c = now.get(id) ?? this.#found.get(id);
      return c && !c.hidden && (!c.when || c.when()) ? [c] : [];
    });
  }
}
