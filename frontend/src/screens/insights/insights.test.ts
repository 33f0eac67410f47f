import { describe, expect, it, vi } from "vitest";
import { fakeRpc } from "../../lib/rpc/fake";
import { addressOf, evidenceAddress, placeOf } from "./address";
import { countsOnly, expected, InsightsScreen, percent, stagesOf, plainText, termsOf, toneOf } from "./insights.svelte";

const job = (over: object = {}) => ({ jobId: "j1", synthesisType: "full_synthesis", status: "running", progress: 0.1, stage: "load", insights: { texts: 40, patterns: 3, created: 3, updated: 0, unchanged: 0 }, engine: "local", createdAt: "2026-05-04T09:00:00Z", ...over });
const pattern = (over: object = {}) => ({ id: "p1", type: "goal", patternType: "prospective_goal", layer: 4, description: "You wrote of a plan: *run*", evidence: ["m1"], confidence: 0.85, confidenceParts: {}, salience: 0.5, subjects: [], recommendations: [], status: "active", engine: "local", fingerprint: "f", ...over });

function setup() {
  const said: string[] = [];
  let undo: (() => unknown) | null = null;
  let jobs = [] as object[];
  let next = "j1";
  let onStart = () => {};
  const rpc = fakeRpc({
    "memory.list_patterns": () => ({ patterns: [pattern()], total: 1, limit: 50, offset: 0 }),
    "memory.get_pattern": () => pattern(),
    "memory.list_recommendations": () => ({ recommendations: [{ id: "r1", patternId: "p1", status: "pending" }, { id: "r2", patternId: "p2", status: "pending" }], total: 2 }),
    "memory.synthesis_history": () => ({ jobs, total: jobs.length }),
    "memory.synthesize": () => (onStart(), (jobs = [job({ jobId: next })]), { jobId: next, status: "running", cost: 0 }),
    "memory.synthesis_cancel": () => job({ status: "cancelled" }),
    "memory.pattern_feedback": (p: { verdict: string }) => ({ pattern: pattern({ status: p.verdict === "reject" ? "rejected" : "active" }), undoToken: "pattern-x" }),
    "memory.undo": () => ({ count: 1 }),
  } as never);
  const screen = new InsightsScreen(rpc, {
    ok: (title: string) => said.push(title),
    add: (t: { title: string }) => said.push(t.title),
    error: (_e: unknown, title = "") => said.push(title),
    undo: (title: string, restore: () => unknown) => {
      said.push(title);
      undo = restore;
    },
  } as never);
  screen.start();
  return { rpc, screen, said, takeBack: () => undo?.(), end: () => (jobs = []), begin: (id: string, during = () => {}) => ((next = id), (onStart = during)) };
}

describe("insights", () => {
  it("follows a job from start to end", async () => {
    const s = setup();
    await s.screen.run("full_synthesis");
    await vi.waitFor(() => expect(s.screen.job?.jobId).toBe("j1"));
    expect(s.rpc.sent("memory.synthesize" as never)).toEqual([{ synthesisType: "full_synthesis", limit: 10_000, waitMs: 0 }]);
    s.rpc.emit("memory.synthesis_progress", { jobId: "j1", stage: "semantic", progress: 0.5 } as never);
    expect(s.screen.jobs.all[0]).toMatchObject({ id: "j1", progress: 0.5, step: "topics" });
    s.end();
    s.rpc.emit("memory.synthesis_done", job({ status: "completed", progress: 1 }) as never);
    expect(s.screen.job).toBeNull();
    expect(s.screen.jobs.all).toEqual([]);
    expect(s.said).toEqual(["3 new patterns"]);
  });

  it("says what became of a canceled and of a failed job", async () => {
    const s = setup();
    for (const [status, text] of [["cancelled", "Earlier patterns are unchanged"], ["failed", "Couldn't find patterns"]] as const) {
      s.begin(status);
      await s.screen.run("full_synthesis");
      await vi.waitFor(() => expect(s.screen.job).not.toBeNull());
      s.end();
      s.rpc.emit("memory.synthesis_done", job({ jobId: status, status }) as never);
      expect(s.said.at(-1)).toContain(text);
    }
  });

  it("announces a job that ended before its start was answered", async () => {
    const s = setup();
    s.begin("short", () => s.rpc.emit("memory.synthesis_done", job({ jobId: "short", status: "completed", progress: 1 }) as never));
    await s.screen.run("full_synthesis");
    expect(s.said).toEqual(["3 new patterns"]);
    expect(s.screen.job, "the list still has it as running").toBeNull();
  });

  it("rejects with Undo", async () => {
    const s = setup();
    await s.screen.answer(pattern() as never, "reject");
    expect(s.said).toEqual(["Rejected"]);
    await s.takeBack();
    expect(s.rpc.sent("memory.undo" as never)).toEqual([{ undoToken: "pattern-x" }]);
  });

  it("shows only the recommendations of the selected pattern", async () => {
    const s = setup();
    s.screen.show("patterns", "p1");
    await vi.waitFor(() => expect(s.screen.advice.data?.map((r) => r.id)).toEqual(["r1"]));
    expect(s.screen.pattern.data?.id).toBe("p1");
  });
});

describe("small parts", () => {
  it("expects the time that a text has taken before, of the same analysis where there is one", () => {
    const ran = (synthesisType: string, texts: number, seconds: number, over = {}) => job({ synthesisType, status: "completed", startedAt: "2026-05-04T09:00:00Z", completedAt: new Date(Date.UTC(2026, 4, 4, 9, 0, seconds)).toISOString(), insights: { texts, patterns: 1, created: 1, updated: 0, unchanged: 0 }, ...over }) as never;
    const jobs = [ran("full_synthesis", 100, 10), ran("full_synthesis", 100, 20), ran("full_synthesis", 100, 12), ran("prospective_self", 100, 1), ran("prospective_self", 100, 50, { engine: "llm" }), ran("relational_memory", 100, 90, { status: "failed" })];
    expect(expected(jobs, "full_synthesis", 1000)).toBe(120_000);
    expect(expected(jobs, "prospective_self", 1000)).toBe(10_000);
    expect(expected(jobs, "relational_memory", 1000)).toBe(120_000);
    expect(expected([], "full_synthesis", 1000)).toBeNull();
    expect(expected(jobs, "full_synthesis", 0)).toBeNull();
  });

  it("knows the stages of both engines", () => {
    expect(stagesOf({ engine: "local", stage: "semantic" })).toMatchObject({ at: 3 });
    expect(stagesOf({ engine: "llm", stage: "model" })).toEqual({ names: ["load", "model", "write"], at: 1 });
    expect(stagesOf({ engine: "local" } as never).at).toBe(0);
  });

  it("tells numbers of texts from moods", () => {
    expect(countsOnly([{ value: 3 }, { value: 0 }])).toBe(true);
    expect(countsOnly([{ value: 1 }, { value: -1 }])).toBe(false);
    expect(countsOnly([{ value: 0.25 }])).toBe(false);
  });

  it("reads addresses", () => {
    expect(placeOf([])).toBe("patterns");
    expect(placeOf(["map"])).toBe("map");
    expect(placeOf(["018f"])).toBe("patterns");
    expect(addressOf("patterns")).toBe("insights");
    expect(addressOf("analyses")).toBe("insights/analyses");
    expect(evidenceAddress({ id: "m", kind: "memory" })).toBe("memory/list/memory/m");
    expect(evidenceAddress({ id: "t", kind: "turn", parentId: "c" })).toBe("memory/list/turn/t/c");
    expect(evidenceAddress({ id: "x", kind: "conversation" })).toBe("");
  });

  it("shows confidence in words and levels", () => {
    expect([percent(0.853), toneOf(0.81), toneOf(0.8), toneOf(0.6)]).toEqual([85, "ok", "warn", "danger"]);
    expect(termsOf("about *a, b* and *c*")).toEqual(["about ", "a, b", " and ", "c", ""]);
    expect(plainText("about *a*")).toBe("about a");
  });
});
