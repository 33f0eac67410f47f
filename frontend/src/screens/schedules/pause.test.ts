import { expect, it, vi } from "vitest";
import { fakeRpc } from "../../lib/rpc/fake";
import { Pause } from "./pause.svelte";

it("the pause of all schedules is read again when they change as a whole, and after a reconnect", async () => {
  const rpc = fakeRpc({ "schedules.status": (() => ({ pausedAll: false })) as never });
  const s = new Pause();
  s.start(rpc);
  await vi.waitFor(() => expect(rpc.sent("schedules.status")).toHaveLength(1));
  expect(s.active).toBe(false);
  rpc.handle({ "schedules.status": (() => ({ pausedAll: true, pausedUntil: "2100-01-01T12:00:00Z" })) as never });
  rpc.emit("schedules.changed", { scheduleId: "s1", change: "fired" });
  rpc.emit("schedules.changed", { change: "paused" });
  await vi.waitFor(() => expect(s.until).toBe("2100-01-01T12:00:00Z"));
  expect(s.end).toContain("2100");
  expect(rpc.sent("schedules.status")).toHaveLength(2);
  rpc.handle({ "schedules.status": (() => ({ pausedAll: true })) as never });
  rpc.reload();
  await vi.waitFor(() => expect([s.active, s.end]).toEqual([true, ""]));
  rpc.handle({ "schedules.status": (() => ({ pausedAll: false })) as never });
  rpc.reload();
  await vi.waitFor(() => expect(s.active).toBe(false));
  s.stop();
});
