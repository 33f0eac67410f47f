import { toasts } from "../../lib/ui/state";

/** Rows that are hidden until the Undo period of their deletion ends, because a deletion cannot be reverted. */
export class Deferred {
  #ids = $state.raw<ReadonlySet<string>>(new Set());

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** Hides a row and deletes it with `act` after 10 s. */
  add(id: string, title: string, text: string, act: () => Promise<unknown>): void {
    this.#ids = new Set(this.#ids).add(id);
    const revert = (): void => {
      this.#ids = new Set([...this.#ids].filter((x) => x !== id));
    };
    toasts.deferred({ title, text, commit: () => act().finally(revert), revert });
  }
}
