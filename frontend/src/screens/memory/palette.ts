/** Memories in the command palette: what is typed is searched for, by words and meaning. */
import type { Rpc } from "../../lib/rpc";
import type { Command } from "../../lib/ui/commands.svelte";
import { addressOf, thingOf } from "./address";
import { placeWord } from "./rows";
import { firstLine, sourceWord } from "./words";

const SHORTEST = 3;

/** What was found for what is typed, each with the command that opens it. */
export async function paletteMemory(rpc: Rpc, query: string, go: (target: string) => void): Promise<Command[]> {
  const asked = /^(memory|memories|find|recall|search):?\s+/i.test(query.trim());
  const q = query
    .trim()
    .replace(/^(memory|memories|find|recall|search):?\s+/i, "")
    .trim();
  if (q.length < SHORTEST) return [];
  const { results } = await rpc.call("memory.search", { query: q, limit: asked ? 8 : 4 });
  return results.map((h) => ({
    id: `memory.open.${h.id}`,
    title: `Memory: ${firstLine(h.title ? `${placeWord(h.title)}: ${firstLine(h.snippet)}` : h.snippet, 90)}`,
    group: "Memory",
    words: sourceWord(h.source),
    run: () => go(addressOf("list", thingOf(h))),
  }));
}
