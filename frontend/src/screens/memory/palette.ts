/** Memories in the command palette, found by words and meaning. */
import type { Rpc } from "../../lib/rpc";
import type { Command } from "../../lib/ui/commands.svelte";
import { addressOf, itemOf } from "./address";
import { t } from "./messages";
import { placeWord } from "./rows";
import { firstLine, sourceWord } from "./words";

/** The shortest text that is searched for. */
const shortest = 3;

/** The commands that open the memories found for a query. */
export async function paletteMemory(rpc: Rpc, query: string, go: (target: string) => void): Promise<Command[]> {
  const asked = /^(memory|memories|find|recall|search):?\s+/i.test(query.trim());
  const q = query
    .trim()
    .replace(/^(memory|memories|find|recall|search):?\s+/i, "")
    .trim();
  if (q.length < shortest) return [];
  const { results } = await rpc.call("memory.search", { query: q, limit: asked ? 8 : 4 });
  return results.map((h) => ({
    id: `memory.open.${h.id}`,
    title: t.searchResult(firstLine(h.title ? t.searchResultOf(placeWord(h.title), firstLine(h.snippet)) : h.snippet, 90)),
    group: t.title,
    words: sourceWord(h.source),
    run: () => go(addressOf("list", itemOf(h))),
  }));
}
