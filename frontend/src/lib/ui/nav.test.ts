import { afterEach, describe, expect, it, vi } from "vitest";
import { Nav } from "./nav.svelte";

afterEach(() => vi.unstubAllGlobals());

describe("Nav", () => {
  it("is at its target before the browser reports the change", () => {
    vi.stubGlobal("location", { hash: "" });
    const nav = new Nav();
    nav.go("trash/first");
    expect(nav.path).toEqual(["trash", "first"]);
    const { path } = nav;
    nav.read(); // the report
    expect(nav.path).toBe(path);
    nav.go("trash/a%2Fb");
    nav.go("trash/a/b");
    expect(nav.rest).toEqual(["a", "b"]);
  });
});
