/** Composite skills in the command palette: "Run skill: …" and "Open skill: …". */
import type { Rpc } from "../../../lib/rpc";
import type { Command } from "../../../lib/ui";

/** Skills whose name fits what is typed, each with its commands. Words such as "run skill" are left out of the search. */
export async function paletteComposite(rpc: Rpc, query: string, go: (target: string) => void): Promise<Command[]> {
  if (!rpc.can("skills.list_composite")) return [];
  const q = query
    .trim()
    .replace(/^(run|open|edit)?\s*skill:?\s*/i, "")
    .replace(/^(run|open|edit)\s+/i, "")
    .trim();
  if (q === "" && !/^(run|open|edit|skill)/i.test(query.trim())) return [];
  const { skills } = await rpc.call("skills.list_composite", { ...(q === "" ? {} : { query: q }), limit: 8, offset: 0 });
  return skills.flatMap((s) => [
    ...(s.isEnabled && s.valid ? [{ id: `composite.run.${s.skillId}`, title: `Run skill: ${s.name}`, group: "Skills", words: s.description, run: () => go(`skills/${s.skillId}/run`) }] : []),
    { id: `composite.open.${s.skillId}`, title: `Open skill: ${s.name}`, group: "Skills", words: s.description, run: () => go(`skills/${s.skillId}`) },
  ]);
}
