import { expect, it, vi } from "vitest";
import { fakeRpc } from "../../lib/rpc/fake";
import { ToolJobs } from "./jobs.svelte";

it("jobs of tools are runs, from their start to their end", () => {
  vi.useFakeTimers({ now: 1000 });
  const rpc = fakeRpc();
  const s = new ToolJobs();
  s.start(rpc);
  rpc.emit("tools.execution", { executionId: "e1", toolId: "t1", seq: 1, state: "running" });
  vi.setSystemTime(5000);
  rpc.emit("tools.execution", { executionId: "e1", toolId: "t1", seq: 2, state: "waiting" });
  expect(s.all).toMatchObject([{ target: "tools/t1", step: "waiting for an approval", since: 1000 }]);
  rpc.emit("tools.execution", { executionId: "e1", toolId: "t1", seq: 3, state: "success" });
  expect(s.all).toEqual([]);
  vi.useRealTimers();
});

it("jobs of WASM tools are runs too, each with its own way to cancel", () => {
  const rpc = fakeRpc({ "skills.cancel": () => ({ canceled: true }) as never });
  const s = new ToolJobs();
  s.start(rpc);
  rpc.emit("skills.execution_changed", { executionId: "e2", skillId: "s1", seq: 1, status: "running", waiting: "queued" } as never);
  expect(s.all).toMatchObject([{ target: "tools/wasm/s1/run", step: "queued" }]);
  s.all[0]?.cancel?.();
  expect(rpc.sent("skills.cancel")).toEqual([{ executionId: "e2" }]);
  rpc.emit("skills.execution_changed", { executionId: "e2", skillId: "s1", seq: 2, status: "canceled" } as never);
  expect(s.all).toEqual([]);
});
