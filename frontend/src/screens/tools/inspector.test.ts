import { describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { ToolInspector } from "./inspector.svelte";
import { approval, fake, tool, until } from "./fixtures";

function setup() {
  const rpc = fake({
    "tools.get": (p: { version?: string }) => ({ tool: tool({ version: p.version ?? "1.0.1", code: `code of ${p.version ?? "now"}` }) }),
    "tools.capabilities": () => ({ requested: [], grants: [], denied: [] }),
    "permissions.preview": () => ({ steps: [], union: [], hosts: [], secrets: [], tier: "read_only", willAsk: [], stops: [], unattended: "ok", unresolved: [] }),
    "permissions.list": () => ({ grants: [{ id: "g1", state: "active" }, { id: "g2", state: "revoked" }], denials: [], total: 2 }),
    "permissions.revoke": (p: { undoToken?: string }) => (p.undoToken ? { revoked: 0, restored: 1 } : { revoked: 1, undoToken: "u1" }),
    "tools.versions": () => ({
      versions: [
        { version: "1.0.1", createdAt: "2026-01-02T00:00:00Z", current: true },
        { version: "1.0.0", createdAt: "2026-01-01T00:00:00Z", current: false },
      ],
      total: 2,
    }),
    "tools.diff": () => ({ fields: [], code: "@@ -1 +1 @@\n-a\n+b\n", capabilities: { added: [], removed: [] } }),
    "tools.rollback": () => ({ tool: tool({ version: "1.0.2" }), suspendedGrants: ["g1"] }),
    "tools.usage": () => ({ entries: [{ id: "x1", timestamp: "2026-01-01T00:00:00Z" }], summary: { runs: 1 } }),
    "tools.audit": () => ({ entries: [{ seq: 3, action: "log", details: { message: "hello" } }, { seq: 1, action: "start", details: {} }], verified: true, head: 3 }),
    "tools.state": () => ({ entries: [], usedBytes: 0, quotaBytes: 1024 }),
    "tools.state_clear": () => ({ cleared: 1, undoToken: "u2" }),
    "tools.state_restore": () => ({ entries: [], usedBytes: 0, quotaBytes: 1024 }),
    "tools.shares": () => ({ shares: [], hub: false }),
    "approvals.list": () => ({ approvals: [approval({ id: "p0", requested: [] }), approval()], total: 2, pendingCount: 2 }),
  });
  const inspector = new ToolInspector(rpc);
  inspector.start();
  return { rpc, inspector };
}

describe("the inspector", () => {
  it("reads a tab when it is first looked at", async () => {
    const { rpc, inspector } = setup();
    inspector.show("t1");
    await until(() => inspector.tool.data !== undefined && inspector.rights.data !== undefined);
    expect(rpc.sent("tools.usage")).toHaveLength(0);
    inspector.setTab("history");
    inspector.setTab("details");
    inspector.setTab("history");
    await until(() => inspector.history?.page.loaded === true);
    expect(rpc.sent("tools.usage")).toHaveLength(1);
    inspector.stop();
  });

  it("reads again what an event touches, and only that", async () => {
    const { rpc, inspector } = setup();
    inspector.show("t1");
    inspector.setTab("history");
    await until(() => inspector.history?.page.loaded === true);
    rpc.emit("tools.execution", { executionId: "x", toolId: "other", seq: 2, state: "success" });
    rpc.emit("tools.execution", { executionId: "x", toolId: "t1", seq: 1, state: "running" });
    rpc.emit("tools.execution", { executionId: "x", toolId: "t1", seq: 2, state: "success" });
    await until(() => rpc.sent("tools.usage").length === 2);
    expect(rpc.sent("tools.audit")).toHaveLength(0);
    inspector.stop();
  });

  it("forgets the former tool at once", async () => {
    const { inspector } = setup();
    inspector.show("t1");
    await until(() => inspector.tool.data !== undefined);
    inspector.show("t2");
    expect(inspector.tool.data).toBeUndefined();
    inspector.show(null);
    expect(inspector.id).toBeNull();
    inspector.stop();
  });

  it("compares the two newest versions by themselves, with both texts", async () => {
    const { inspector } = setup();
    inspector.show("t1");
    inspector.setTab("versions");
    await until(() => inspector.codes !== null);
    expect(inspector.compare).toEqual(["1.0.0", "1.0.1"]);
    expect(inspector.codes).toEqual(["code of 1.0.0", "code of 1.0.1"]);
    inspector.stop();
  });

  it("drops a comparison that is answered after a rollback", async () => {
    const { rpc, inspector } = setup();
    inspector.show("t1");
    await inspector.readVersions();
    let answer = (): void => {};
    rpc.handle({
      "tools.diff": () => new Promise((r) => (answer = () => r({ fields: [], code: "@@", capabilities: { added: [], removed: [] } } as never))),
      "tools.versions": () => new Promise(() => {}),
    });
    const compared = inspector.setCompare("1.0.1", "1.0.0");
    await until(() => rpc.sent("tools.diff").length === 2);
    await inspector.rollback("1.0.0");
    answer();
    await expect(compared).resolves.toBeUndefined();
    expect(inspector.codes).toBeNull();
    inspector.stop();
  });

  it("rolls back and says how many rights wait", async () => {
    const { inspector } = setup();
    inspector.show("t1");
    expect(await inspector.rollback("1.0.0")).toMatchObject({ suspended: 1, tool: { version: "1.0.2" } });
    inspector.stop();
  });

  it("jumps from a run to its audit entries", async () => {
    const { rpc, inspector } = setup();
    inspector.show("t1");
    inspector.auditOf("x1");
    await until(() => inspector.audit.data !== undefined);
    expect(inspector.tab).toBe("audit");
    expect(rpc.sent("tools.audit").at(-1)).toMatchObject({ toolId: "t1", executionId: "x1" });
    expect(inspector.auditLines().trim().split("\n")).toHaveLength(2);
    inspector.stop();
  });

  it("clears state and takes it back", async () => {
    const { rpc, inspector } = setup();
    inspector.show("t1");
    const undo = await inspector.clearState("k");
    expect(rpc.sent("tools.state_clear")).toEqual([{ toolId: "t1", key: "k" }]);
    await undo?.();
    expect(rpc.sent("tools.state_restore")).toEqual([{ undoToken: "u2" }]);
    inspector.stop();
  });

  it("shows rights that are in force, revokes one and gives it back", async () => {
    const { rpc, inspector } = setup();
    inspector.show("t1");
    inspector.setTab("permissions");
    await until(() => inspector.permissions.held.data !== undefined && inspector.permissions.preview.data !== undefined);
    expect(inspector.permissions.held.data?.grants.map((g) => g.id)).toEqual(["g1"]);
    const undo = await inspector.permissions.revoke("g1");
    await undo?.();
    expect(rpc.sent("permissions.revoke")).toEqual([{ grantId: "g1" }, { undoToken: "u1" }]);
    inspector.stop();
  });

  it("finds the request that waits for a missing right", async () => {
    const { inspector } = setup();
    inspector.show("t1");
    expect(await inspector.permissions.pendingFor("network:https(api.example.com)")).toBe("p1");
    inspector.stop();
  });

  it("keeps the reason when an action is refused", async () => {
    const { rpc, inspector } = setup();
    inspector.show("t1");
    rpc.failNext("tools.rollback", new RpcError({ message: "gone", kind: "not_found" }));
    expect(await inspector.rollback("0.1.0")).toBeNull();
    expect(inspector.error?.message).toBe("gone");
    inspector.stop();
  });
});
