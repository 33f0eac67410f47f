import { describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { limitsFor } from "./profiles";
import { NO_TOOL, ToolRun } from "./run.svelte";
import { fake, result, until } from "./fixtures";
import type { RunResult } from "./types";

const target = { toolId: "t1", name: "Text Counter", profile: "strict", limits: limitsFor("strict") };
const draft = { name: "Draft", profile: "standard", limits: limitsFor("standard"), draft: { code: "1", language: "typescript" as const, parameters: {}, capabilities: [], sandboxProfile: "standard" as const } };
const log = (message: string) => ({ at: "", level: "info", message });

function setup() {
  let done: (r: RunResult) => void = () => {};
  const rpc = fake({
    "tools.execute_custom": () => new Promise<RunResult>((resolve) => (done = resolve)),
    "tools.cancel": () => ({ canceled: true }),
  });
  return { rpc, run: new ToolRun(rpc), finish: (r: Partial<RunResult> = {}) => done(result(r)) };
}

describe("a run", () => {
  it("sends a stored tool by id only, and waits for a person", async () => {
    const { rpc, run, finish } = setup();
    const p = run.start(target, { a: 1 });
    await until(() => rpc.calls.length === 1);
    expect(rpc.sent("tools.execute_custom")).toEqual([{ toolId: "t1", params: { a: 1 }, interactive: true }]);
    expect(run.phase).toBe("running");
    finish({ output: { words: 2 } });
    await p;
    expect(run.phase).toBe("done");
    expect(run.result?.output).toEqual({ words: 2 });
    expect(run.failure).toBeNull();
  });

  it("sends a draft with its text and no id", async () => {
    const { rpc, run, finish } = setup();
    const p = run.start(draft, {});
    await until(() => rpc.calls.length === 1);
    expect(rpc.sent("tools.execute_custom")[0]).toMatchObject({ code: "1", language: "typescript", draft: { sandboxProfile: "standard" } });
    expect(rpc.sent("tools.execute_custom")[0]).not.toHaveProperty("toolId");
    expect(run.isDraft).toBe(true);
    rpc.emit("tools.execution", { executionId: "d1", toolId: NO_TOOL, seq: 1, state: "running" });
    expect(run.executionId).toBe("d1");
    finish({ executionId: "d1" });
    await p;
  });

  it("shows its own log lines as they come, in order and once", async () => {
    const { rpc, run, finish } = setup();
    const p = run.start(target, {});
    await until(() => rpc.calls.length === 1);
    rpc.emit("tools.execution", { executionId: "other", toolId: "t2", seq: 1, state: "running" });
    rpc.emit("tools.execution", { executionId: "x1", toolId: "t1", seq: 1, state: "running" });
    rpc.emit("tools.execution", { executionId: "x1", toolId: "t1", seq: 2, state: "running", log: log("one") });
    rpc.emit("tools.execution", { executionId: "x1", toolId: "t1", seq: 2, state: "running", log: log("one") });
    rpc.emit("tools.execution", { executionId: "x2", toolId: "t1", seq: 3, state: "running", log: log("not mine") });
    expect(run.logs.map((l) => l.message)).toEqual(["one"]);
    finish({ logs: [log("one"), log("two")] });
    await p;
    expect(run.logs.map((l) => l.message)).toEqual(["one", "two"]);
  });

  it("says that it waits and that it goes on", async () => {
    const { rpc, run, finish } = setup();
    const p = run.start(target, {});
    await until(() => rpc.calls.length === 1);
    rpc.emit("tools.execution", { executionId: "x1", toolId: "t1", seq: 1, state: "waiting" });
    expect(run.phase).toBe("waiting");
    rpc.emit("tools.execution", { executionId: "x1", toolId: "t1", seq: 2, state: "running" });
    expect(run.phase).toBe("running");
    finish();
    await p;
  });

  it("cancels by its id, and by the call before it has one", async () => {
    const { rpc, run, finish } = setup();
    const p = run.start(target, {});
    await until(() => rpc.calls.length === 1);
    rpc.emit("tools.execution", { executionId: "x1", toolId: "t1", seq: 1, state: "running" });
    await run.cancel();
    expect(rpc.sent("tools.cancel")).toEqual([{ executionId: "x1" }]);
    finish({ success: false, errorClass: "canceled", output: null });
    await p;
    expect(run.failure?.title).toBe("Canceled");

    const again = run.start(target, {});
    await until(() => rpc.sent("tools.execute_custom").length === 2);
    await run.cancel();
    expect(rpc.calls.at(-1)?.options.signal?.aborted).toBe(true);
    finish();
    await again;
    expect(run.refusal?.kind).toBe("canceled");
    expect(run.phase).toBe("done");
  });

  it("says in words why it failed, with the limits of the profile", async () => {
    const { run, finish, rpc } = setup();
    const p = run.start(target, {});
    await until(() => rpc.calls.length === 1);
    finish({ success: false, output: null, errorClass: "memory", memoryUsedMb: 64, error: "" });
    await p;
    expect(run.failure?.text).toContain("64 MB of 64 MB");
    expect(run.failure?.hint).toContain("Standard");
  });

  it("keeps the approval that a refused run left behind", async () => {
    const { run, rpc } = setup();
    rpc.failNext("tools.execute_custom", new RpcError({ message: "not allowed", kind: "denied", details: { pendingApprovalId: "p1" } }));
    await run.start(target, {});
    expect(run.pendingApprovalId).toBe("p1");
    expect(run.failure).toMatchObject({ title: "The run needs your answer", action: "approvals" });
    const again = setup();
    const p = again.run.start(target, {});
    await until(() => again.rpc.calls.length === 1);
    again.finish({ success: false, output: null, errorClass: "host_denied", pendingApprovalId: "p2" });
    await p;
    expect(again.run.pendingApprovalId).toBe("p2");
  });

  it("does not start twice", async () => {
    const { run, rpc, finish } = setup();
    const p = run.start(target, {});
    expect(await run.start(target, {})).toBeNull();
    await until(() => rpc.calls.length === 1);
    finish();
    await p;
    expect(rpc.sent("tools.execute_custom")).toHaveLength(1);
  });

  it("follows a run that an answer started again", async () => {
    const { run, rpc, finish } = setup();
    const p = run.start(target, { a: 1 });
    await until(() => rpc.calls.length === 1);
    finish({ success: false, output: null, errorClass: "host_denied", pendingApprovalId: "p1" });
    await p;
    let ended = false;
    rpc.handle({
      "tools.usage": () => ({
        entries: ended ? [{ id: "x9", status: "success", output: 7, executionTimeMs: 5, cpuTimeMs: 1, memoryUsedMb: 1 }] : [],
        summary: {},
      }),
    });
    const f = run.follow("x9");
    expect(run.phase).toBe("running");
    await f;
    expect(run.phase).toBe("running");
    ended = true;
    rpc.emit("tools.execution", { executionId: "x9", toolId: "t1", seq: 2, state: "success" });
    await until(() => run.phase === "done");
    expect(run.result?.output).toBe(7);
    expect(run.params).toEqual({ a: 1 });
  });
});
