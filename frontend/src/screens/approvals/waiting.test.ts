import { expect, it, vi } from "vitest";
import { fakeRpc } from "../../lib/rpc/fake";
import { Waiting } from "./waiting.svelte";

it("the number of waiting requests is read, and follows events", async () => {
  const rpc = fakeRpc({ "approvals.list": () => ({ approvals: [], total: 0, pendingCount: 3 }) as never });
  const s = new Waiting();
  s.start(rpc);
  await vi.waitFor(() => expect(s.count).toBe(3));
  rpc.emit("approvals.changed", { id: "1", status: "pending", pendingCount: 4 });
  expect(s.count).toBe(4);
});
