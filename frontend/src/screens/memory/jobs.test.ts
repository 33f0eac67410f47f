import { describe, expect, it, vi } from "vitest";
import { fakeRpc } from "../../lib/rpc/fake";
import { MemoryJobs } from "./jobs.svelte";

const job = { jobId: "i1", path: "/home/me/chats.zip", format: "chatgpt", status: "running", progress: 0.25, read: 1, added: 1, updated: 0, skipped: 0, failed: 0, errors: [] };

describe("jobs of memory", () => {
  it("are imports and semantic search, also those that began before", async () => {
    const rpc = fakeRpc({
      "memory.imports": (() => ({ jobs: [job, { ...job, jobId: "i0", status: "completed" }], total: 2 })) as never,
      "memory.embedding_status": (() => ({ ready: 62, queued: 38, stale: 0, paused: false, available: true })) as never,
      "memory.import_cancel": (() => job) as never,
    });
    const s = new MemoryJobs();
    s.start(rpc);
    await vi.waitFor(() =>
      expect(s.all).toMatchObject([
        { id: "i1", title: "Importing chats.zip…", progress: 0.25, target: "memory" },
        { title: "Semantic search", step: "62 %" },
      ]),
    );
    rpc.emit("memory.import_progress", { ...job, progress: 0.5 });
    expect(s.get("i1")?.progress).toBe(0.5);
    s.get("i1")?.cancel?.();
    expect(rpc.sent("memory.import_cancel")).toEqual([{ jobId: "i1" }]);
    rpc.emit("memory.import_done", { ...job, status: "cancelled" });
    rpc.emit("memory.embedding_progress", { ready: 100, queued: 0, ratePerSec: 0 });
    expect(s.all).toEqual([]);
    s.stop();
  });

  it("have no import that ended while the list of imports was read", async () => {
    let asked = 0;
    const s = new MemoryJobs();
    const rpc = fakeRpc({
      "memory.imports": (() => {
        const before = { jobs: asked++ === 0 ? [job] : [], total: 1 };
        if (asked === 1) rpc.emit("memory.import_done", { ...job, status: "completed" });
        return before;
      }) as never,
      "memory.embedding_status": (() => ({ ready: 1, queued: 0, stale: 0, paused: false, available: true })) as never,
    });
    s.start(rpc);
    await vi.waitFor(() => expect(asked).toBe(2));
    expect(s.all).toEqual([]);
    s.stop();
  });
});
