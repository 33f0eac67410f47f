import { describe, expect, it } from "vitest";
import { RpcError } from "../../../lib/rpc/errors";
import { RunFeed } from "./feed.svelte";
import { execution, fake, step, until, writer } from "./fixtures";
import type { Execution, RunEvent } from "./types";

/** A backend with a journal that grows by itself; events can be lost on their way. */
function backend(over: Partial<Execution> = {}) {
  const e = writer();
  const journal: RunEvent[] = [];
  let run = execution(over);
  const rpc = fake({
    "skills.get_execution": () => ({ ...run, lastSeq: journal.length }),
    "skills.events": (p: { afterSeq: number; limit: number }) => ({ events: journal.filter((x) => x.seq > p.afterSeq).slice(0, p.limit), lastSeq: journal.length }),
    "skills.cancel": () => ({ status: "cancelled", canceled: true }),
    "skills.answer": () => ({ ...run, lastSeq: journal.length }),
  });
  return {
    rpc,
    set: (more: Partial<Execution>) => (run = { ...run, ...more }),
    /** Writes an event; `lost` is not told. */
    write(type: string, more: Partial<RunEvent> & { lost?: boolean } = {}) {
      const { lost, ...rest } = more;
      const ev = e(type, rest);
      journal.push(ev);
      if (!lost) rpc.emit("skills.run_event", ev);
      return ev;
    },
  };
}
const open = async (b: ReturnType<typeof backend>): Promise<RunFeed> => {
  const feed = new RunFeed(b.rpc as never, "e1");
  await feed.open();
  feed.flush();
  return feed;
};

describe("a run that is watched", () => {
  it("reads what happened before, then follows", async () => {
    const b = backend();
    b.write("run.created");
    b.write("run.started");
    const feed = await open(b);
    expect(feed.lastSeq).toBe(2);
    expect(feed.rows.map((r) => r.stepId)).toEqual(["fetch", "sum"]);
    b.write("step.intent", { stepPath: "fetch", attempt: 1, data: { input: 1 } });
    feed.flush();
    expect(feed.rows[0]!.status).toBe("running");
    expect(b.rpc.sent("skills.events")).toHaveLength(1);
    feed.close();
  });

  it("reads what was lost, and applies nothing twice", async () => {
    const b = backend();
    b.write("run.started");
    const feed = await open(b);
    b.write("step.intent", { stepPath: "fetch", attempt: 1, lost: true });
    b.write("step.outcome", { stepPath: "fetch", attempt: 1, data: { output: 1 }, lost: true });
    const told = b.write("step.intent", { stepPath: "sum", attempt: 1 });
    await until(() => feed.lastSeq === 4);
    b.rpc.emit("skills.run_event", told);
    feed.flush();
    expect(feed.rows.map((r) => [r.status, r.bars.length])).toEqual([
      ["completed", 1],
      ["running", 1],
    ]);
    // After a lost connection everything that came meanwhile is read.
    b.write("step.outcome", { stepPath: "sum", attempt: 1, data: { output: 2 }, lost: true });
    b.write("run.finished", { data: { status: "completed" }, lost: true });
    b.set({ status: "completed", finalOutput: 2 });
    b.rpc.reload();
    await until(() => feed.lastSeq === 6);
    feed.flush();
    expect(feed.over).toBe(true);
    expect(feed.run.data?.finalOutput).toBe(2);
    feed.close();
  });

  it("reads long journals page by page", async () => {
    const b = backend({ skill: { steps: [step("each", { toolType: "map", steps: [step("x")] })] } });
    b.write("run.started");
    for (let i = 0; i < 1200; i++) b.write("step.outcome", { stepPath: "each/x", iteration: String(i), attempt: 1, data: { output: i } });
    const feed = await open(b);
    expect(feed.lastSeq).toBe(1201);
    expect(b.rpc.sent("skills.events").map((p) => p.afterSeq)).toEqual([0, 1000]);
    expect(feed.rows).toHaveLength(1);
    feed.toggle("each@");
    expect(feed.rows).toHaveLength(1201);
    feed.close();
  });

  it("shows results where the events are not on this device", async () => {
    const b = backend({ status: "completed", stepResults: [{ stepId: "fetch", stepPath: "fetch", toolName: "", toolType: "custom", status: "completed", success: true, executionTimeMs: 3, retriesUsed: 0, attempts: 1 }] });
    b.rpc.handle({ "skills.get_execution": () => ({ ...execution({ status: "completed" }), stepResults: [{ stepId: "fetch", stepPath: "fetch", status: "completed", success: true, executionTimeMs: 3, attempts: 1 }], lastSeq: 9 }), "skills.events": () => ({ events: [], lastSeq: 9 }) });
    const feed = await open(b);
    expect(feed.coarse).toBe(true);
    expect(feed.rows.map((r) => r.status)).toEqual(["completed", "pending"]);
    expect(feed.over).toBe(true);
    feed.close();
  });

  it("answers, is refused, and cancels", async () => {
    const b = backend({ status: "waiting", waitReason: "approval", waits: [{ stepPath: "sum", request: { reason: "approval", title: "Send?" }, askedAt: "2026-01-01T00:00:00Z" }] });
    b.write("run.started");
    b.write("approval.requested", { stepPath: "sum", data: { reason: "approval" } });
    const feed = await open(b);
    const wait = feed.waits[0]!;
    expect(await feed.answer(wait, "approve", { data: { ok: true } })).toBe(true);
    expect(b.rpc.sent("skills.answer")[0]).toEqual({ executionId: "e1", stepPath: "sum", decision: "approve", data: { ok: true } });
    b.rpc.failNext("skills.answer", new RpcError({ kind: "conflict", message: "It was answered already." }));
    expect(await feed.answer(wait, "decline")).toBe(false);
    expect(feed.error?.message).toBe("It was answered already.");
    await feed.cancel();
    expect(b.rpc.sent("skills.cancel")).toEqual([{ executionId: "e1" }]);
    expect(feed.canceling).toBe(false);
    feed.close();
  });

  it("shows what a skill inside it asks", async () => {
    const b = backend();
    b.write("run.started");
    const feed = await open(b);
    b.set({ waits: [{ stepPath: "sum/ask", request: { reason: "approval" }, askedAt: "2026-01-01T00:00:00Z" }] });
    b.rpc.emit("skills.run_event", { ...writer("inner")("approval.requested", { stepPath: "ask" }) });
    await until(() => feed.waits.length === 1);
    expect(feed.waits[0]!.stepPath).toBe("sum/ask");
    feed.close();
  });

  it("says why a run cannot be read", async () => {
    const b = backend();
    b.rpc.failNext("skills.get_execution", new RpcError({ kind: "not_found", message: "No such run." }));
    const feed = await open(b);
    expect(feed.run.error?.message).toBe("No such run.");
    b.write("run.started");
    await feed.refresh();
    expect(feed.lastSeq).toBe(1);
    feed.close();
  });

  it("shows a dry run from its answer", () => {
    const feed = RunFeed.ofResult({ ...execution({ status: "completed" }), stepResults: [{ stepId: "fetch", stepPath: "fetch", toolName: "fetch", toolType: "custom", status: "completed", success: true, source: "mock", wouldDo: { tier: "sideEffecting", rights: ["state"], input: { a: 1 } }, executionTimeMs: 0, retriesUsed: 0, attempts: 1 }] });
    expect(feed.over).toBe(true);
    expect(feed.rows[0]).toMatchObject({ source: "mock", input: { a: 1 }, tier: "sideEffecting" });
  });
});
