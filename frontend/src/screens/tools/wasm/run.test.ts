import { describe, expect, it } from "vitest";
import { RpcError } from "../../../lib/rpc/errors";
import { describeFailure } from "../../../lib/run/failures";
import { ToolRun, type RunTarget } from "../run.svelte";
import { fake, module, result, until } from "./fixtures";
import { limitsOf, type ModuleResult } from "./module";

const target: RunTarget = { toolId: "s1", isModule: true, name: "Word count", limits: limitsOf(module()) };

function setup() {
  let done: ((r: ModuleResult) => void) | null = null;
  const rpc = fake({
    "skills.execute": () => new Promise<ModuleResult>((r) => (done = r)),
    "skills.cancel": () => ({ canceled: true }),
  });
  // The call reaches the backend a moment after it was made.
  const end = async (r: ModuleResult): Promise<void> => {
    await until(() => done !== null);
    done?.(r);
    done = null;
  };
  return { rpc, run: new ToolRun(rpc as never), end };
}
const changed = (over: object = {}) => ({ executionId: "e1", skillId: "s1", status: "running", seq: 1, ...over });

describe("a run of a module", () => {
  it("shows lines while it runs, and ends with what the answer holds", async () => {
    const { rpc, run, end } = setup();
    const going = run.start(target, { text: "a b" });
    expect(run.active).toBe(true);
    expect(rpc.sent("skills.execute")[0]).toEqual({ skillId: "s1", input: { text: "a b" }, interactive: true });
    rpc.emit("skills.execution_changed", changed({ log: { level: "info", message: "one", at: "" } }));
    rpc.emit("skills.execution_changed", changed({ log: { level: "info", message: "again", at: "" } }));
    rpc.emit("skills.execution_changed", changed({ executionId: "other", seq: 9, log: { level: "info", message: "not mine", at: "" } }));
    rpc.emit("skills.execution_changed", changed({ skillId: "s2", seq: 9, log: { level: "info", message: "not mine", at: "" } }));
    expect(run.logs.map((l) => l.message)).toEqual(["one"]);
    await end(result({ logs: [{ level: "info", message: "one", at: "" }, { level: "warn", message: "two", at: "" }] as never }));
    await going;
    expect(run.phase).toBe("done");
    expect(run.logs).toHaveLength(2);
    expect(run.result?.output).toEqual({ words: 4 });
    expect(run.failure).toBeNull();
    expect(run.limits.memoryMb).toBe(128);
  });

  it("sends any JSON, also what is false", async () => {
    const { rpc, run, end } = setup();
    for (const input of [0, false, null, "", []]) {
      const going = run.start(target, input);
      await end(result());
      await going;
      expect(rpc.sent("skills.execute").at(-1)).toMatchObject({ input });
    }
  });

  it("waits for a person and for a place", async () => {
    const { rpc, run, end } = setup();
    const going = run.start(target, {});
    rpc.emit("skills.execution_changed", changed({ waiting: "queued" }));
    expect(run.phase).toBe("queued");
    rpc.emit("skills.execution_changed", changed({ seq: 2, waiting: "approval" }));
    expect(run.phase).toBe("waiting");
    run.waitFor("a1");
    rpc.emit("skills.execution_changed", changed({ seq: 3 }));
    expect(run.phase).toBe("running");
    await end(result());
    await going;
  });

  it("is canceled by its id, and by giving up where it has none", async () => {
    const { rpc, run, end } = setup();
    let going = run.start(target, {});
    rpc.emit("skills.execution_changed", changed());
    await run.cancel();
    expect(rpc.sent("skills.cancel")).toEqual([{ executionId: "e1" }]);
    await end(result({ success: false, status: "canceled", errorClass: "canceled" }));
    await going;
    expect(run.failure?.title).toBe("Canceled");
    expect(run.failure?.calm).toBe(true);
    rpc.handle({ "skills.cancel": () => ({ canceled: false }) });
    going = run.start(target, {});
    await run.cancel();
    await going;
    expect(run.active).toBe(false);
  });

  it("does not start twice", async () => {
    const { rpc, run, end } = setup();
    const going = run.start(target, {});
    expect(await run.start(target, {})).toBeNull();
    await end(result());
    await going;
    expect(rpc.sent("skills.execute")).toHaveLength(1);
  });

  it("says why nothing ran", async () => {
    const { rpc, run } = setup();
    rpc.failNext("skills.execute", new RpcError({ kind: "denied", message: "It is disabled.", details: { reason: "disabled" } }));
    await run.start(target, {});
    expect(run.failure?.action).toBe("enable");
    rpc.failNext("skills.execute", new RpcError({ kind: "denied", message: "Not yet.", details: { pendingApprovalId: "a1" } }));
    await run.start(target, {});
    expect(run.pendingApprovalId).toBe("a1");
    expect(run.failure?.action).toBe("approvals");
    expect(run.result).toBeNull();
  });

  it("counts its time, but not while a person is asked", async () => {
    let now = 0;
    const rpc = fake({ "skills.execute": () => new Promise(() => {}) });
    const run = new ToolRun(rpc as never, () => now);
    void run.start(target, {});
    now = 500;
    await until(() => run.elapsedMs === 500);
    rpc.emit("skills.execution_changed", changed({ waiting: "approval" }));
    now = 9000;
    await new Promise((r) => setTimeout(r, 150));
    rpc.emit("skills.execution_changed", changed({ seq: 2 }));
    now = 9100;
    await until(() => run.elapsedMs === 600);
  });
});

describe("the limits before the first run", () => {
  it("are those of the module, and never more processor time than 5 s", () => {
    expect(limitsOf(module({ timeoutMs: 60_000, memoryMb: 64 }))).toMatchObject({ wallMs: 60_000, cpuMs: 5000, memoryMb: 64 });
    expect(limitsOf(module({ timeoutMs: 300 })).cpuMs).toBe(300);
  });
});

describe("failure texts of modules", () => {
  const limits = { wallMs: 5000, cpuMs: 5000, memoryMb: 128, outputBytes: 1_048_576 };
  const of = { module: true, limits };
  it("name the limit, what was reached and the control", () => {
    const t = describeFailure("timeout", "", { ...of, executionTimeMs: 5003 });
    expect(t.text).toBe("Time limit reached: 5.0 s of 5.0 s.");
    expect(t.action).toBe("timeout");
    expect(t.hint).toContain("Raise the time limit");
    expect(describeFailure("timeout", "", { module: true, limits: { ...limits, wallMs: 60_000 } }).hint).toContain("longest");
    const m = describeFailure("memory", "", { ...of, memoryUsedMb: 128 });
    expect(m.text).toBe("Memory limit reached: 128 MB of 128 MB.");
    expect(m.action).toBe("memory");
    expect(describeFailure("memory", "", { module: true, limits: { ...limits, memoryMb: 256 } }).hint).toContain("largest");
    expect(describeFailure("cpu", "", of).action).toBe("input");
    expect(describeFailure("cpu", "", { module: true, limits: { ...limits, cpuMs: 300 } }).action).toBe("timeout");
  });
  it("take an exit code from the details", () => {
    expect(describeFailure("trap", "exit 9: no such file", { ...of, details: { exitCode: 3 } })).toMatchObject({ title: "It ended with exit code 3", text: "exit 9: no such file" });
    expect(describeFailure("trap", "exit 9: no such file", of).title).toBe("The module crashed");
    expect(describeFailure("trap", "unreachable", of)).toMatchObject({ title: "The module crashed", text: "unreachable" });
  });
  it("know every class, and what they do not know is still told", () => {
    for (const c of ["compile", "missing_export", "thrown", "trap", "timeout", "cpu", "memory", "output", "input", "host_denied", "canceled", "unavailable", "denied", "limit", "not_found", "invalid"]) {
      const f = describeFailure(c, "x", of);
      expect(f.title, c).not.toBe("The run failed");
      expect(f.hint, c).not.toBe("");
    }
    expect(describeFailure("else", "strange", of)).toMatchObject({ title: "The run failed", text: "strange" });
    for (const reason of ["limit", "address", "path", "capability"]) expect(describeFailure("host_denied", "x", { ...of, details: { reason } }).title).not.toBe("");
  });
});
