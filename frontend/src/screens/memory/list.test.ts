import { describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { fake, hit, memory, turnHit, until } from "./fixtures";
import { MemoryList, pageSize } from "./list.svelte";
import { Query } from "./query.svelte";

const many = (n: number) => Array.from({ length: n }, (_, i) => memory(`m${i}`));

function setup(n = 3) {
  let all = many(n);
  const rpc = fake({
    "memory.list": (p: { limit: number; offset: number }) => ({ items: all.slice(p.offset, p.offset + p.limit), total: all.length }),
    "memory.search_enhanced": (p: { query: string }) => ({ results: [hit(`h-${p.query}`), turnHit("t1", "c1", 7)], tookMs: 3, mode: "hybrid", modelId: "m", facets: { type: [], layer: [], tag: [], source: [], month: [] } }),
  });
  let selected: string | null = null;
  return { rpc, list: new MemoryList(rpc as never, () => selected), select: (id: string | null) => (selected = id), set: (next: ReturnType<typeof many>) => (all = next) };
}

describe("searching", () => {
  it("waits until typing pauses and cancels older searches", async () => {
    const { rpc, list } = setup();
    await list.run();
    list.type("a");
    list.type("ab");
    list.type("abc");
    await until(() => list.shownFor === "abc");
    expect(rpc.sent("memory.search_enhanced").map((p) => p.query)).toEqual(["abc"]);
    expect(list.slots.map((s) => s.row?.kind)).toEqual(["memory", "turn"]);
    expect(list.slots[1]?.row?.item).toEqual({ kind: "turn", id: "t1", parentId: "c1", seq: 7 });
  });

  it("ignores an answer that arrives after a later one", async () => {
    const { rpc, list } = setup();
    const waiting: ((v: unknown) => void)[] = [];
    rpc.handle({ "memory.search_enhanced": (p: { query: string }) => new Promise((done) => waiting.push(() => done({ results: [hit(p.query)], tookMs: 1, mode: "hybrid", modelId: "" }))) });
    list.query.text = "slow";
    const first = list.run();
    await until(() => waiting.length === 1);
    list.query.text = "fast";
    const second = list.run();
    await until(() => waiting.length === 2);
    waiting[1]!(null);
    await second;
    waiting[0]!(null);
    await first;
    expect(list.slots.map((s) => s.row?.id)).toEqual(["fast"]);
    expect(list.busy).toBe(false);
  });

  it("keeps what is shown when it fails, and goes back to the list without words", async () => {
    const { rpc, list } = setup();
    list.query.text = "one";
    await list.run();
    rpc.failNext("memory.search_enhanced", new RpcError({ kind: "unavailable", message: "No model." }));
    list.setMode("vector");
    await until(() => list.error !== undefined);
    expect(list.slots).toHaveLength(2);
    list.type("");
    await until(() => list.shownFor === "");
    expect(list.error).toBeUndefined();
    expect(list.total).toBe(3);
  });

  it("sends filters, and a chip drops only its own", async () => {
    const { rpc, list } = setup();
    list.query.text = "x";
    list.query.toggle("tags", "work");
    list.query.toggle("sources", "chatgpt");
    await until(() => rpc.sent("memory.search_enhanced").length >= 1 && !list.busy);
    expect(rpc.sent("memory.search_enhanced").at(-1).filters).toEqual({ tagsAll: ["work"], sources: ["chatgpt"] });
    list.query.chips.find((c) => c.id === "tags:work")!.drop();
    await until(() => !list.busy);
    expect(rpc.sent("memory.search_enhanced").at(-1).filters).toEqual({ sources: ["chatgpt"] });
  });
});

describe("the list of all", () => {
  it("gives every memory a slot and reads those in view", async () => {
    const { rpc, list } = setup(1000);
    await list.run();
    expect(list.slots).toHaveLength(1000);
    expect(list.slots[500]?.row).toBeNull();
    list.ensure(495, 510);
    await until(() => list.slots[500]?.row !== null);
    expect(list.slots[500]?.row?.id).toBe("m500");
    expect((await list.reach(list.slots[999]!))?.id).toBe("m999");
    const calls = rpc.sent("memory.list").length;
    list.ensure(495, 510);
    expect(rpc.sent("memory.list")).toHaveLength(calls);
    expect(rpc.sent("memory.list").every((p) => p.limit === pageSize)).toBe(true);
  });

  it("cancels pages that were scrolled past, but not the one a key moves to", async () => {
    const { rpc, list } = setup(1000);
    await list.run();
    const answers: [number, AbortSignal | undefined][] = [];
    const real = rpc.call.bind(rpc) as (m: string, p: object, o?: { signal?: AbortSignal }) => Promise<unknown>;
    (rpc as { call: unknown }).call = (m: string, p: { offset: number }, o?: { signal?: AbortSignal }) => {
      answers.push([p.offset, o?.signal]);
      return real(m, p, o);
    };
    const last = list.slots[999]!;
    const reached = list.reach(last);
    list.ensure(350, 360);
    list.ensure(550, 560);
    expect(answers.map(([at, s]) => [at, s?.aborted])).toEqual([[900, false], [300, true], [500, false]]);
    expect((await reached)?.id).toBe("m999");
    await until(() => list.slots[550]?.row !== null);
    expect(list.slots[350]?.row).toBeNull();
    expect(list.error).toBeUndefined();
    // A canceled page is read when it comes into view again.
    list.ensure(350, 360);
    await until(() => list.slots[350]?.row !== null);
  });

  it("knows where a row stands after others moved", async () => {
    const { list, set } = setup(250);
    await list.run();
    list.ensure(120, 140);
    await until(() => list.slots[120]?.row !== null);
    const next = many(250);
    set([next[120]!, ...next.filter((m) => m.id !== "m120")]);
    list.soon();
    await until(() => list.slots[100]?.row?.id === "m99");
    expect(list.row("m99")?.id).toBe("m99");
    expect(list.row("m120")).toBeNull();
    list.ensure(0, 20);
    await until(() => list.slots[0]?.row?.id === "m120");
    expect(list.row("m120")).toBe(list.slots[0]?.row);
    expect(list.slots.filter((s) => s.row?.id === "m120")).toHaveLength(1);
    list.drop(["m3"]);
    expect(list.row("m3")).toBeNull();
    expect(list.row("m99")).toBe(list.slots.find((s) => s.key === "m99")?.row);
  });

  it("reads only what is in view when something changed", async () => {
    const { rpc, list, set } = setup(1000);
    await list.run();
    list.ensure(300, 320);
    await until(() => list.slots[310]?.row !== null);
    const before = rpc.sent("memory.list").length;
    set([memory("new"), ...many(1000)]);
    list.soon();
    list.soon();
    await until(() => list.total === 1001);
    expect(rpc.sent("memory.list").length - before).toBeLessThanOrEqual(2);
    expect(list.slots[310]?.row?.id).toBe("m309");
    const keys = list.slots.map((s) => s.key);
    expect(new Set(keys).size).toBe(keys.length);
  });

  it("says what to select next when the selected row is removed", async () => {
    const { list, select } = setup(3);
    await list.run();
    select("m1");
    list.mark("m1");
    expect(list.drop(["m1"])?.id).toBe("m2");
    expect(list.marks.size).toBe(0);
    select("m2");
    expect(list.drop(["m0"])).toBeNull();
    expect(list.drop(["m2"])).toBeNull();
  });

  it("changes rows at once, and keeps why they were found", async () => {
    const { list } = setup();
    list.query.text = "q";
    await list.run();
    list.put([memory("h-q", { pinned: true, tags: ["x"] })]);
    expect(list.row("h-q")).toMatchObject({ pinned: true, tags: ["x"] });
    expect(list.row("h-q")?.hit?.parts?.bm25Rank).toBe(1);
    list.mark("t1");
    expect(list.marks.size).toBe(0);
  });
});

describe("filters", () => {
  it("turns days into instants, the last one included", () => {
    const q = new Query();
    q.set({ time: "range", from: "2024-02-01", to: "2024-02-29" });
    const f = q.wire()!;
    expect(Date.parse(f.to!) - Date.parse(f.from!)).toBe(29 * 86_400_000);
    expect(q.chips.map((c) => c.id)).toEqual(["time"]);
    q.chips[0]!.drop();
    expect(q.wire()).toBeUndefined();
  });

  it("knows all of its chips", () => {
    const q = new Query();
    q.set({ time: "week" });
    q.toggle("kinds", "turn");
    q.toggle("types", "semantic");
    q.toggle("layers", "3");
    q.set({ pinned: true, trust: "own" });
    expect(q.wire(Date.parse("2026-03-08T00:00:00Z"))).toEqual({ from: "2026-03-01T00:00:00.000Z", kinds: ["turn"], types: ["semantic"], layers: [3], pinned: true, untrusted: false });
    expect(q.chips.map((c) => c.label)).toEqual(["Last 7 days", "Messages", "Semantic", "3 Relational memory", "Pinned", "Trusted text"]);
    q.clear();
    expect(q.filtered).toBe(false);
  });
});
