/** WASM skills in the command palette: "Run skill: …" and "Open skill: …". */
import type { Rpc } from "../../lib/rpc";
import type { Command } from "../../lib/ui";

/** Skills whose name fits what is typed, each with its commands. Words such as "run skill" are left out of the search. */
export async function paletteSkills(rpc: Rpc, query: string, go: (target: string) => void): Promise<Command[]> {
  const q = query
    .trim()
    .replace(/^(run|open)?\s*(skill|module|wasm):?\s*/i, "")
    .replace(/^(run|open)\s+/i, "")
    .trim();
  if (q === "" && !/^(run|open|skill|module|wasm)/i.test(query.trim())) return [];
  const { skills } = await rpc.call("skills.list_wasm", { ...(q === "" ? {} : { query: q }), limit: 8, offset: 0 });
  return skills.flatMap((s) => [
    ...(s.isEnabled && !s.suspended ? [{ id: `skills.run.${s.id}`, title: `Run skill: ${s.name}`, group: "Skills", words: s.description, run: () => go(`skills/wasm/${s.id}/run`) }] : []),
    { id: `skills.open.${s.id}`, title: `Open skill: ${s.name}`, group: "Skills", words: s.description, run: () => go(`skills/wasm/${s.id}`) },
  ]);
}
