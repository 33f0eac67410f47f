import { describe, expect, it } from "vitest";
import { fakeRpc } from "../rpc/fake";
import { searchCallables, type CallablePlace } from "./callables";

const places: CallablePlace[] = [
  { kind: "tool", noun: "tool", run: "Run tool", open: "Edit tool", group: "Tools", at: (id) => `tools/${id}`, part: "/edit" },
  { kind: "skill", noun: "skill", run: "Run skill", open: "Open skill", group: "Skills", at: (id) => `skills/${id}`, part: "" },
  { kind: "wasm", noun: "skill", also: "module", run: "Run skill", open: "Open skill", group: "Skills", at: (id) => `skills/wasm/${id}`, part: "" },
];

const all = [
  { kind: "tool", id: "t1", name: "Text Counter" },
  { kind: "tool", id: "t2", name: "Text of others", blocked: "foreign" },
  { kind: "skill", id: "s1", name: "Digest" },
  { kind: "skill", id: "s2", name: "Draft of a digest", blocked: "draft" },
  { kind: "wasm", id: "w1", name: "Second" },
  { kind: "wasm", id: "w2", name: "Word count", blocked: "disabled" },
  { kind: "builtin", id: "text.join", name: "text.join" },
];

describe("callables in the palette", () => {
  const rpc = fakeRpc({
    "callables.list": ((p: { kind: string; query?: string }) => ({
      callables: all.filter((c) => c.kind === p.kind && c.name.toLowerCase().includes((p.query ?? "").toLowerCase())).map((c) => ({ ...c, effects: {} })),
    })) as never,
  });
  const titles = async (query: string): Promise<string[]> => (await searchCallables(rpc, query, places, () => {})).map((c) => c.title);

  it("offer to run and open what fits", async () => {
    const went: string[] = [];
    const found = await searchCallables(rpc, "run tool: text", places, (to) => went.push(to));
    expect(found.map((c) => c.title)).toEqual(["Run tool: Text Counter", "Edit tool: Text Counter"]);
    for (const c of found) c.run();
    expect(went).toEqual(["tools/t1/run", "tools/t1/edit"]);
    expect(await titles("run skill dig")).toEqual(["Run skill: Digest", "Open skill: Digest", "Open skill: Draft of a digest"]);
    expect(await titles("run skill second")).toEqual(["Run skill: Second", "Open skill: Second"]);
    expect(await titles("tools")).toEqual([]); // a word that only begins like a kind is searched for
  });
  it("leave out what cannot run or has no screen", async () => {
    expect(await titles("word")).toEqual(["Open skill: Word count"]);
    expect(await titles("others")).toEqual([]);
    expect(await titles("join")).toEqual([]);
    expect(await titles("")).toEqual([]);
  });
});
