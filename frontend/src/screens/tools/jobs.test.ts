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
