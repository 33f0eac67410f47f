import { describe, expect, it, vi } from "vitest";
import { RpcError } from "../lib/rpc/errors";
import { fakeRpc, type FakeRpc } from "../lib/rpc/fake";
import { RecoveryState } from "./recovery.svelte";
import { System } from "../lib/system/system.svelte";

function setup(): { rpc: FakeRpc; s: System } {
  const rpc = fakeRpc({
    "system.status": () => ({ version: "1", degraded: [{ area: "backup", reason: "The disk was full.", hint: "" }], recovery: false, memory: {} }) as never,
    "services.list": () => ({ services: [{ name: "gateway", state: "running", running: true, port: 4321, pid: 1, restarts: 0 }], total: 1 }) as never,
    "storage.status": () => ({ sealed: "open", lowSpace: false, recovery: undefined }) as never,
    "services.restart": () => ({}) as never,
  });
  const s = new System(rpc);
  s.listen();
  return { rpc, s };
}

describe("System", () => {
  it("knows services and warnings", async () => {
    const { rpc, s } = setup();
    await s.load();
    expect(s.url).toBe("http://127.0.0.1:4321/");
    expect(s.warnings.map((w) => w.id)).toEqual(["backup"]);
    rpc.emit("storage.low_space", { freeBytes: 1, totalBytes: 2, low: true });
    expect(s.warnings.map((w) => w.id)).toEqual(["space", "backup"]);
  });

  it("follows long work from start to end", async () => {
    const { rpc, s } = setup();
    await s.load();
    const step = { id: "b1", operation: "backup", step: "copy", done: 5, total: 10, unit: "bytes", finished: false };
    rpc.emit("storage.backup_progress", step);
    expect(s.jobs.all.map((j) => [j.title, j.progress])).toEqual([["Backing up…", 0.5]]);
    rpc.emit("storage.backup_progress", { ...step, done: 10, finished: true });
    expect(s.jobs.all).toEqual([]);
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

  it("shows an update of the data until the backend answers", async () => {
    const { s } = setup();
    s.updating("copy", 0, 4);
    expect(s.migration).toEqual({ step: "Backing up", progress: undefined });
    s.updating("migrate", 1, 4);
    expect(s.migration).toEqual({ step: "Updating", progress: 0.25 });
    await s.load();
    expect(s.migration).toBeNull();
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
