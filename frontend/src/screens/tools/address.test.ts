import { afterAll, describe, expect, it } from "vitest";
import { nav } from "../../lib/ui/nav.svelte";
import { partOf, runRoute, toolRoute } from "./address";

afterAll(() => nav.go("tools"));

describe("addresses of tools", () => {
  it("name the tool, the part of it and the run that is open, for code and for modules", () => {
    for (const [address, key, part, run] of [
      ["tools", null, "", undefined],
      ["tools/t1", "t1", "", null],
      ["tools/t1/run", "t1", "run", null],
      ["tools/t1/history/r1", "t1", "history", "r1"],
      ["tools/wasm", null, "", undefined],
      ["tools/wasm/s1", "wasm/s1", "", null],
      ["tools/wasm/s1/history/r1", "wasm/s1", "history", "r1"],
    ] as const) {
      nav.go(address);
      expect(toolRoute.selected(), address).toBe(key);
      expect(partOf(), address).toBe(part);
      expect(key === null ? undefined : runRoute(key).selected(), address).toBe(run);
    }
  });

  it("belong to the other lists where they name one", () => {
    for (const address of ["tools/templates/x", "tools/marketplace", "tools/new", "tools/shared/x", "skills/s1"]) {
      nav.go(address);
      expect(toolRoute.selected(), address).toBeUndefined();
      expect(partOf(), address).toBe("");
    }
  });

  it("open a run from wherever its tool is shown", () => {
    expect(toolRoute.to("wasm/s1")).toBe("tools/wasm/s1");
    expect(runRoute("wasm/s1").to("r1")).toBe("tools/wasm/s1/history/r1");
    expect(runRoute("t1").to(null)).toBe("tools/t1/history");
  });
});
