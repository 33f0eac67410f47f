import type { Command } from "../ui/commands.svelte";

/** The part of `ListPane` that commands use. */
export interface ListHandle {
  /** Selects the row `by` steps away. */
  move(by: number): void;
  /** Puts the cursor into the search box, where the list has one. */
  focusSearch?(): void;
}

/**
 * The commands that every list screen has: search with /, move with j and k, close with Escape.
 * `group` names the things of the list and is the group in the palette; `escape` is offered while
 * `open` holds.
 */
export function listCommands(group: string, list: () => ListHandle | undefined, open: () => boolean, escape: () => void, when: () => boolean = () => true): Command[] {
  const id = group.toLowerCase();
  return [
    { id: `${id}.search`, title: `Search ${id}`, group, keys: "/", run: () => list()?.focusSearch?.(), when: () => when() && list()?.focusSearch !== undefined },
    { id: `${id}.down`, title: "Next", keys: "j", hidden: true, run: () => list()?.move(1), when },
    { id: `${id}.up`, title: "Previous", keys: "k", hidden: true, run: () => list()?.move(-1), when },
    { id: `${id}.escape`, title: "Close", keys: "Escape", hidden: true, whileTyping: true, run: escape, when: open },
  ];
}
