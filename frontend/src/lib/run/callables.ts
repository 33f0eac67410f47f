/** Callables in the command palette: "Run tool: …", "Edit tool: …", "Run skill: …" and "Open skill: …". */
import { common } from "../i18n/common";
import type { Item, Rpc } from "../rpc";
import type { Command } from "../ui/commands.svelte";

type Callable = Item<"callables.list", "callables">;

/** A kind of callable that a screen can open and run. */
export interface CallablePlace {
  kind: string;
  /** The noun that may be typed before its name. */
  noun: string;
  /** An alternative to the noun; the kind itself is always accepted. */
  also?: string;
  /** The verbs of the commands: "Run tool", "Edit tool". */
  run: string;
  open: string;
  /** Heading in the palette. */
  group: string;
  /** The address of a callable. */
  at: (id: string) => string;
  /** The suffix of the address when it is opened. */
  part: string;
}

/**
 * Callables whose name matches the query, each with its commands. Words such as "run tool" are not part of
 * the search.
 */
export async function searchCallables(rpc: Rpc, query: string, places: readonly CallablePlace[], go: (target: string) => void): Promise<Command[]> {
  if (!rpc.can("callables.list")) return [];
  const [typed = "", verb = "", word = ""] = /^(run|open|edit)?\s*\b(tool|skill|module|wasm)?\b:?\s*/i.exec(query.trim()) ?? [];
  const q = query.trim().slice(typed.length).trim();
  if (q === "" && verb === "" && word === "") return [];
  const asked = places.filter((p) => word === "" || [p.kind, p.noun, p.also].includes(word.toLowerCase()));
  const found = await Promise.all(asked.map(async (p) => (await rpc.call("callables.list", { kind: p.kind, ...(q === "" ? {} : { query: q }), limit: 8 })).callables.flatMap((c) => commandsOf(c, p, go))));
  return found.flat();
}

function commandsOf(c: Callable, p: CallablePlace, go: (target: string) => void): Command[] {
  if (c.blocked === "foreign") return [];
  const shared = { group: p.group, words: c.description ?? "" };
  return [
    ...(c.blocked ? [] : [{ ...shared, id: `${c.kind}.run.${c.id}`, title: common.onThing(p.run, c.name), run: () => go(`${p.at(c.id)}/run`) }]),
    { ...shared, id: `${c.kind}.open.${c.id}`, title: common.onThing(p.open, c.name), run: () => go(p.at(c.id) + p.part) },
  ];
}
