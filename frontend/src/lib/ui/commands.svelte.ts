import { untrack } from "svelte";
import { common } from "../i18n/common";

/**
 * The command table. Palette, shortcuts and menus read it; nothing else defines a shortcut. A command that
 * exists as long as the program is in `src/commands.ts` or in a screen's `screen.ts`; one that exists as long
 * as a component is added with `commands.add` and removed by the function that this returns.
 */
export interface Command {
  /** Stable, `area.act`. Shared with the desktop menu and the tray. */
  id: string;
  /** The title in the palette: verb first. */
  title: string;
  /** Heading in the palette. */
  group?: string;
  /** Other words that match it. */
  words?: string;
  /**
   * Shortcut: `mod+k`, `shift+d`, `j`, `Enter`, or a sequence `g a`. `mod` is Cmd
   * on a Mac and Ctrl elsewhere. Single keys do nothing while the user types or a
   * menu is open; in a list they work, unless the list handles them itself.
   */
  keys?: string | readonly string[];
  run(): unknown;
  /** Whether the command is available. Default: always. */
  when?: () => boolean;
  /** Also while the focus is in a text field (for combinations with `mod`, always true). */
  whileTyping?: boolean;
  /** Not shown in the palette: movement keys and the like. */
  hidden?: boolean;
}

/**
 * Commands, or a function that computes them; computed ones may depend on state, such as the language or the
 * selected row.
 */
export type CommandList = readonly Command[] | (() => readonly Command[]);

/** Commands that depend on what the user types, such as "Run tool: …". */
export type CommandSource = (query: string) => Promise<Command[]> | Command[];

export const isMac = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);

const arrows: Readonly<Record<string, string>> = { arrowup: "↑", arrowdown: "↓", arrowleft: "←", arrowright: "→", up: "↑", down: "↓", left: "←", right: "→" };
const macKeys: Readonly<Record<string, string>> = { mod: "⌘", super: "⌘", shift: "⇧", alt: "⌥", ctrl: "⌃", enter: "↩", escape: "esc", delete: "⌫" };

/** The parts of a shortcut as keycaps, as they are labeled in the language of the interface: `mod+shift+a` → ["Ctrl", "Shift", "A"]. */
export function keycaps(keys: string, mac = isMac): string[] {
  const names: Record<string, string> = { ...common.keyNames, ...arrows, ...(mac ? macKeys : {}) };
  return keys.split(/[+ ]/).map((k) => names[k.toLowerCase()] ?? (k.length === 1 ? k.toUpperCase() : k));
}

/** A key event in the notation of `keys`. */
export function chord(e: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "shiftKey" | "altKey">, mac = isMac): string {
  const mod = mac ? e.metaKey : e.ctrlKey;
  const key = e.key.length === 1 ? e.key.toLowerCase() : e.key.toLowerCase();
  // For characters such as "?", Shift is part of the character.
  const shift = e.shiftKey && (e.key.length > 1 || /[a-z]/i.test(e.key));
  return [mod ? "mod" : "", mac && e.ctrlKey ? "ctrl" : "", e.altKey ? "alt" : "", shift ? "shift" : "", key === " " ? "space" : key]
    .filter(Boolean)
    .join("+");
}

const normal = (keys: string): string =>
  keys
    .toLowerCase()
    .split(" ")
    .map((c) => {
      const parts = c.split("+");
      const key = parts.pop() ?? "";
      return [...["mod", "ctrl", "alt", "shift"].filter((m) => parts.includes(m)), key].join("+");
    })
    .join(" ");

function typing(target: EventTarget | null): boolean {
  const el = target as HTMLElement | null;
  if (!el || typeof el.closest !== "function") return false;
  return el.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable=true], .cm-editor") !== null;
}

export class Commands {
  #sets = $state.raw<readonly CommandList[]>([]);
  #sources = new Set<CommandSource>();
  #prefix = "";
  #prefixTimer: ReturnType<typeof setTimeout> | undefined;
  /** While a dialog is open, only combinations with `mod` work. */
  #modal = $state(0);

  get modal(): boolean {
    return this.#modal > 0;
  }

  /** Call it when a dialog opens, and the returned function when it closes. */
  openModal(): () => void {
    this.#modal = untrack(() => this.#modal) + 1;
    return () => {
      this.#modal = untrack(() => this.#modal) - 1;
    };
  }

  /** All commands that are available now; later additions override earlier ones with the same id. */
  get all(): Command[] {
    const byID = new Map<string, Command>();
    for (const set of this.#sets) for (const c of typeof set === "function" ? set() : set) if (!c.when || c.when()) byID.set(c.id, c);
    return [...byID.values()];
  }

  /** Adds commands; returns a function that removes them. A function is called each time the table is read. */
  add(list: CommandList): () => void {
    // Untracked: an effect that adds commands must not depend on the others.
    this.#sets = [...untrack(() => this.#sets), list];
    return () => {
      this.#sets = untrack(() => this.#sets).filter((s) => s !== list);
    };
  }

  /** Adds a source that the palette queries while the user types. */
  addSource(source: CommandSource): () => void {
    this.#sources.add(source);
    return () => this.#sources.delete(source);
  }

  /** The results of the sources for a query; a failed source has no results. */
  async find(query: string): Promise<Command[]> {
    const lists = await Promise.all([...this.#sources].map(async (s) => s(query)).map((p) => p.catch(() => [])));
    return lists.flat();
  }

  /** Runs a command by id. Returns false if it does not exist or is not available. */
  run(id: string): boolean {
    const c = this.all.find((x) => x.id === id);
    if (!c) return false;
    c.run();
    return true;
  }

  /** The shortcut of a command as keycaps, for tooltips and menus. */
  keys(id: string): string[] {
    const c = this.all.find((x) => x.id === id);
    const first = typeof c?.keys === "string" ? c.keys : c?.keys?.[0];
    return first ? keycaps(first) : [];
  }

  /** Called by the page's single keyboard listener. */
  key(e: KeyboardEvent): void {
    if (e.defaultPrevented || e.isComposing || ["Shift", "Control", "Alt", "Meta"].includes(e.key)) return;
    const pressed = chord(e);
    const withMod = pressed.startsWith("mod+");
    const inText = typing(e.target);
    // A list of a screen prevents the default of keys that it handles itself; an open menu uses letters too.
    const inMenu = (e.target as HTMLElement | null)?.closest?.("[role=menu],[data-select-content]") != null;
    const onControl = (pressed === "enter" || pressed === "space") && (e.target as HTMLElement | null)?.closest?.("button,a,summary,[role=switch],[role=tab],[role=checkbox]") != null;
    const wanted = this.#prefix ? [`${this.#prefix} ${pressed}`, pressed] : [pressed];
    let starts = false;
    for (const want of wanted) {
      for (const c of this.all.reverse()) {
        const list = typeof c.keys === "string" ? [c.keys] : (c.keys ?? []);
        for (const keys of list.map(normal)) {
          if (!withMod && !c.whileTyping && (inText || inMenu || onControl || this.modal)) continue;
          if (keys === want) {
            this.#clearPrefix();
            e.preventDefault();
            c.run();
            return;
          }
          if (keys.startsWith(pressed + " ")) starts = true;
        }
      }
    }
    this.#clearPrefix();
    if (starts) {
      this.#prefix = pressed;
      this.#prefixTimer = setTimeout(() => this.#clearPrefix(), 1200);
    }
  }

  #clearPrefix(): void {
    clearTimeout(this.#prefixTimer);
    this.#prefix = "";
  }
}

/** The page's own command table. */
export const commands = new Commands();

/**
 * How well a title matches a query: 0 = not at all. Letters must be in order; starts of words and consecutive
 * letters count more.
 */
export function score(query: string, title: string, words = ""): number {
  const q = query.trim().toLowerCase();
  if (!q) return 1;
  const best = Math.max(scoreOne(q, title.toLowerCase()), scoreOne(q, words.toLowerCase()) * 0.7);
  return best;
}

function scoreOne(q: string, text: string): number {
  const at = text.indexOf(q);
  if (at === 0) return 1000 - text.length;
  if (at > 0) return (/\W/.test(text[at - 1] ?? "") ? 800 : 500) - text.length;
  let points = 0;
  let run = 0;
  let i = 0;
  for (const ch of q) {
    if (ch === " ") {
      run = 0;
      continue;
    }
    const found = text.indexOf(ch, i);
    if (found < 0) return 0;
    const start = found === 0 || /\W/.test(text[found - 1] ?? "");
    run = found === i ? run + 1 : 0;
    points += (start ? 12 : 1) + run * 4;
    i = found + 1;
  }
  // Letters scattered over a long title are not a match.
  return points >= q.replaceAll(" ", "").length * 4 ? points : 0;
}
