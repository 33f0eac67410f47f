/** What was said, in the command palette: each result opens its memo at that moment. */
import type { Rpc } from "../../lib/rpc";
import type { Command } from "../../lib/ui/commands.svelte";
import { memoAt } from "./address";
import { t } from "./messages";
import { position } from "./time";

/** The shortest text that is searched for. */
const shortest = 3;

export async function paletteVoice(rpc: Rpc, query: string, go: (target: string) => void): Promise<Command[]> {
  const q = query.trim();
  if (q.length < shortest || !rpc.can("voice.search_transcripts")) return [];
  const { results } = await rpc.call("voice.search_transcripts", { query: q, limit: 4 });
  return results.flatMap((h) => (h.memoId ? [{ id: `voice.open.${h.memoId}`, title: t.paletteHit(h.startMs < 0 ? "" : position(h.startMs), h.title || h.snippet), group: t.list.title, words: h.snippet, run: () => go(memoAt(h.memoId!, h.startMs)) }] : []));
}
