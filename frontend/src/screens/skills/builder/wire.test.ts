import { describe, expect, it } from "vitest";
import type { Entry, Step } from "./types";
import { wired, wiring } from "./wire";

const object = (properties: object, required: string[] = []) => ({ type: "object", properties, required });
const text = { type: "string" };
const whole = { type: "integer" };

describe("wiring", () => {
  it("takes outputs of the same name and type, and of no other", () => {
    const input = object({ text, count: { type: "number" }, other: text }, ["text", "count"]);
    expect(wiring(input, object({ text, count: whole, other: text }), "a")).toEqual({ text: "$.a.text", count: "$.a.count" });
    expect(wiring(input, object({ text: whole }), "a")).toEqual({});
  });

  it("takes the only output of the type for a single parameter", () => {
    const input = object({ text, times: whole }, ["text"]);
    expect(wiring(input, text, "a")).toEqual({ text: "$.a" });
    expect(wiring(input, object({ "the words": text, n: whole }), "a")).toEqual({ text: "$.a['the words']" });
    expect(wiring(input, object({ one: text, two: text }), "a")).toEqual({});
  });

  it("takes nothing where a type is not known", () => {
    expect(wiring(object({ text: {} }, ["text"]), object({ text: {} }), "a")).toEqual({});
    expect(wiring(undefined, undefined, "a")).toEqual({});
  });
});

describe("a new step", () => {
  const say: Step = { stepId: "say", toolType: "custom", toolName: "Say" };
  const find = (s: Step): Entry | undefined => (s.toolName === "Say" ? ({ inputSchema: object({ text }, ["text"]), outputSchema: object({ said: text }) } as Entry) : undefined);

  it("takes what the step before it gives", () => {
    expect(wired({ ...say, stepId: "say_2" }, say, find)).toEqual({ ...say, stepId: "say_2", inputMapping: { text: "$.say.said" } });
    expect(wired({ stepId: "make", toolType: "transform", value: {} }, say, find).value).toBe("$.say");
  });

  it("takes nothing from a step that may give nothing", () => {
    const make: Step = { stepId: "make", toolType: "transform", value: {} };
    for (const before of [undefined, { ...say, condition: "$.input.x" }, { ...say, errorHandling: "skip" }, { stepId: "choose", toolType: "branch", cases: [] }]) expect(wired(make, before as Step | undefined, find)).toBe(make);
  });
});
