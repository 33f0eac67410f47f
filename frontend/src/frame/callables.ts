/** What can be called, in the command palette: "Run tool: …", "Edit tool: …", "Run skill: …" and "Open skill: …". */
import type { Item, Rpc } from "../lib/rpc";
import type { Command } from "../lib/ui";

type Callable = Item<"callables.list", "callables">;

/** Where each kind is opened and run, below the address of its screen. Other kinds have no screen. */
const places: Record<string, { noun: string; open: string; at: (id: string) => string; group: string; part: string }> = {
  tool: { noun: "tool", open: "Edit", at: (id) => `tools/${id}`, group: "Tools", part: "/edit" },
  skill: { noun: "skill", open: "Open", at: (id) => `skills/${id}`, group: "Skills", part: "" },
  wasm: { noun: "skill", open: "Open", at: (id) => `skills/wasm/${id}`, group: "Skills", part: "" },
};

/** The kinds that a word in front of the name stands for; "" stands for all. */
const kinds: Record<string, readonly string[]> = { "": ["tool", "skill", "wasm"], tool: ["tool"], skill: ["skill", "wasm"], module: ["wasm"], wasm: ["wasm"] };

/** Callables whose name fits what is typed, each with its commands. Words such as "run tool" are left out of the search. */
export async function paletteCallables(rpc: Rpc, query: string, go: (target: string) => void): Promise<Command[]> {
  if (!rpc.can("callables.list")) return [];
  const [typed = "", verb = "", word = ""] = /^(run|open|edit)?\s*\b(tool|skill|module|wasm)?\b:?\s*/i.exec(query.trim()) ?? [];
  const q = query.trim().slice(typed.length).trim();
  if (q === "" && verb === "" && word === "") return [];
  const found = await Promise.all((kinds[word.toLowerCase()] ?? []).map((kind) => rpc.call("callables.list", { kind, ...(q === "" ? {} : { query: q }), limit: 8 })));
  return found.flatMap((r) => r.callables).flatMap((c) => commandsOf(c, go));
}

function commandsOf(c: Callable, go: (target: string) => void): Command[] {
  const place = places[c.kind];
  if (!place || c.blocked === "foreign") return [];
  const shared = { group: place.group, words: c.description ?? "" };
  return [
    ...(c.blocked ? [] : [{ ...shared, id: `${c.kind}.run.${c.id}`, title: `Run ${place.noun}: ${c.name}`, run: () => go(`${place.at(c.id)}/run`) }]),
    { ...shared, id: `${c.kind}.open.${c.id}`, title: `${place.open} ${place.noun}: ${c.name}`, run: () => go(place.at(c.id) + place.part) },
  ];
}
