import { describe, expect, it, vi } from "vitest";
import { fakeRpc } from "../../lib/rpc/fake";
import type { Notify } from "../../lib/ui/state";
import { ContainerJobs, ContainersState, type Pull } from "./containers.svelte";

const said: string[] = [];
const notify: Notify = { ok: (title) => said.push(title), add: (t) => said.push(t.title), error: (e, title) => void said.push(`${title}: ${(e as Error).message}`), undo: () => 0 };
const pull = (more: Partial<Pull> = {}): Pull => ({ jobId: "j1", ref: "box:1", status: "running", done: 1, size: 4, startedAt: "2026-01-01T00:00:00Z", ...more });
const status = { engine: { kind: "docker" }, tiers: [], egress: "socket", quota: "guard", pool: 0, running: [] };

describe("containers", () => {
  it("shows pulls and runs in the status bar until they end, and says how a pull ended", async () => {
    const rpc = fakeRpc({ "container.pulls": () => ({ pulls: [pull(), pull({ jobId: "j0", status: "done" })] }), "container.status": () => ({ ...status, running: [{ runId: "r1", name: "sorter", phase: "running", image: "x", startedAt: "2026-01-01T00:00:00Z" }, { runId: "s1", name: "shell", session: true, phase: "running", image: "x", startedAt: "2026-01-01T00:00:00Z" }] }) } as never);
    const jobs = new ContainerJobs(notify);
    jobs.start(rpc);
    await jobs.read();
    expect(jobs.all.map((j) => [j.id, j.progress])).toEqual([["j1", 0.25], ["r1", undefined]]);
    rpc.emit("container.pull", pull({ done: 2 }));
    expect(jobs.get("j1")?.progress).toBe(0.5);
    said.length = 0;
    rpc.emit("container.pull", pull({ status: "failed", error: "no such image" }));
    rpc.emit("container.run", { runId: "r1", name: "sorter", phase: "removed" });
    rpc.emit("container.pull", pull({ jobId: "j2", status: "canceled" }));
    expect(jobs.all).toEqual([]);
    expect(said).toEqual(["Couldn't pull box:1"]);
  });

  it("lists pulls in progress, and a failed one until its image is pulled again", async () => {
    const rpc = fakeRpc({ "container.status": () => status, "container.images": () => ({ images: [] }), "container.volumes": () => ({ volumes: [] }), "container.pulls": () => ({ pulls: [] }) } as never);
    const s = new ContainersState(rpc, notify);
    await s.load();
    const shown = (): string[] => s.shownPulls.map((p) => `${p.ref} ${p.status}`);
    rpc.emit("container.pull", pull({ status: "failed", error: "no" }));
    expect(shown()).toEqual(["box:1 failed"]);
    rpc.emit("container.pull", pull({ jobId: "j2", startedAt: "2026-01-01T00:01:00Z" }));
    expect(shown()).toEqual(["box:1 running"]);
    rpc.emit("container.pull", pull({ jobId: "j2", startedAt: "2026-01-01T00:01:00Z", status: "done" }));
    expect(shown()).toEqual([]);
    s.stop();
  });

  it("restores the copy of a tool's data, which replaces what it stored since, after the time for Undo", async () => {
    vi.useFakeTimers();
    const copy = { name: "helix-back-t1", tool: "sorter", copyOf: "t1", usedBytes: 1 };
    const rpc = fakeRpc({ "container.volumes": () => ({ volumes: [copy, { name: "helix-tool-t1", toolId: "t1", tool: "sorter", usedBytes: 2 }] }), "container.restore_state": () => ({}) } as never);
    const s = new ContainersState(rpc, notify);
    await s.readVolumes();
    for (const v of s.volumes.data ?? []) s.restore(v);
    expect([s.restoring.has("helix-back-t1"), rpc.sent("container.restore_state")]).toEqual([true, []]);
    await vi.advanceTimersByTimeAsync(11_000);
    expect([s.restoring.has("helix-back-t1"), rpc.sent("container.restore_state")]).toEqual([false, [{ toolId: "t1" }]]);
    s.stop();
    vi.useRealTimers();
  });

  it("reads neither images nor volumes without an engine", async () => {
    const asked: string[] = [];
    const rpc = fakeRpc({ "container.status": () => ({ ...status, engine: undefined }), "container.images": () => (asked.push("images"), { images: [] }) } as never);
    const s = new ContainersState(rpc, notify);
    await s.load();
    expect(asked).toEqual([]);
    s.stop();
  });
});
