import { describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { ToolList } from "./list.svelte";
import { fake, row, until } from "./fixtures";
import type { Row } from "./types";

function setup(n = 3, over: Partial<Row> = {}) {
  let all = Array.from({ length: n }, (_, i) => row({ id: `t${i}`, name: `Tool ${i}`, ...over }));
  const rpc = fake({
    "tools.list": (p: { limit: number; offset: number; enabled?: boolean }) => {
      const hits = all.filter((t) => p.enabled === undefined || t.isEnabled === p.enabled);
      return { tools: hits.slice(p.offset, p.offset + p.limit), total: hits.length, limit: p.limit, offset: p.offset };
    },
    "tools.search": () => ({ tools: [], total: 0, hub: false }),
    "tools.templates": () => ({ templates: [{ id: "csv", name: "CSV to JSON", description: "", capabilities: [] }] }),
  });
  const list = new ToolList(rpc);
  return { rpc, list, set: (next: Row[]) => (all = next), all: () => all };
}

describe("the list", () => {
  it("reads the first page and the counts of all tabs", async () => {
    const { list } = setup(3);
    list.start();
    await until(() => list.counts.mine === 3 && list.counts.templates === 1 && list.counts.marketplace === 0);
    expect(list.rows.map((r) => r?.id)).toEqual(["t0", "t1", "t2"]);
    expect(list.loading).toBe(false);
    list.stop();
  });

  it("reads ten thousand rows page by page as they come into view", async () => {
    const { list, rpc } = setup(10_000);
    list.start();
    await until(() => list.rows.length === 10_000);
    expect(rpc.sent("tools.list")).toHaveLength(1);
    expect(list.rows[5000]).toBeUndefined();
    list.ensure(4990, 5010);
    list.ensure(4990, 5010);
    await until(() => list.rows[4990] !== undefined && list.rows[5010] !== undefined);
    expect(rpc.sent("tools.list").map((p) => (p as { offset: number }).offset)).toEqual([0, 4900, 5000]);
    list.stop();
  });

  it("reads what is in view again after a change", async () => {
    const { list, rpc, set, all } = setup(300);
    list.start();
    await until(() => list.rows.length === 300);
    list.ensure(150, 160);
    await until(() => list.rows[150] !== undefined);
    set(all().map((t) => ({ ...t, name: `${t.name}!` })));
    rpc.emit("tools.changed", { toolId: "t1", kind: "updated" });
    rpc.emit("tools.changed", { toolId: "t2", kind: "updated" });
    await until(() => list.rows[0]?.name === "Tool 0!" && list.rows[150]?.name === "Tool 150!");
    list.stop();
  });

  it("sends filters and counts all tools besides", async () => {
    const { list, rpc, set } = setup();
    set([row({ id: "a", tags: ["x"] }), row({ id: "b", isEnabled: false, tags: ["y"] })]);
    list.start();
    await until(() => list.rows.length === 2);
    expect(list.knownTags).toEqual(["x", "y"]);
    list.setStatus("disabled");
    await until(() => list.rows.length === 1);
    expect(list.rows[0]?.id).toBe("b");
    await until(() => rpc.sent("tools.list").some((p) => (p as { limit: number }).limit === 1));
    expect(list.counts.mine).toBe(2);
    expect(list.filtered).toBe(true);
    list.toggleTag("x");
    expect(rpc.sent("tools.list").at(-1)).toMatchObject({ enabled: false, tags: ["x"] });
    list.clearFilters();
    await until(() => list.rows.length === 2);
    list.stop();
  });

  it("moves the choice and stops at the ends", async () => {
    const { list } = setup(3);
    list.start();
    await until(() => list.rows.length === 3);
    expect(list.move(1)).toBe(0);
    expect(list.selectedId).toBe("t0");
    expect(list.move(5)).toBe(2);
    expect(list.move(-1)).toBe(1);
    expect(list.selected?.id).toBe("t1");
    list.stop();
  });

  it("hides a row at once, chooses the next one, and brings it back", async () => {
    const { list } = setup(3);
    list.start();
    await until(() => list.counts.mine === 3);
    list.select("t1");
    list.hide("t1");
    expect(list.rows.map((r) => r?.id)).toEqual(["t0", "t2"]);
    expect(list.selectedId).toBe("t2");
    expect(list.counts.mine).toBe(2);
    await list.unhide("t1");
    expect(list.rows.map((r) => r?.id)).toEqual(["t0", "t1", "t2"]);
    expect(list.counts.mine).toBe(3);
    list.stop();
  });

  it("marks a tool whose run is going on", async () => {
    const { list, rpc } = setup(1, { lastStatus: "failure" });
    list.start();
    await until(() => list.rows.length === 1);
    expect(list.lastRun(list.rows[0]!)).toBe("failure");
    rpc.emit("tools.execution", { executionId: "x", toolId: "t0", seq: 1, state: "running" });
    expect(list.lastRun(list.rows[0]!)).toBe("running");
    rpc.emit("tools.execution", { executionId: "x", toolId: "t0", seq: 2, state: "success" });
    expect(list.lastRun(list.rows[0]!)).toBe("failure");
    list.stop();
  });

  it("keeps the rows when reading again fails", async () => {
    const { list, rpc } = setup(2);
    list.start();
    await until(() => list.rows.length === 2);
    rpc.failNext("tools.list", new RpcError({ message: "no", kind: "unavailable" }));
    await list.reload();
    expect(list.rows).toHaveLength(2);
    expect(list.error?.message).toBe("no");
    await list.reload();
    expect(list.error).toBeNull();
    list.stop();
  });

  it("finds templates by their words without asking the backend", async () => {
    const { list } = setup();
    list.start();
    await until(() => list.templates.length === 1);
    list.setTab("templates");
    list.search("csv");
    expect(list.shownTemplates).toHaveLength(1);
    list.search("zzz");
    expect(list.shownTemplates).toHaveLength(0);
    list.stop();
  });
});
