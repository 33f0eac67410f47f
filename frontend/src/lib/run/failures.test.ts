import { describe, expect, it } from "vitest";
import { describeFailure, failureLine } from "./failures";

const CLASSES = ["compile", "missing_export", "thrown", "trap", "timeout", "cpu", "memory", "output", "input", "host_denied", "canceled", "unavailable"];

describe("failure texts", () => {
  it("says something of its own for each class", () => {
    const titles = CLASSES.map((c) => describeFailure(c, "reason").title);
    expect(new Set(titles).size).toBe(CLASSES.length);
    for (const c of CLASSES) expect(describeFailure(c, "reason").hint, c).not.toBe("");
  });

  it("names the limit, the value and the profile that would help", () => {
    const f = describeFailure("memory", "", { memoryUsedMb: 64, limits: { memoryMb: 64 }, profile: "strict" });
    expect(f.text).toContain("64 MB of 64 MB");
    expect(f.hint).toContain("Standard");
    expect(f.action).toBe("profile");
    expect(describeFailure("timeout", "", { executionTimeMs: 10_020, limits: { wallMs: 10_000 }, profile: "strict" }).text).toContain("10 s of 10 s");
    expect(describeFailure("timeout", "", { profile: "permissive" }).hint).toContain("widest profile");
    // No profile raises the CPU limit, so none is suggested.
    expect(describeFailure("cpu", "", { cpuTimeMs: 10_000, limits: { cpuMs: 10_000 }, profile: "strict" }).hint).not.toContain("Standard");
  });

  it("names a syntax error as such, with its line", () => {
    expect(describeFailure("compile", "Expected )", { details: { line: 3, column: 9 } })).toMatchObject({ title: "Syntax error", line: 3, column: 9 });
    expect(describeFailure("compile", "Too large").title).toBe("The code doesn't compile");
  });

  it("tells refusals apart", () => {
    expect(describeFailure("host_denied", "x", { details: { reason: "address" } }).hint).toContain("Private");
    expect(describeFailure("host_denied", "x", { details: { reason: "limit" } }).action).toBe("code");
    expect(describeFailure("host_denied", "x", { details: { reason: "capability" } }).action).toBe("capabilities");
    expect(describeFailure("host_denied", "x").action).toBe("capabilities");
  });

  it("finds the line in the tool's own text", () => {
    expect(failureLine("    at count (tool.ts:12:5)")).toEqual({ line: 12, column: 5 });
    expect(failureLine("", { line: 3, column: 9 })).toEqual({ line: 3, column: 9 });
    expect(failureLine("SyntaxError at line 3, column 9")).toBeNull();
    expect(failureLine("boom")).toBeNull();
    expect(describeFailure("thrown", "boom", { stack: "at f (Text Counter.ts:4:2)" })).toMatchObject({ line: 4, column: 2 });
  });
});
