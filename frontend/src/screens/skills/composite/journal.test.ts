import { describe, expect, it } from "vitest";
import { execution, step, writer } from "./fixtures";
import { Journal, topStep } from "./journal";
import { makeScale } from "./scale";
import type { Body, StepResult } from "./types";

const shape = (j: Journal, open: string[] = []): string[] => j.visible(new Set(open)).map((r) => `${"  ".repeat(r.depth)}${r.kind === "item" ? "#" : ""}${r.stepId} ${r.status}`);

describe("the journal of a run", () => {
  it("shows steps that have not begun, and an attempt as a bar", () => {
    const e = writer();
    const j = new Journal({ steps: [step("a"), step("b")] });
    expect(shape(j)).toEqual(["a pending", "b pending"]);
    for (const ev of [
      e("run.created"),
      e("run.started"),
      e("step.intent", { stepPath: "a", attempt: 1, data: { input: { q: 1 }, tier: "readOnly" } }),
      e("step.outcome", { stepPath: "a", attempt: 1, data: { output: [2] } }),
    ])
      j.apply(ev);
    const a = j.get("a")!;
    expect(a).toMatchObject({ status: "completed", input: { q: 1 }, output: [2], tier: "readOnly" });
    expect(a.bars).toEqual([{ kind: "attempt", from: expect.any(Number), to: expect.any(Number), attempt: 1, state: "ok", error: undefined }].map((b) => expect.objectContaining({ kind: b.kind, state: "ok", attempt: 1 })));
    expect(a.bars[0]!.to! - a.bars[0]!.from).toBe(10);
  });

  it("draws pauses between attempts, and keeps why each failed", () => {
    const e = writer();
    const j = new Journal({ steps: [step("a", { errorHandling: "retry" })] });
    const fail = { error: { kind: "timeout", message: "slow" } };
    for (const ev of [
      e("run.started"),
      e("step.intent", { stepPath: "a", attempt: 1 }),
      e("step.outcome", { stepPath: "a", attempt: 1, data: fail }),
      e("step.retry", { stepPath: "a", attempt: 1, data: { delayMs: 700, ...fail } }),
    ])
      j.apply(ev);
    expect(j.get("a")!.status).toBe("retrying");
    expect(j.get("a")!.bars.map((b) => [b.kind, b.state])).toEqual([
      ["attempt", "failed"],
      ["backoff", "running"],
    ]);
    j.apply(e("step.intent", { stepPath: "a", attempt: 2, after: 700 }));
    j.apply(e("step.outcome", { stepPath: "a", attempt: 2, after: 720, data: { output: 1 } }));
    const a = j.get("a")!;
    expect(a.attempts).toBe(2);
    expect(a.error).toBeUndefined();
    expect(a.bars.map((b) => [b.kind, b.state, b.error?.message])).toEqual([
      ["attempt", "failed", "slow"],
      ["backoff", "ok", undefined],
      ["attempt", "ok", undefined],
    ]);
  });

  it("folds the items of a map and unfolds branches, in order of index however they end", () => {
    const e = writer();
    const body: Body = { steps: [step("each", { toolType: "map", toolName: "", steps: [step("in"), step("out")] }), step("if", { toolType: "branch", cases: [{ when: "", steps: [step("yes")] }], else: [step("no")] })] };
    const j = new Journal(body);
    const at = (iteration: string, id: string) => ({ stepPath: `each/${id}`, iteration, attempt: 1 });
    for (const ev of [
      e("run.started"),
      e("step.intent", { stepPath: "each", attempt: 1, data: { count: 3 } }),
      e("step.intent", at("2", "in")),
      e("step.intent", at("0", "in")),
      e("step.outcome", { ...at("2", "in"), data: { error: { kind: "internal", message: "no" } } }),
      e("map.item", { stepPath: "each", data: { index: 2, error: { kind: "internal", message: "no" } } }),
      e("step.outcome", { ...at("0", "in"), data: { output: 1 } }),
      e("step.outcome", { ...at("0", "out"), data: { output: 2 } }),
      e("map.item", { stepPath: "each", data: { index: 0, output: 2 } }),
      e("step.skipped", { stepPath: "if/no", data: { reason: "branch" } }),
    ])
      j.apply(ev);
    expect(shape(j)).toEqual(["each running", "if pending", "  no skipped"]);
    expect(j.get("each")).toMatchObject({ count: 3, done: 2, failed: 1 });
    expect(shape(j, ["each@", "each@0#"])).toEqual(["each running", "  #1 completed", "    in completed", "    out completed", "  #3 failed", "if pending", "  no skipped"]);
    expect(topStep(j.get("each/in", "0")!)).toBe("each");
  });

  it("keeps the iteration of maps inside maps apart", () => {
    const e = writer();
    const j = new Journal({ steps: [step("m", { toolType: "map", steps: [step("n", { toolType: "map", steps: [step("x")] })] })] });
    j.apply(e("step.intent", { stepPath: "m/n/x", iteration: "1.4", attempt: 1 }));
    expect(shape(j, ["m@", "m@1#", "m/n@1", "m/n@1.4#"])).toEqual(["m pending", "  #2 running", "    n pending", "      #5 running", "        x running"].map((l) => (l.includes("#2") ? "  #2 pending" : l)));
  });

  it("waits, is answered, and ends everything that is open when the run ends", () => {
    const e = writer();
    const j = new Journal({ steps: [step("ask", { toolType: "approval" }), step("go")] });
    j.apply(e("run.started"));
    j.apply(e("approval.requested", { stepPath: "ask", data: { reason: "approval" } }));
    j.apply(e("run.waiting", { data: { reason: "approval" } }));
    expect(j.status).toBe("waiting");
    expect(j.get("ask")!.bars.at(-1)).toMatchObject({ kind: "wait", to: null });
    j.apply(e("approval.answered", { stepPath: "ask", data: { decision: "approve" } }));
    expect(j.get("ask")).toMatchObject({ status: "completed", output: { decision: "approve", data: null } });
    j.apply(e("run.resumed"));
    j.apply(e("step.intent", { stepPath: "go", attempt: 1 }));
    j.apply(e("run.finished", { data: { status: "cancelled" } }));
    expect(j.status).toBe("cancelled");
    expect(j.get("go")).toMatchObject({ status: "cancelled", bars: [{ state: "stopped", to: j.finishedAt }] });
  });

  it("ends a step by the answer to its question, as its policy says", () => {
    const ends = (reason: string, decision: string, more: object = {}, data: object = {}): string[] => {
      const e = writer();
      const j = new Journal({ steps: [step("s", more)] });
      j.apply(e("approval.requested", { stepPath: "s", data: { reason } }));
      j.apply(e("approval.answered", { stepPath: "s", data: { decision, ...data } }));
      const row = j.get("s")!;
      return [row.status, row.error?.kind ?? "", row.bars.at(-1)!.state];
    };
    expect(ends("approval", "decline")).toEqual(["failed", "denied", "failed"]);
    expect(ends("approval", "decline", { errorHandling: "skip" })).toEqual(["skipped", "denied", "failed"]);
    expect(ends("approval", "timeout")).toEqual(["failed", "timeout", "failed"]);
    expect(ends("timer", "timeout")).toEqual(["completed", "", "ok"]);
    expect(ends("unknown_outcome", "done", {}, { output: 1 })).toEqual(["completed", "", "ok"]);
    expect(ends("unknown_outcome", "fail")).toEqual(["failed", "internal", "failed"]);
    expect(ends("permission", "retry")).toEqual(["running", "", "ok"]);
    expect(ends("permission", "fail")).toEqual(["failed", "denied", "failed"]);
  });

  it("follows a thousand items", () => {
    const e = writer();
    const j = new Journal({ steps: [step("each", { toolType: "map", steps: [step("x")] })] });
    for (let i = 0; i < 1000; i++) {
      j.apply(e("step.intent", { stepPath: "each/x", iteration: String(i), attempt: 1 }));
      j.apply(e("step.outcome", { stepPath: "each/x", iteration: String(i), attempt: 1, data: { output: i } }));
      j.apply(e("map.item", { stepPath: "each", data: { index: i, output: i } }));
    }
    expect(j.visible(new Set(["each@"])).length).toBe(1001);
  });

  it("is made from results where the events are elsewhere", () => {
    const r = (stepId: string, over: Partial<StepResult> = {}): StepResult => ({ stepId, stepPath: stepId, toolName: stepId, toolType: "custom", status: "completed", success: true, executionTimeMs: 5, retriesUsed: 0, attempts: 1, ...over });
    const j = Journal.fromResults(
      execution({ status: "completed", stepResults: [r("a", { output: 1, startedAt: "2026-01-01T00:00:00Z", finishedAt: "2026-01-01T00:00:01Z" }), r("b", { status: "skipped", skipped: true, reason: "condition", attempts: 0 }), r("x", { stepPath: "m/x", iteration: "0" })] }),
      { steps: [step("a"), step("b"), step("m", { toolType: "map", steps: [step("x")] })] },
    );
    expect(shape(j)).toEqual(["a completed", "b skipped", "m pending"]);
    expect(j.get("a")!.bars).toHaveLength(1);
    expect(j.get("b")).toMatchObject({ reason: "condition", bars: [] });
    expect(j.get("m")!.children[0]).toMatchObject({ kind: "item", status: "completed" });
  });
});

describe("the states of steps", () => {
  it("say over all iterations what needs attention first", () => {
    const e = writer();
    const j = new Journal({ steps: [step("each", { toolType: "map", toolName: "", steps: [step("in")] }), step("after")] });
    const at = (iteration: string) => ({ stepPath: "each/in", iteration, attempt: 1 });
    for (const ev of [e("run.started"), e("step.intent", { stepPath: "each", attempt: 1, data: { count: 2 } }), e("step.intent", at("0")), e("step.outcome", { ...at("0"), data: { error: { kind: "internal", message: "no" } } }), e("step.intent", at("1"))]) j.apply(ev);
    expect(Object.fromEntries(j.states())).toEqual({ each: "running", "each/in": "running", after: "pending" });
    j.apply(e("step.outcome", { ...at("1"), data: { output: 1 } }));
    expect(j.states().get("each/in")).toBe("failed");
  });
});

describe("the scale", () => {
  it("is even where there is work, and short where nothing happens", () => {
    const s = makeScale([[0, 100], [3_600_000, 3_600_100]], 0, 3_600_100);
    expect(s.breaks).toHaveLength(1);
    expect(s.breaks[0]!.ms).toBe(3_599_900);
    expect(s.x(0)).toBe(0);
    expect(s.x(3_600_100)).toBe(1);
    const first = s.x(100) - s.x(0);
    const second = s.x(3_600_100) - s.x(3_600_000);
    expect(first).toBeCloseTo(second, 5);
    expect(first).toBeGreaterThan(0.15);
    for (let t = 0, last = -1; t <= 3_600_100; t += 10_000) {
      expect(s.x(t)).toBeGreaterThanOrEqual(last);
      last = s.x(t);
    }
  });

  it("leaves short pauses as they are", () => {
    const s = makeScale([[0, 500], [600, 1000]], 0, 1000);
    expect(s.breaks).toEqual([]);
    expect(s.x(550)).toBeCloseTo(0.55, 5);
    expect(makeScale([], 5, 5).x(5)).toBe(0);
  });
});
