import { describe, expect, it, vi } from "vitest";
import { fakeRpc } from "../../lib/rpc/fake";
import { SkillJobs } from "./jobs.svelte";

describe("jobs of skills", () => {
  it("are runs of skills, also those that began before", async () => {
    const run = { executionId: "r1", skillName: "Digest", mode: "live", status: "waiting", waitReason: "approval", createdAt: "2026-01-01T00:00:00Z" };
    const rpc = fakeRpc({
      "skills.history": ((p: { status: string }) => ({ executions: p.status === "waiting" ? [run, { ...run, executionId: "r0", parentExecutionId: "r1" }] : [], bytes: 0 })) as never,
      "skills.cancel": () => ({ canceled: true }) as never,
    });
    const s = new SkillJobs();
    s.start(rpc);
    await vi.waitFor(() => expect(s.all).toMatchObject([{ id: "r1", title: "Running Digest…", step: "waiting for your approval", target: "skills/run/r1", since: Date.parse(run.createdAt) }]));
    const event = (type: string, executionId: string, data: object = {}): void => rpc.emit("skills.run_event", { executionId, seq: 1, type, at: "2026-01-01T00:00:01Z", data });
    event("run.resumed", "r1");
    expect(s.all[0]).toMatchObject({ step: "", title: "Running Digest…" });
    event("run.created", "r2", { skill: "Inner", trigger: "skill" });
    event("run.waiting", "r2", { reason: "timer" });
    expect(s.all).toHaveLength(1);
    event("run.created", "r3", { skill: "Other", trigger: "schedule" });
    expect(s.all).toHaveLength(2);
    s.all[1]?.cancel?.();
    expect(rpc.sent("skills.cancel")).toEqual([{ executionId: "r3" }]);
    event("run.finished", "r1");
    event("run.finished", "r3");
    expect(s.all).toEqual([]);
  });
});
