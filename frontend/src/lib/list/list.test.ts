import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { RpcError } from "../rpc/errors";
import { fakeRpc } from "../rpc/fake";
import { nav } from "../ui/nav.svelte";
import { listCommands, menuItems, rowCommands } from "./actions";
import { PlantState, type Plant } from "./demo/plants.svelte";
import { route } from "./state";

const fern: Plant = { id: "1", name: "Fern", place: "garden" };
const rose: Plant = { id: "2", name: "Rose", place: "garden" };
const moss: Plant = { id: "3", name: "Moss", place: "pot of Helix" };

function setup(plants: Plant[] = [fern, rose, moss]) {
  const said: string[] = [];
  let undo: () => unknown = () => {};
  const s = new PlantState(plants, {
    error: (_e, title = "") => void said.push(title),
    undo: (title, restore) => {
      said.push(title);
      undo = restore;
    },
  });
  nav.go("plants");
  return { s, list: s.list, said, undo: () => undo() };
}
const names = (rows: readonly Plant[]): string[] => rows.map((p) => p.name);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("rows", () => {
  it("are the user's own and those of Helix", async () => {
    const { list } = setup();
    expect([list.bare, list.page.first]).toEqual([false, true]);
    await list.page.reload();
    expect([names(list.own), names(list.system), list.bare]).toEqual([["Fern", "Rose"], ["Moss"], false]);
  });

  it("are bare without one of the user's own, but not while a filter hides them", async () => {
    const { list } = setup([moss]);
    await list.page.reload();
    expect(list.bare).toBe(true);
    list.setFilter("place", "garden");
    await vi.advanceTimersByTimeAsync(0);
    expect([list.rows.length, list.bare, list.filtered]).toEqual([0, false, true]);
  });

  it("stay with an error beside them when a read fails", async () => {
    const { s, list } = setup();
    await list.page.reload();
    s.fail = new RpcError({ message: "no" });
    await list.page.reload();
    expect([list.page.error?.message, list.rows.length]).toEqual(["no", 3]);
  });

  it("are replaced one by one", async () => {
    const { list } = setup();
    await list.page.reload();
    list.put({ ...fern, name: "Old fern" });
    expect(names(list.rows)).toEqual(["Old fern", "Rose", "Moss"]);
  });
});

describe("search and filters", () => {
  it("wait until typing pauses, and are cleared together", async () => {
    const { s, list } = setup();
    await list.page.reload();
    for (const text of ["r", "ro", "ros "]) list.search(text);
    await vi.advanceTimersByTimeAsync(199);
    expect(s.reads).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect([s.reads.at(-1)!.query, names(list.rows)]).toEqual(["ros", ["Rose"]]);
    list.setFilter("place", "garden");
    list.clearFilters();
    await vi.advanceTimersByTimeAsync(0);
    expect([list.query, list.filters.place, list.filtered, list.rows.length]).toEqual(["", "", false, 3]);
  });
});

describe("events", () => {
  it("cause one read together, and none after stop", async () => {
    const { s, list } = setup();
    const rpc = fakeRpc();
    const off = vi.fn();
    list.start(rpc, ["tools.changed"], off);
    list.start(rpc, ["tools.changed"]);
    for (let i = 0; i < 5; i++) rpc.emit("tools.changed", {} as never);
    await vi.advanceTimersByTimeAsync(60);
    expect(s.reads).toHaveLength(1);
    rpc.reload();
    await vi.advanceTimersByTimeAsync(0);
    expect(s.reads).toHaveLength(2);
    rpc.emit("tools.changed", {} as never);
    list.stop();
    await vi.advanceTimersByTimeAsync(1000);
    expect([s.reads.length, off.mock.calls.length]).toEqual([2, 1]);
  });
});

describe("the selection", () => {
  it("is what the address names", async () => {
    const { list } = setup();
    await list.page.reload();
    expect(list.selected).toBeNull();
    nav.go("plants/2/history");
    expect([list.selectedId, list.selected?.name]).toEqual(["2", "Rose"]);
    list.select("1");
    expect(nav.path).toEqual(["plants", "1"]);
    list.select(null);
    expect(nav.path).toEqual(["plants"]);
  });

  it("leaves addresses of something else alone", () => {
    const { list } = setup();
    for (const elsewhere of ["tools/2", "plants/map"]) {
      nav.go(elsewhere);
      list.select("1");
      expect([list.selectedId, nav.path.join("/")]).toEqual([null, elsewhere]);
    }
  });

  it("may lie below a longer address", () => {
    const r = route("skills/wasm");
    nav.go("skills/wasm/7");
    expect([r.selected(), r.to("8"), r.to(null)]).toEqual(["7", "skills/wasm/8", "skills/wasm"]);
    nav.go("skills/7");
    expect(r.selected()).toBeUndefined();
  });
});

describe("deleting", () => {
  it("hides the row at once, selects the next one, and Undo brings it back", async () => {
    const { s, list, said, undo } = setup();
    await list.page.reload();
    nav.go("plants/1");
    const deleted = s.remove(fern);
    expect([names(list.own), list.total, list.selectedId]).toEqual([["Rose"], 2, "2"]);
    expect(await deleted).toBe(true);
    await vi.advanceTimersByTimeAsync(0);
    expect([said, names(list.rows), list.total]).toEqual([["Deleted Fern"], ["Rose", "Moss"], 2]);
    await undo();
    expect([names(list.own), list.selectedId]).toEqual([["Fern", "Rose"], "1"]);
  });

  it("shows the row again, selected as before, when the backend refuses", async () => {
    const { s, list, said } = setup();
    await list.page.reload();
    nav.go("plants/1");
    s.fail = new RpcError({ message: "no" });
    expect(await s.remove(fern)).toBe(false);
    expect([said, names(list.own), list.selectedId]).toEqual([["Couldn't delete Fern"], ["Fern", "Rose"], "1"]);
  });

  it("selects the row before the last, and none when no row is left", async () => {
    const { list } = setup();
    await list.page.reload();
    nav.go("plants/2");
    list.hide("2");
    expect(list.selectedId).toBe("1");
    list.hide("1");
    expect(list.selectedId).toBeNull();
  });

  it("takes nobody away from another screen", async () => {
    const { s, list, undo } = setup();
    await list.page.reload();
    await s.remove(fern);
    nav.go("tools/9");
    await undo();
    expect(nav.path).toEqual(["tools", "9"]);
  });
});

describe("row actions", () => {
  const run = vi.fn();
  const actions = [{ id: "edit", label: "Edit…", keys: ["e", "Enter"], run }, null, { id: "delete", label: "Delete", keys: "Delete", run, danger: true, blocked: "Built in" }];

  it("make the menu, with the reason why something can't be used", () => {
    expect(menuItems(actions).map((i) => i && [i.label, i.keys, i.disabledReason, i.danger])).toEqual([["Edit…", ["E"], "", false], null, ["Delete", ["Del"], "Built in", true]]);
  });

  it("make commands that are named after the row; one that can't be used says why", () => {
    const explain = vi.fn();
    const all = rowCommands("plants", "Plants", "Fern", actions, explain);
    expect(all.map((c) => [c.id, c.title, c.keys, c.hidden ?? false])).toEqual([
      ["plants.edit", "Edit: Fern", ["e", "Enter"], false],
      ["plants.delete", "Delete: Fern", "Delete", true],
    ]);
    all[1]!.run();
    expect([run.mock.calls.length, explain.mock.calls]).toEqual([0, [["Built in"]]]);
    expect(rowCommands("plants", "Plants", "Fern", [{ id: "x", label: "X", run, blocked: "no" }])).toEqual([]);
  });

  it("come with search, next, previous and close", () => {
    let open = false;
    const list = { move: vi.fn(), focusSearch: vi.fn() };
    const close = vi.fn();
    const all = listCommands("plants", "Plants", "Search plants", () => list, () => open, close);
    expect(all.map((c) => [c.keys, c.when?.() ?? true])).toEqual([["/", true], ["j", true], ["k", true], ["Escape", false]]);
    open = true;
    for (const c of all) if (c.when?.() ?? true) c.run();
    expect([list.focusSearch.mock.calls.length, list.move.mock.calls, close.mock.calls.length]).toEqual([1, [[1], [-1]], 1]);
  });
});
