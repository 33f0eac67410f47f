import { describe, expect, it, vi } from "vitest";
import { RpcError } from "../lib/rpc/errors";
import { fakeRpc, type FakeRpc } from "../lib/rpc/fake";
import { RecoveryState } from "./recovery.svelte";
import { System } from "./system.svelte";

function setup(): { rpc: FakeRpc; s: System } {
  const rpc = fakeRpc({
    "system.status": () => ({ version: "1", degraded: [{ area: "backup", reason: "The disk was full.", hint: "" }], recovery: false, memory: {} }) as never,
    "services.list": () => ({ services: [{ name: "gateway", state: "running", running: true, port: 4321, pid: 1, restarts: 0 }], total: 1 }) as never,
    "storage.status": () => ({ sealed: "open", lowSpace: false, recovery: undefined }) as never,
    "approvals.list": () => ({ approvals: [], total: 0, pendingCount: 3 }) as never,
    "services.restart": () => ({}) as never,
    "sandbox.status": () => ({ reasons: ["bwrap_missing"] }) as never,
    "skills.cancel": () => ({ canceled: true }) as never,
  });
  const s = new System(rpc);
  s.listen();
  return { rpc, s };
}

describe("System", () => {
  it("knows services, warnings and what waits", async () => {
    const { rpc, s } = setup();
    await s.load();
    expect(s.url).toBe("http://127.0.0.1:4321/");
    expect(s.waiting).toBe(3);
    expect(s.warnings.map((w) => w.id)).toEqual(["backup"]);
    rpc.emit("storage.low_space", { freeBytes: 1, totalBytes: 2, low: true });
    expect(s.warnings.map((w) => w.id)).toEqual(["space", "backup"]);
    rpc.emit("approvals.changed", { id: "1", status: "pending", pendingCount: 4 });
    expect(s.waiting).toBe(4);
  });

  it("follows long work from start to end", async () => {
    const { rpc, s } = setup();
    await s.load();
    const step = { id: "b1", operation: "backup", step: "copy", done: 5, total: 10, unit: "bytes", finished: false };
    rpc.emit("storage.backup_progress", step);
    expect(s.jobs.map((j) => [j.title, j.progress])).toEqual([["Backing up…", 0.5]]);
    rpc.emit("storage.backup_progress", { ...step, done: 10, finished: true });
    expect(s.jobs).toEqual([]);
    rpc.emit("tools.execution", { executionId: "e1", toolId: "t1", seq: 1, state: "running" });
    expect(s.jobs[0]?.target).toBe("tools/t1");
    rpc.emit("tools.execution", { executionId: "e1", toolId: "t1", seq: 2, state: "success" });
    expect(s.jobs).toEqual([]);
    rpc.emit("skills.execution_changed", { executionId: "e2", skillId: "s1", seq: 1, status: "running", waiting: "queued" } as never);
    expect(s.jobs[0]).toMatchObject({ target: "skills/wasm/s1/run", step: "pending" });
    s.jobs[0]?.cancel?.();
    expect(rpc.sent("skills.cancel")).toEqual([{ executionId: "e2" }]);
    rpc.emit("skills.execution_changed", { executionId: "e2", skillId: "s1", seq: 2, status: "canceled" } as never);
    expect(s.jobs).toEqual([]);
  });

  it("follows imports of memories and meaning search, also those that began before", async () => {
    const { rpc, s } = setup();
    const job = { jobId: "i1", path: "/home/me/chats.zip", format: "chatgpt", status: "running", progress: 0.25, read: 1, added: 1, updated: 0, skipped: 0, failed: 0, errors: [] };
    rpc.handle({
      "memory.imports": (() => ({ jobs: [job, { ...job, jobId: "i0", status: "completed" }], total: 2 })) as never,
      "memory.embedding_status": (() => ({ ready: 62, queued: 38, stale: 0, paused: false, available: true })) as never,
      "memory.import_cancel": (() => job) as never,
    });
    await s.load();
    expect(s.jobs).toMatchObject([
      { id: "i1", title: "Importing chats.zip…", progress: 0.25, target: "memory" },
      { title: "Semantic search", step: "62 %" },
    ]);
    rpc.emit("memory.import_progress", { ...job, progress: 0.5 });
    expect(s.jobs.find((j) => j.id === "i1")?.progress).toBe(0.5);
    s.jobs.find((j) => j.id === "i1")?.cancel?.();
    expect(rpc.sent("memory.import_cancel")).toEqual([{ jobId: "i1" }]);
    rpc.emit("memory.import_done", { ...job, status: "cancelled" });
    rpc.emit("memory.embedding_progress", { ready: 100, queued: 0, ratePerSec: 0 });
    expect(s.jobs).toEqual([]);
    s.stop();
  });

  it("shows no import that ended while the list of imports was read", async () => {
    const { rpc, s } = setup();
    const job = { jobId: "i1", path: "/home/me/chats.zip", format: "chatgpt", status: "running", progress: 0.25, read: 1, added: 1, updated: 0, skipped: 0, failed: 0, errors: [] };
    let asked = 0;
    rpc.handle({
      "memory.imports": (() => {
        const before = { jobs: asked++ === 0 ? [job] : [], total: 1 };
        if (asked === 1) rpc.emit("memory.import_done", { ...job, status: "completed" });
        return before;
      }) as never,
      "memory.embedding_status": (() => ({ ready: 1, queued: 0, stale: 0, paused: false, available: true })) as never,
    });
    await s.load();
    expect(s.jobs).toEqual([]);
    s.stop();
  });

  it("follows runs of composite skills, also those that began before", async () => {
    const { rpc, s } = setup();
    const run = { executionId: "r1", skillName: "Digest", mode: "live", status: "waiting", waitReason: "approval", createdAt: "2026-01-01T00:00:00Z" };
    rpc.handle({ "skills.history": ((p: { status: string }) => ({ executions: p.status === "waiting" ? [run, { ...run, executionId: "r0", parentExecutionId: "r1" }] : [], bytes: 0 })) as never });
    await s.load();
    expect(s.jobs).toMatchObject([{ id: "r1", title: "Running Digest…", step: "waiting for your approval", target: "skills/run/r1" }]);
    const event = (type: string, executionId: string, data: object = {}): void => rpc.emit("skills.run_event", { executionId, seq: 1, type, at: "2026-01-01T00:00:01Z", data });
    event("run.resumed", "r1");
    expect(s.jobs[0]).toMatchObject({ step: "", title: "Running Digest…" });
    event("run.created", "r2", { skill: "Inner", trigger: "skill" });
    event("run.waiting", "r2", { reason: "timer" });
    expect(s.jobs).toHaveLength(1);
    event("run.created", "r3", { skill: "Other", trigger: "schedule" });
    expect(s.jobs).toHaveLength(2);
    s.jobs[1]?.cancel?.();
    expect(rpc.sent("skills.cancel")).toEqual([{ executionId: "r3" }]);
    event("run.finished", "r1");
    event("run.finished", "r3");
    expect(s.jobs).toEqual([]);
  });

  it("pauses background work and offers to resume it", async () => {
    const { rpc, s } = setup();
    rpc.handle({ "app.pause_background": ((p: { resume?: boolean }) => ({ paused: !p.resume, reasons: p.resume ? [] : ["person"] })) as never });
    await s.pauseBackground({ for: "1h" });
    const warning = s.warnings.find((w) => w.id === "paused");
    expect(warning?.action).toBe("Resume");
    warning?.run?.();
    await vi.waitFor(() => expect(s.held).toBe(false));
    rpc.emit("app.background_changed", { state: { paused: true, reasons: ["low_space"] } });
    expect(s.held).toBe(false);
    rpc.emit("app.background_changed", { state: { paused: true, reasons: ["low_space", "person"] } });
    expect(s.held).toBe(true);
  });

  it("says while all schedules are paused", async () => {
    const { rpc, s } = setup();
    await s.load();
    expect(s.paused).toBeNull();
    rpc.handle({ "schedules.status": (() => ({ pausedAll: true, pausedUntil: "2100-01-01T00:00:00Z" })) as never });
    rpc.emit("schedules.changed", { scheduleId: "s1", change: "fired" });
    rpc.emit("schedules.changed", { change: "paused" });
    await vi.waitFor(() => expect(s.paused).toEqual({ until: "2100-01-01T00:00:00Z" }));
    expect(rpc.sent("schedules.status")).toHaveLength(1);
    rpc.handle({ "schedules.status": (() => ({ pausedAll: false })) as never });
    rpc.reload();
    await vi.waitFor(() => expect(s.paused).toBeNull());
    s.stop();
  });

  it("says what is missing around modules", async () => {
    const { rpc, s } = setup();
    expect(s.weaker).toBe("");
    await s.load();
    expect(s.weaker).toBe("Modules run without bubblewrap");
    rpc.emit("sandbox.status_changed", { status: { reasons: ["landlock_unavailable", "bwrap_blocked"] } as never });
    expect(s.weaker).toBe("Modules run without Landlock and bubblewrap");
    rpc.emit("sandbox.status_changed", { status: { reasons: ["worker_unavailable"] } as never });
    expect(s.weaker).toBe("Third-party modules don't run");
    rpc.emit("sandbox.status_changed", { status: { reasons: [] } as never });
    expect(s.weaker).toBe("");
  });

  it("shows an update of the data only before the connection is open", () => {
    const { rpc, s } = setup();
    const step = { id: "m", operation: "migrate", step: "verify", done: 1, total: 4, unit: "steps", finished: false };
    rpc.emit("storage.backup_progress", step);
    expect(s.migration).toBeNull();
    rpc.setPhase("starting");
    rpc.emit("storage.backup_progress", step);
    expect(s.migration).toEqual({ step: "verify", progress: 0.25 });
  });

  it("is locked or in recovery when storage says so", async () => {
    const { rpc, s } = setup();
    rpc.handle({ "storage.status": () => ({ sealed: "locked", lowSpace: false, recovery: { reason: "corrupt", message: "m", problems: [], since: "" } }) as never });
    await s.load();
    expect(s.locked).toBe(true);
    expect(s.recovery?.reason).toBe("corrupt");
  });
});

describe("RecoveryState", () => {
  const backup = (name: string, more: object = {}): never => ({ path: `/b/${name}`, name, kind: "backup", createdAt: "2026-01-01T00:00:00Z", ...more }) as never;

  it("offers the newest backup that can be read, and restores only after a look", async () => {
    const rpc = fakeRpc({
      "storage.backups": () => ({ backups: [backup("3", { problem: "truncated" }), backup("2", { kind: "rolled-back" }), backup("1")], total: 3 }) as never,
      "storage.restore": () => ({ replacedPath: "", rows: {}, newer: {}, createdAt: "" }) as never,
    });
    const s = new RecoveryState(rpc);
    await s.load();
    expect(s.newest?.name).toBe("1");
    await s.restore();
    expect(rpc.sent("storage.restore")).toEqual([]);
    await s.check();
    await s.restore();
    expect(rpc.sent("storage.restore")).toEqual([{ path: "/b/1", dryRun: true }, { path: "/b/1" }]);
  });

  it("starts with no data when asked", async () => {
    const rpc = fakeRpc({ "storage.start_new": () => ({ replacedPath: "/r" }) as never });
    const s = new RecoveryState(rpc);
    await s.startNew();
    expect(rpc.sent("storage.start_new")).toEqual([{}]);
    expect(s.error).toBeNull();
  });

  it("uses salvaged data with missing rows only when told to", async () => {
    const rpc = fakeRpc({ "storage.salvage": (p: { acceptLoss?: boolean }) => ({ keptPath: "/k", tables: [], applied: p.acceptLoss, incomplete: true, lostPages: 1 }) as never });
    const s = new RecoveryState(rpc);
    await s.salvage();
    expect(s.salvaged?.applied).toBe(false);
    await s.salvage(true);
    expect(rpc.sent("storage.salvage")).toEqual([{ acceptLoss: false }, { acceptLoss: true }]);
    expect(s.salvaged?.applied).toBe(true);
  });

  it("keeps the error and does nothing twice at once", async () => {
    const rpc = fakeRpc({ "storage.salvage": () => ({ keptPath: "/k", tables: [] }) as never });
    const s = new RecoveryState(rpc);
    rpc.failNext("storage.salvage", new RpcError({ message: "Unreadable.", kind: "internal" }));
    await s.salvage();
    expect(s.error?.message).toBe("Unreadable.");
    const first = s.salvage();
    await s.salvage();
    await first;
    expect(rpc.sent("storage.salvage")).toHaveLength(2);
    await vi.waitFor(() => expect(s.salvaged?.keptPath).toBe("/k"));
  });
});
