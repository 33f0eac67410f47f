import { expect, it, vi } from "vitest";
import { fakeRpc } from "../../lib/rpc/fake";
import { Isolation } from "./isolation.svelte";

it("what is missing around modules is said in a few words", async () => {
  const rpc = fakeRpc({ "sandbox.status": () => ({ reasons: ["bwrap_missing"] }) as never });
  const s = new Isolation();
  expect(s.missing).toBe("");
  s.start(rpc);
  await vi.waitFor(() => expect(s.missing).toBe("Modules run without bubblewrap"));
  rpc.emit("sandbox.status_changed", { status: { reasons: ["landlock_unavailable", "bwrap_blocked"] } as never });
  expect(s.missing).toBe("Modules run without Landlock and bubblewrap");
  rpc.emit("sandbox.status_changed", { status: { reasons: ["worker_unavailable"] } as never });
  expect(s.missing).toBe("Third-party modules don't run");
  rpc.emit("sandbox.status_changed", { status: { reasons: [] } as never });
  expect(s.missing).toBe("");
});
