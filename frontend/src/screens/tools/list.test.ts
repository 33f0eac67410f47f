import { beforeEach, describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { nav } from "../../lib/ui/state";
import { fake, row, until } from "./fixtures";
import { Market, templateList, ToolList } from "./list.svelte";
import type { Row } from "./types";

function setup(n = 3, over: Partial<Row> = {}) {
  let all = Array.from({ length: n }, (_, i) => row({ id: `t${i}`, name: `Tool ${i}`, ...over }));
  const rpc = fake({
    "tools.list": (p: { limit: number; offset: number; enabled?: boolean }) => {
      const hits = all.filter((x) => p.enabled === undefined || x.isEnabled === p.enabled);
      return { tools: hits.slice(p.offset, p.offset + p.limit), total: hits.length, limit: p.limit, offset: p.offset };
    },
    "tools.search": () => ({ tools: [row({ mine: false })], total: 1, hub: true }),
    "tools.templates": () => ({ templates: [{ id: "csv", name: "CSV to JSON", description: "", capabilities: [] }] }),
  });
  const list = new ToolList(rpc);
  return { rpc, list, set: (next: Row[]) => (all = next) };
}
beforeEach(() => nav.go("tools"));

describe("the list of tools", () => {
  it("reads ten thousand rows page by page", async () => {
    const { list, rpc } = setup(10_000);
    await list.page.reload();
    expect([list.rows.length, list.total]).toEqual([100, 10_000]);
    await list.page.more();
    expect(rpc.sent("tools.list").map((p) => (p as { offset: number }).offset)).toEqual([0, 100]);
  });

  it("reads again after a change, once for several", async () => {
    const { list, rpc, set } = setup(1);
    list.listen();
    await list.page.reload();
    set([row({ id: "t0", name: "New name" })]);
    rpc.emit("tools.changed", { toolId: "t0", kind: "updated" });
    rpc.emit("tools.suspended", { toolId: "t0" });
    await until(() => list.rows[0]?.name === "New name");
    expect(rpc.sent("tools.list")).toHaveLength(2);
    list.stop();
  });

  it("sends its filters and order, and offers the tags that it saw", async () => {
    const { list, rpc, set } = setup();
    set([row({ id: "a", tags: ["x"] }), row({ id: "b", isEnabled: false, tags: ["y"] })]);
    await list.page.reload();
    expect(list.tags).toEqual(["x", "y"]);
    list.setFilter("status", "disabled");
    await until(() => list.rows.length === 1);
    expect([list.rows[0]?.id, list.filtered, list.tags]).toEqual(["b", true, ["x", "y"]]);
    list.toggleFilter("tags", "x");
    list.setFilter("sort", "name");
    expect(rpc.sent("tools.list").at(-1)).toMatchObject({ enabled: false, tags: ["x"], sort: "name" });
    list.toggleFilter("tags", "y");
    expect(rpc.sent("tools.list").at(-1)).toMatchObject({ tags: ["x", "y"] });
    expect(list.values("tags")).toEqual(["x", "y"]);
    list.toggleFilter("tags", "x");
    expect(rpc.sent("tools.list").at(-1)).toMatchObject({ tags: ["y"] });
    list.setFilter("status", "suspended");
    expect(rpc.sent("tools.list").at(-1)).toMatchObject({ suspended: true });
    list.setFilter("status", "public");
    expect(rpc.sent("tools.list").at(-1)).toMatchObject({ visibility: "public" });
    list.clearFilters();
    await until(() => list.rows.length === 2);
  });

  it("marks a tool whose run is going on", async () => {
    const { list, rpc } = setup(1, { lastStatus: "failure" });
    list.listen();
    await list.page.reload();
    expect(list.lastRun(list.rows[0]!)).toBe("failure");
    rpc.emit("tools.execution", { executionId: "x", toolId: "t0", seq: 1, state: "running" });
    expect(list.lastRun(list.rows[0]!)).toBe("running");
    rpc.emit("tools.execution", { executionId: "x", toolId: "t0", seq: 2, state: "success" });
    expect(list.lastRun(list.rows[0]!)).toBe("failure");
    list.stop();
  });

  it("has no tool selected at the addresses of other lists", () => {
    const { list } = setup();
    for (const elsewhere of ["tools/templates/csv", "tools/marketplace", "tools/new", "tools/shared/1"]) {
      nav.go(elsewhere);
      expect(list.selectedId, elsewhere).toBeNull();
    }
    nav.go("tools/t1/run");
    expect(list.selectedId).toBe("t1");
  });
});

it("shared tools say whether a hub is connected", async () => {
  const market = new Market(setup().rpc as never);
  await market.page.reload();
  expect([market.total, market.hub]).toEqual([1, true]);
});

describe("templates", () => {
  it("are read once and searched by their words", async () => {
    const { rpc } = setup();
    const list = templateList(rpc as never);
    await list.page.reload();
    list.query = "csv";
    await list.page.reload();
    expect(list.rows).toHaveLength(1);
    list.query = "zzz";
    await list.page.reload();
    expect([list.rows.length, rpc.sent("tools.templates").length]).toEqual([0, 1]);
  });

  it("are read again after an error", async () => {
    const { rpc } = setup();
    const list = templateList(rpc as never);
    rpc.failNext("tools.templates", new RpcError({ message: "no", kind: "unavailable" }));
    await list.page.reload();
    expect(list.page.error?.message).toBe("no");
    await list.page.reload();
    expect([list.page.error, list.rows.length]).toEqual([undefined, 1]);
  });
});
