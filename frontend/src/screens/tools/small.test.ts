import { describe, expect, it } from "vitest";
import { complete } from "./complete";
import { forbiddenBy, limitsFor, narrows } from "./profiles";
import { bars } from "../../lib/run/timeline";
import { sidesOf } from "./unified";
import { iconOf } from "./icons";
import { slug } from "./tools.svelte";

describe("completion", () => {
  const labels = (before: string) => complete(before, ["city"])?.options.map((o) => o.label);
  it("offers what helix has", () => {
    expect(labels("await helix.")).toEqual(["fetch", "fs", "state", "log", "secret", "tool"]);
    expect(labels("helix.fs.re")).toContain("readText");
    expect(labels("helix.state.")).toEqual(["get", "set", "delete", "keys"]);
    expect(labels("params.c")).toEqual(["city"]);
    expect(labels("  he")).toContain("helix");
  });
  it("says where the word begins and keeps out of other objects", () => {
    expect(complete("helix.fs.re", [])?.from).toBe(9);
    expect(complete("other.fe", [])).toBeNull();
    expect(complete("", [])).toBeNull();
  });
});

describe("limits of a profile", () => {
  it("can be lowered and never raised", () => {
    expect(limitsFor("strict")).toEqual({ wallMs: 10_000, cpuMs: 10_000, memoryMb: 64 });
    expect(limitsFor("permissive", { wallMs: 5000, memoryMb: 1024 })).toEqual({ wallMs: 5000, cpuMs: 10_000, memoryMb: 256 });
    expect(limitsFor("unknown").memoryMb).toBe(128);
  });
});

describe("what a profile forbids", () => {
  it("counts what this tool asks for, not every kind there is", () => {
    const asked = ["network:https(api.example.com)", "state(1MiB)", "filesystem:write"];
    expect(["strict", "standard", "permissive"].map((p) => forbiddenBy(p as "strict", asked))).toEqual([2, 1, 0]);
    expect([forbiddenBy("strict", []), forbiddenBy("strict", ["process:spawn"])]).toEqual([0, 0]);
    expect([narrows("strict"), narrows("standard"), narrows("permissive")]).toEqual([true, true, false]);
  });
});

describe("the timeline", () => {
  it("puts the oldest run at the left and longer ones higher", () => {
    const b = bars([
      { id: "new", timestamp: "2026-01-02T00:00:00Z", executionTimeMs: 1000, status: "success" },
      { id: "old", timestamp: "2026-01-01T00:00:00Z", executionTimeMs: 1, status: "failure" },
    ]);
    expect(b.map((x) => x.id)).toEqual(["old", "new"]);
    expect(b[0]!.x).toBe(0);
    expect(b[1]!.x).toBe(1);
    expect(b[1]!.height).toBe(1);
    expect(b[0]!.height).toBeGreaterThan(0);
    expect(bars([])).toEqual([]);
  });
});

describe("a unified diff", () => {
  it("gives both sides", () => {
    expect(sidesOf("--- a\n+++ b\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n\\ No newline at end of file\n")).toEqual({ before: "same\nold", after: "same\nnew" });
    expect(sidesOf("")).toEqual({ before: "", after: "" });
  });
});

describe("names", () => {
  it("become file names", () => {
    expect(slug("Text Counter")).toBe("text-counter");
    expect(slug("../../etc/passwd")).toBe("etc-passwd");
    expect(slug("→")).toBe("tools");
  });
  it("know their icon", () => {
    expect(iconOf("")).toBe(iconOf("wrench"));
    expect(iconOf("🦊")).toBeNull();
    expect(iconOf("constructor")).toBeNull();
  });
});
