import { untrack } from "svelte";
import { nav } from "../ui/nav.svelte";

/** What ties the selection of a list to the address. */
export interface AddressOptions {
  /** Whether the address is one of this list. */
  here: () => boolean;
  /** Takes over the selection that the address names. */
  read: () => void;
  /** The selected id now. */
  selected: () => string | null;
  /** The id that the address names, null for none. */
  named: () => string | null;
  /** The address of a selection. */
  to: (id: string | null) => string;
  /** Runs when another row is selected, for its inspector. */
  show?: (id: string | null) => void;
}

/**
 * Keeps the selection and the address the same. The address leads: Back, Forward and links select
 * a row. A row that is selected by other means, after Undo or a deletion, replaces the address.
 * Call it while a component is set up.
 */
export function followAddress(o: AddressOptions): void {
  $effect(() => {
    if (!o.here()) return;
    void nav.path;
    untrack(o.read);
  });
  $effect(() => {
    const id = o.selected();
    untrack(() => {
      if (o.here() && o.named() !== id) nav.go(o.to(id), "replace");
      o.show?.(id);
    });
  });
}
