import { nav } from "../ui/nav.svelte";

/** How the address identifies the selected row of a list. The selection is stored only in the address. */
export interface Route {
  /** The selected id, null for none; undefined while the address belongs to another screen. */
  selected(): string | null | undefined;
  /** The address of a row, or of the list without a selected row. */
  to(id: string | null): string;
}

/**
 * Addresses such as `tools` and `tools/<id>/…`. `base` may have several segments; `others` are segments in
 * the position of an id that are not ids, such as the other views of the screen.
 */
export function route(base: string, others: readonly string[] = []): Route {
  const head = base.split("/");
  return {
    selected() {
      if (!head.every((s, i) => nav.path[i] === s)) return undefined;
      const id = nav.path[head.length];
      return id === undefined ? null : others.includes(id) ? undefined : id;
    },
    to: (id) => (id === null ? base : `${base}/${id}`),
  };
}
