/** Tools in the command palette: "Run tool: …" and "Edit tool: …". */
import type { Rpc } from "../../lib/rpc";
import type { Command } from "../../lib/ui";
import type { Row } from "./types";

/** Tools whose name fits what is typed, each with its commands. Words such as "run tool" are left out of the search. */
export async function paletteTools(rpc: Rpc, query: string, go: (target: string) => void): Promise<Command[]> {
  const q = query
    .trim()
    .replace(/^(run|edit|open)?\s*tool:?\s*/i, "")
    .replace(/^(run|edit|open)\s+/i, "")
    .trim();
  if (q === "" && !/^(run|edit|open|tool)/i.test(query.trim())) return [];
  const { tools } = await rpc.call("tools.list", { ...(q === "" ? {} : { query: q }), limit: 8, offset: 0 });
  return (tools as Row[]).flatMap((t) => [
    ...(t.isEnabled && !t.suspended
      ? [{ id: `tools.run.${t.id}`, title: `Run tool: ${t.name}`, group: "Tools", words: t.description, run: () => go(`tools/${t.id}/run`) }]
      : []),
    { id: `tools.edit.${t.id}`, title: `Edit tool: ${t.name}`, group: "Tools", words: t.description, run: () => go(`tools/${t.id}/edit`) },
  ]);
}
