import type { Rpc } from "../../lib/rpc";
import { score, type Command } from "../../lib/ui/state";
import { t } from "./messages";

/** The word before the cursor that triggers suggestions: `/` at the start of a text, `@` anywhere. */
export interface Ask {
  sign: "/" | "@";
  query: string;
  /** Where it starts. */
  from: number;
  to: number;
}

export interface Suggestion {
  id: string;
  label: string;
  hint: string;
  /** The text that replaces the word; "" with `run`. */
  insert: string;
  run?: () => unknown;
}

/** The trigger at a position in a text, or null. */
export function askAt(text: string, caret: number): Ask | null {
  const m = /(?:^|\s)@([^\s@]*)$/.exec(text.slice(0, caret)) ?? /^\/([^\n]{0,40})$/.exec(text.slice(0, caret));
  if (!m) return null;
  const query = m[1] ?? "";
  return { sign: m[0].includes("@") ? "@" : "/", query, from: caret - query.length - 1, to: caret };
}

const each = 5;
const typingMs = 120;

/** The menu above the composer. */
export class Suggest {
  ask = $state.raw<Ask | null>(null);
  items = $state.raw<readonly Suggestion[]>([]);
  /** The item that Enter selects. */
  at = $state(0);
  readonly open = $derived(this.ask !== null && this.items.length > 0);
  readonly #rpc: Rpc;
  readonly #commands: () => readonly Command[];
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `commands` are those for `/`. */
  constructor(rpc: Rpc, commands: () => readonly Command[]) {
    this.#rpc = rpc;
    this.#commands = commands;
  }

  /** Follows the text and the cursor. */
  update(text: string, caret: number): void {
    const ask = askAt(text, caret);
    const same = ask?.sign === this.ask?.sign && ask?.query === this.ask?.query;
    this.ask = ask;
    clearTimeout(this.#timer);
    if (!ask) this.items = [];
    else if (ask.sign === "/") this.#show(this.#slash(ask.query));
    else if (!same || this.items.length === 0) this.#timer = setTimeout(() => void this.#mentions(ask), typingMs);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.ask = null;
    this.items = [];
  }

  move(by: number): void {
    this.at = (this.at + by + this.items.length) % this.items.length;
  }

  #show(items: readonly Suggestion[]): void {
    this.items = items;
    this.at = 0;
  }

  #slash(query: string): Suggestion[] {
    return this.#commands()
      .map((c) => ({ c, points: score(query, c.title, `${c.id.replace(/^chat\./, "")} ${c.words ?? ""}`) }))
      .filter((x) => x.points > 0)
      .sort((a, b) => b.points - a.points)
      .slice(0, 8)
      .map(({ c }) => ({ id: c.id, label: c.title, hint: "", insert: "", run: c.run }));
  }

  async #mentions(ask: Ask): Promise<void> {
    const rpc = this.#rpc;
    const query = ask.query;
    const [memories, skills] = await Promise.all([
      query === "" || !rpc.can("memory.search") ? [] : rpc.call("memory.search", { query, limit: each, includeTurns: false }).then((r) => r.results, () => []),
      rpc.can("callables.list") ? rpc.call("callables.list", { kind: "skill", limit: each, ...(query ? { query } : {}) }).then((r) => r.callables, () => []) : [],
    ]);
    if (this.ask?.sign !== "@" || this.ask.query !== query) return;
    const line = (s: string): string => s.replace(/\s+/g, " ").trim();
    this.#show([
      ...skills.map((s) => ({ id: s.id, label: s.name, hint: t.skill, insert: `${t.skill} “${s.name}” ` })),
      ...memories.map((m) => ({ id: m.id, label: line(m.title || m.snippet).slice(0, 80), hint: t.memory, insert: `“${line(m.title || m.snippet).slice(0, 120)}” [${m.kind} ${m.id}] ` })),
    ]);
  }
}
