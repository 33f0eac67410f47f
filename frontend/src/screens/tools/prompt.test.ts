import { describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { GUARD_MS, PermissionPrompt, promptOf } from "../../lib/run/prompt.svelte";
import { approval, fake, until } from "./fixtures";
import type { Approval } from "./types";

function setup(over: Partial<Approval> = {}) {
  let stored = approval(over);
  const rpc = fake({
    "approvals.get": () => ({ ...stored, history: [] }),
    "approvals.decide": () => ({ status: "approved", grants: [], runId: "x2" }),
  });
  const said: string[] = [];
  let undo: () => unknown = () => {};
  const prompt = new PermissionPrompt(rpc, {
    ok: (title) => said.push(title),
    add: (t) => said.push(t.title),
    undo: (title, restore) => {
      undo = restore;
      return said.push(title);
    },
  });
  return { rpc, prompt, said, undo: () => undo(), set: (next: Partial<Approval>) => (stored = { ...stored, ...next }) };
}

describe("the permission prompt", () => {
  it("takes nothing in its first half second", async () => {
    const { prompt, rpc } = setup();
    await prompt.show("p1");
    const opened = Date.now();
    expect(prompt.armed).toBe(false);
    expect(await prompt.approve()).toBe(false);
    expect(rpc.sent("approvals.decide")).toHaveLength(0);
    await until(() => prompt.armed);
    expect(Date.now() - opened).toBeGreaterThanOrEqual(GUARD_MS - 20);
    expect(await prompt.approve()).toBe(true);
    expect(prompt.open).toBe(false);
  });

  it("answers with the hash that was shown, the scope and exactly the ticked items", async () => {
    const { prompt, rpc } = setup({
      run: { kind: "user", waiting: false, rerun: true },
      requested: [
        { capability: "network:https", resource: "a.example.com" },
        { capability: "secret", resource: "TOKEN" },
      ],
    });
    await prompt.show("p1");
    await until(() => prompt.armed);
    prompt.wanted[1]!.allow = false;
    prompt.scope = "always";
    prompt.expires = "2030-01-31";
    await prompt.approve();
    const sent = rpc.sent("approvals.decide")[0] as Record<string, unknown>;
    expect(sent).toMatchObject({
      id: "p1",
      decision: "approve",
      definitionHash: "aa",
      scope: "always",
      rerun: true,
      items: [
        { capability: "network:https", resource: "a.example.com", allow: true },
        { capability: "secret", resource: "TOKEN", allow: false },
      ],
    });
    expect(new Date(sent["expiresAt"] as string).getTime()).toBeGreaterThan(Date.parse("2030-01-30T00:00:00Z"));
  });

  it("says what the answer did, and Undo revokes what it gave", async () => {
    const { prompt, rpc, said, undo } = setup();
    rpc.handle({
      "approvals.decide": () => ({ status: "approved", grants: [{ id: "g1" }, { id: "g2" }] }) as never,
      "permissions.list": () => ({ grants: [{ id: "g1", lastUsedAt: "2026-05-01T00:00:00Z" }], denials: [], total: 1 }) as never,
      "permissions.revoke": () => ({}) as never,
    });
    await prompt.show("p1");
    await until(() => prompt.armed);
    prompt.scope = "once";
    await prompt.approve();
    expect(said).toHaveLength(1);
    await undo();
    expect(rpc.sent("permissions.revoke")).toEqual([{ grantId: "g1" }, { grantId: "g2" }]);
    expect(said[1]).toBe("Too late to undo");
  });

  it("is one for a connection, and follows answers that are given elsewhere", async () => {
    const { rpc } = setup();
    const shared = promptOf(rpc);
    const answers: string[] = [];
    for (const screen of ["tools", "skills"]) promptOf(rpc).onAnswer((a) => answers.push(`${screen} ${a.approvalId}`));
    await shared.show("p1");
    expect(promptOf(rpc).open).toBe(true);
    rpc.emit("approvals.changed", { id: "p1", status: "approved", pendingCount: 0 });
    expect([shared.open, answers]).toEqual([false, ["tools p1", "skills p1"]]);
    expect(promptOf(setup().rpc)).not.toBe(shared);
  });

  it("does not start a waiting run a second time", async () => {
    const { prompt, rpc } = setup();
    await prompt.show("p1");
    expect(prompt.canRerun).toBe(false);
    await until(() => prompt.armed);
    await prompt.approve();
    expect(rpc.sent("approvals.decide")[0]).not.toHaveProperty("rerun");
  });

  it("denies, and remembers it only when told to", async () => {
    const { prompt, rpc } = setup();
    await prompt.show("p1");
    await until(() => prompt.armed);
    prompt.remember = true;
    await prompt.deny();
    expect(rpc.sent("approvals.decide")[0]).toEqual({ id: "p1", decision: "deny", definitionHash: "aa", remember: true });
  });

  it("offers a draft only what a draft can have", async () => {
    const { prompt } = setup({ scopes: ["once", "run"] });
    await prompt.show("p1");
    expect(prompt.scopes).toEqual(["once", "run"]);
    prompt.later();
  });

  it("shows the new definition when it changed meanwhile, and guards again", async () => {
    const { prompt, rpc, set } = setup();
    await prompt.show("p1");
    await until(() => prompt.armed);
    set({ definitionHash: "bb" });
    rpc.failNext("approvals.decide", new RpcError({ message: "changed", kind: "conflict" }));
    expect(await prompt.approve()).toBe(false);
    expect(prompt.asked?.definitionHash).toBe("bb");
    expect(prompt.changed).toBe(true);
    expect(prompt.armed).toBe(false);
    prompt.later();
  });

  it("goes away when somebody else answers", async () => {
    const { prompt, rpc } = setup();
    const answers: unknown[] = [];
    prompt.onAnswer((a) => answers.push(a));
    await prompt.show("p1");
    prompt.follow({ id: "p1", status: "approved", pendingCount: 0 });
    expect(prompt.open).toBe(false);
    expect(answers).toEqual([{ approved: true, runId: "", approvalId: "p1" }]);
    expect(rpc.sent("approvals.decide")).toHaveLength(0);
  });

  it("shows one at a time, and the next one after it", async () => {
    const { prompt } = setup();
    await prompt.show("p1");
    await prompt.show("p2");
    expect(prompt.asked?.id).toBe("p1");
    prompt.later();
    await until(() => prompt.open);
    prompt.later();
  });

  it("shows nothing that is answered already or that does not fit", async () => {
    const { prompt, set } = setup({ status: "denied" });
    await prompt.show("p1");
    expect(prompt.open).toBe(false);
    set({ status: "pending" });
    await prompt.show("p1", () => false);
    expect(prompt.open).toBe(false);
  });

  it("can trust a version without giving it any right", async () => {
    const { prompt, rpc } = setup({ kind: "definition" });
    await prompt.show("p1");
    await until(() => prompt.armed);
    prompt.wanted[0]!.allow = false;
    expect(await prompt.approve()).toBe(true);
    expect(rpc.sent("approvals.decide")[0]).toMatchObject({ decision: "approve", items: [{ allow: false }] });
  });

  it("cannot allow nothing at all", async () => {
    const { prompt, rpc } = setup();
    await prompt.show("p1");
    await until(() => prompt.armed);
    prompt.wanted[0]!.allow = false;
    expect(await prompt.approve()).toBe(false);
    expect(rpc.sent("approvals.decide")).toHaveLength(0);
    prompt.later();
  });
});
