import { common } from "../i18n/common";
import { keycaps, type Command } from "../ui/commands.svelte";
import type { MenuItem } from "../ui/Menu.svelte";
import { toasts } from "../ui/toasts.svelte";

/** An action on a row. The row menu, the palette and the shortcuts are built from it. */
export interface RowAction {
  /** Last part of the id of its command: `run` for `schedules.run`. */
  id: string;
  /** Verb first: "Run now", with "…" if it opens a dialog. */
  label: string;
  keys?: string | readonly string[];
  run(): unknown;
  /** Why it is disabled, or "". */
  blocked?: string;
  danger?: boolean;
}

/** The part of a list that commands use. */
export interface ListHandle {
  /** Selects the row `by` steps away. */
  move(by: number): void;
  /** Focuses the search box, if the list has one. */
  focusSearch?(): void;
}

/** Row actions as the items of a menu; null separates groups. */
export const menuItems = (actions: readonly (RowAction | null)[]): (MenuItem | null)[] =>
  actions.map((a) => a && { label: a.label, run: () => void a.run(), disabledReason: a.blocked ?? "", danger: a.danger === true, ...(a.keys ? { keys: keycaps(typeof a.keys === "string" ? a.keys : a.keys[0]!) } : {}) });

/**
 * Row actions as commands: "Run now: Morning report". The shortcut of a disabled one shows why; the palette
 * omits it.
 */
export const rowCommands = (screen: string, group: string, name: string, actions: readonly (RowAction | null)[], explain: (why: string) => void = (title) => void toasts.add({ title, tone: "warn" })): Command[] =>
  actions.flatMap((a) => {
    if (a === null || (a.blocked && !a.keys)) return [];
    const { blocked, keys } = a;
    const title = common.onThing(a.label.replace(/…$/, ""), name);
    return [{ id: `${screen}.${a.id}`, title, group, ...(keys ? { keys } : {}), ...(blocked ? { hidden: true, run: () => explain(blocked) } : { run: a.run }) }];
  });

/** The commands of all lists: search with `/`, move with j and k, close with Escape while `open`. */
export function listCommands(screen: string, group: string, search: string, list: () => ListHandle | undefined, open: () => boolean, close: () => void): Command[] {
  return [
    { id: `${screen}.search`, title: search, group, keys: "/", run: () => list()?.focusSearch?.(), when: () => list()?.focusSearch !== undefined },
    { id: `${screen}.down`, title: common.next, keys: "j", hidden: true, run: () => list()?.move(1), when: () => list() !== undefined },
    { id: `${screen}.up`, title: common.previous, keys: "k", hidden: true, run: () => list()?.move(-1), when: () => list() !== undefined },
    { id: `${screen}.escape`, title: common.close, keys: "Escape", hidden: true, whileTyping: true, run: close, when: open },
  ];
}
