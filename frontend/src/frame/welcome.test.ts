import { describe, expect, it } from "vitest";
import { fakeRpc } from "../lib/rpc/fake";
import type { Command } from "../lib/ui/commands.svelte";
import { Recent } from "../lib/ui/recent.svelte";
import type { ScreenDef, Starter } from "../lib/ui/screen";
import { startersOf, Welcome } from "./welcome.svelte";

const store = (): Pick<Storage, "getItem" | "setItem"> => {
  const m = new Map<string, string>();
  return { getItem: (k) => m.get(k) ?? null, setItem: (k, v) => void m.set(k, v) };
};
const starter = (over: Partial<Starter> = {}): Starter => ({ title: "Try", text: "", action: "Run", run: () => {}, used: async () => false, ...over });
const withStarters = (...list: Starter[]): ScreenDef[] => list.map((s) => ({ starter: s }) as ScreenDef);
const rpc = fakeRpc({});

describe("the page of the first start", () => {
  it("is due while nothing was done yet, and never after a starter was used", async () => {
    const kept = store();
    const w = new Welcome(kept);
    let runs = 0;
    const s = starter({ run: () => void runs++ });
    expect(await w.due(rpc, withStarters(s, starter()))).toBe(true);
    await w.use(s);
    expect([runs, w.busy]).toEqual([1, null]);
    expect(await new Welcome(kept).due(rpc, withStarters(s))).toBe(false);
  });

  it("is not due where something was done elsewhere, and stays away after that was deleted", async () => {
    const kept = store();
    expect(await new Welcome(kept).due(rpc, withStarters(starter(), starter({ used: async () => true })))).toBe(false);
    expect(await new Welcome(kept).due(rpc, withStarters(starter()))).toBe(false);
  });

  it("does not hold the program up when something can't be read", async () => {
    const kept = store();
    const broken = starter({ used: () => Promise.reject(new Error("down")) });
    expect(await new Welcome(kept).due(rpc, withStarters(broken))).toBe(false);
    expect(await new Welcome(kept).due(rpc, [])).toBe(false);
  });

  it("keeps the steps that are left in the status bar until they are done or hidden", async () => {
    const kept = store();
    const w = new Welcome(kept);
    let tried = false;
    const first = starter({ step: 1, used: async () => true });
    const second = starter({ step: 2, used: async () => tried });
    const list = withStarters(second, first, starter());
    expect(startersOf(list).steps.map((s) => s.starter)).toEqual([first, second]);
    expect(w.following).toBe(false);
    await w.use(first);
    await w.read(rpc, list);
    expect([w.following, [...w.done]]).toEqual([true, [first]]);
    expect(new Welcome(kept).following).toBe(true);
    tried = true;
    await w.read(rpc, list);
    expect(w.following).toBe(false);
    expect(new Welcome(kept).following).toBe(false);
  });

  it("starts one thing at a time", async () => {
    const w = new Welcome(store());
    let end = (): void => {};
    let runs = 0;
    const slow = starter({ run: () => new Promise<void>((done) => ((end = done), runs++)) });
    const first = w.use(slow);
    await w.use(slow);
    end();
    await first;
    expect(runs).toBe(1);
  });
});

describe("recent commands", () => {
  const command = (id: string, over: Partial<Command> = {}): Command => ({ id, title: id, run: () => {}, ...over });
  const ids = (list: readonly Command[]): string[] => list.map((c) => c.id);

  it("come first the next time too, as far as they can be run", () => {
    const kept = store();
    const table = ["a", "b", "c"].map((id) => command(id));
    const r = new Recent(kept);
    r.add(table[0]!);
    r.add(table[2]!);
    r.add(table[0]!);
    expect(ids(r.list(table))).toEqual(["a", "c"]);
    expect(ids(new Recent(kept).list([command("c"), command("a", { when: () => false })]))).toEqual(["c"]);
  });

  it("are few, and what a search found is forgotten with the page", () => {
    const kept = store();
    const r = new Recent(kept);
    for (let i = 0; i < 9; i++) r.add(command(`found ${i}`));
    expect(ids(r.list([]))).toEqual(["found 8", "found 7", "found 6", "found 5", "found 4", "found 3"]);
    expect(new Recent(kept).list([])).toEqual([]);
  });

  it("begin anew when the store holds something else", () => {
    const kept = store();
    kept.setItem("helix.recent", "{not json");
    expect(new Recent(kept).list([command("a")])).toEqual([]);
  });
});
