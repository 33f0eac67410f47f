import { beforeEach, describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { fakeRpc } from "../../lib/rpc/fake";
import { nav } from "../../lib/ui/state";
import { TrashScreen, type Deleted } from "./trash.svelte";

const item = (kind: string, id: string, name = id): Deleted => ({ kind, id, name, text: "", deletedAt: "2026-05-01T00:00:00Z", purgeAt: "2026-05-31T00:00:00Z", by: "window" });
const every = [item("tool", "t1"), item("wasm", "w1"), item("skill", "k1"), item("schedule", "h1"), item("memory", "m1"), item("conversation", "c1"), item("document", "d1"), item("chat", "s1"), item("memo", "v1"), item("command", "b1")];

async function setup(all: Deleted[] = every) {
  let rows = all;
  const said: string[] = [];
  let undo: () => unknown = () => {};
  const rpc = fakeRpc({
    "trash.list": (p) => {
      const found = rows.filter((r) => (!p.kinds || p.kinds.includes(r.kind)) && r.name.includes(p.query ?? ""));
      const kinds = [...new Set(all.map((r) => r.kind))];
      return { items: found.slice(p.offset ?? 0, (p.offset ?? 0) + (p.limit ?? 50)), total: found.length, limit: 100, offset: p.offset ?? 0, counts: kinds.map((kind) => ({ kind, count: rows.filter((r) => r.kind === kind).length })) };
    },
    "trash.restore": (p) => {
      rows = rows.filter((r) => !p.items.some((x) => x.id === r.id));
      return { restored: p.items, failed: [] };
    },
    "trash.purge": (p) => {
      rows = rows.filter((r) => !p.items.some((x) => x.id === r.id));
      return { count: p.items.length, counts: [], failed: [] };
    },
    "trash.empty": (p) => {
      const gone = rows.filter((r) => !p.kinds || p.kinds.includes(r.kind));
      rows = rows.filter((r) => !gone.includes(r));
      return { count: gone.length, counts: [], failed: [] };
    },
    "tools.delete": () => ({ undoUntil: "" }),
    "skills.delete_wasm": () => ({ undoUntil: "" }),
    "skills.delete_composite": () => ({ deletedAt: "" }),
    "schedules.delete": () => ({ deletedAt: "" }),
    "memory.delete": () => ({ count: 1 }),
    "memory.delete_conversation": () => ({ count: 1 }),
    "memory.delete_document": () => ({ count: 1 }),
    "chat.delete": () => ({ session: {} }) as never,
    "voice.delete_memo": () => ({ session: {} }) as never,
    "voice.delete_command": () => ({}) as never,
  });
  const s = new TrashScreen(rpc, {
    ok: (title) => said.push(title),
    error: (_e, title = "") => void said.push(title),
    add: (t) => said.push(`${t.title}: ${t.text}`),
    undo: (title, restore) => {
      undo = restore;
      return said.push(title);
    },
  });
  await s.list.page.reload();
  return { s, rpc, said, undo: () => undo() };
}
const ids = (rows: readonly Deleted[]): string[] => rows.map((r) => r.id);

beforeEach(() => nav.go("trash"));

describe("the trash", () => {
  it("narrows to the group that the address names, and counts the groups", async () => {
    const { s, rpc } = await setup();
    expect([s.countOf(""), s.countOf("tools"), s.countOf("memory")]).toEqual([10, 2, 3]);
    nav.go("trash/memory");
    s.follow(nav.rest[0]);
    await s.list.page.reload();
    expect([ids(s.list.rows), nav.rest, s.list.filtered]).toEqual([["m1", "c1", "d1"], [], true]);
    expect(rpc.sent("trash.list").at(-1)).toEqual({ offset: 0, limit: 100, kinds: ["memory", "conversation", "document"] });
    s.follow("t1"); // an item, not a group
    expect(s.list.filters.group).toBe("memory");
  });

  it("restores an item, selects the next one, and Undo deletes it again", async () => {
    const { s, rpc, said, undo } = await setup();
    s.list.select("k1");
    await s.restore([s.list.selected!]);
    expect([said, s.list.selectedId, ids(s.list.rows).includes("k1")]).toEqual([["Restored “k1”"], "h1", false]);
    await undo();
    expect(rpc.sent("skills.delete_composite")).toEqual([{ skillId: "k1" }]);
  });

  it("restores what is selected together, and Undo deletes each by its own kind", async () => {
    const { s, rpc, said, undo } = await setup();
    for (const x of every) s.marks.toggle(x.id);
    expect(s.targets(every[0]!)).toHaveLength(10);
    await s.restore(s.marked);
    expect([said, s.marks.size, s.list.rows]).toEqual([["Restored 10 items"], 0, []]);
    await undo();
    expect(rpc.calls.map((c) => c.method).filter((m) => /delete/.test(m)).sort()).toEqual(["chat.delete", "memory.delete", "memory.delete_conversation", "memory.delete_document", "schedules.delete", "skills.delete_composite", "skills.delete_wasm", "tools.delete", "voice.delete_command", "voice.delete_memo"]);
    expect(rpc.sent("memory.delete")).toEqual([{ ids: ["m1"] }]);
  });

  it("acts on a row alone while others are selected", async () => {
    const { s } = await setup();
    s.marks.toggle("t1");
    expect([ids(s.targets(every[1]!)), ids(s.targets(every[0]!))]).toEqual([["w1"], ["t1"]]);
  });

  it("deletes permanently only what was confirmed", async () => {
    const { s, rpc, said } = await setup();
    await s.purge();
    expect(rpc.sent("trash.purge")).toEqual([]);
    s.asking = { items: [every[4]!, every[7]!] };
    await s.purge();
    expect(rpc.sent("trash.purge")).toEqual([{ items: [{ kind: "memory", id: "m1" }, { kind: "chat", id: "s1" }] }]);
    expect([said, s.asking, s.busy, s.list.rows.length]).toEqual([["Deleted 2 items permanently"], null, false, 8]);
  });

  it("empties a group, or all", async () => {
    const { s, rpc } = await setup();
    s.asking = { all: "tools" };
    await s.purge();
    expect(s.countsOf("").map((c) => c.kind)).toEqual(["skill", "schedule", "memory", "conversation", "document", "chat", "memo", "command"]);
    s.asking = { all: "" };
    await s.purge();
    expect([rpc.sent("trash.empty"), s.list.bare]).toEqual([[{ kinds: ["tool", "wasm"] }, {}], true]);
  });

  it("says what stayed in the trash, and why", async () => {
    const { s, rpc, said } = await setup();
    rpc.handle({ "trash.purge": () => ({ count: 1, counts: [], failed: [{ kind: "skill", id: "k1", reason: "conflict", message: "A run of this skill has not ended." }] }) });
    s.asking = { items: [every[2]!, every[0]!] };
    await s.purge();
    expect(said).toEqual(["Deleted 1 item permanently: 1 item stayed in the trash: A run of this skill has not ended."]);
    rpc.failNext("trash.restore", new RpcError({ kind: "not_found", message: "Not in the trash." }));
    await s.restore([every[0]!]);
    expect(said.at(-1)).toBe("Couldn't restore");
  });
});
