import { afterEach, describe, expect, it, vi } from "vitest";
import { Nav } from "./nav.svelte";

afterEach(() => vi.unstubAllGlobals());

describe("Nav", () => {
  it("is at a selected row before the browser reports the change", () => {
    vi.stubGlobal("location", { hash: "" });
    const nav = new Nav();
    nav.go("trash");
    expect(nav.path).toEqual([]);
    nav.select("trash/first");
    expect(nav.path).toEqual(["trash", "first"]);
    const { path } = nav;
    nav.read(); // the report
    expect(nav.path).toBe(path);
    nav.select("trash/a%2Fb");
    nav.select("trash/a/b");
    expect(nav.rest).toEqual(["a", "b"]);
  });
});
