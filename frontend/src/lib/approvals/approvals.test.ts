import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { RpcError } from "../rpc";
import { fakeRpc, type FakeRpc } from "../rpc/fake";
import { nav, toasts } from "../ui/state";
import { GUARD_MS } from "../run/prompt.svelte";
import { ApprovalsState, type Approval, type Detail } from "./approvals.svelte";

const hash = "a".repeat(64);
function approval(id: string, more: Partial<Approval> = {}): Approval {
  return {
    id,
    kind: "capability",
    subject: { kind: "tool", id: "t1", name: "Fetcher" },
    definitionHash: hash,
    tier: "side_effecting",
    sentence: "Connect to api.example.com",
    requested: [{ capability: "network:https", resource: "api.example.com" }],
    run: { kind: "tool", waiting: false, rerun: true },
    scopes: ["once", "run", "session", "always"],
    status: "pending",
    count: 1,
    createdAt: "2026-01-01T00:00:00Z",
    lastAt: "2026-01-01T00:00:00Z",
    expiresAt: "2026-01-08T00:00:00Z",
    ...more,
  } as Approval;
}
const detail = (a: Approval, more: Partial<Detail> = {}): Detail => ({ ...a, history: [], ...more }) as Detail;

let now = 0;
function setup(list: Approval[]): { rpc: FakeRpc; s: ApprovalsState; list: Approval[] } {
  const rpc = fakeRpc({
    "approvals.list": () => ({ approvals: [...list], total: list.length, pendingCount: list.length }),
    "approvals.get": (p) => detail(list.find((a) => a.id === p.id)!),
    "approvals.decide": (p) => {
      list.splice(
        list.findIndex((a) => a.id === p.id),
        1,
      );
      return { status: p.decision === "deny" ? "denied" : "approved", grants: p.decision === "deny" ? [] : [{ id: "g1" } as never] };
    },
    "permissions.list": () => ({ grants: [], denials: [], total: 0 }),
    "permissions.revoke": () => ({ revoked: 1, undoToken: "u1" }),
  });
  return { rpc, s: new ApprovalsState(rpc, () => now), list };
}
async function opened(list: Approval[]): Promise<ReturnType<typeof setup>> {
  const t = setup(list);
  nav.go(`approvals/${list[0]!.id}`);
  t.s.show(t.s.selected);
  await t.s.reload();
  await vi.waitFor(() => expect(t.s.detail.data).toBeDefined());
  return t;
}

describe("a question of a run", () => {
  const question = approval("q1", {
    kind: "command",
    subject: { kind: "skill", id: "s1", name: "Mail" },
    sentence: "Send the letter?",
    requested: [],
    scopes: ["once"],
    question: { text: "Send the letter?", choices: [{ id: "approve", label: "Approve", approves: true }, { id: "decline", label: "Decline", approves: false }], form: { type: "object" } },
  });

  it("is answered by its choices, with the data of its form", async () => {
    now = 10_000;
    vi.useFakeTimers();
    const { rpc, s } = await opened([question]);
    s.data = { copies: 2 };
    now += GUARD_MS + 1;
    expect(await s.answer({ decision: "approve", choice: "approve" })).toBe(true);
    expect(rpc.sent("approvals.decide")).toEqual([{ id: "q1", decision: "approve", definitionHash: hash, choice: "approve", data: { copies: 2 } }]);
    vi.useRealTimers();
  });

  it("sends no data with a denial", async () => {
    now = 10_000;
    vi.useFakeTimers();
    const { rpc, s } = await opened([question]);
    s.data = { copies: 2 };
    now += GUARD_MS + 1;
    await s.answer({ decision: "deny", choice: "decline" });
    expect(rpc.sent("approvals.decide")).toEqual([{ id: "q1", decision: "deny", definitionHash: hash, choice: "decline" }]);
    vi.useRealTimers();
  });
});

describe("ApprovalsState", () => {
  beforeEach(() => {
    now = 10_000;
    vi.useFakeTimers();
  });
  afterEach(() => {
    for (const t of toasts.list) toasts.dismiss(t.id);
    vi.useRealTimers();
  });

  it("accepts no answer in the first 500 ms, and again after each change", async () => {
    const { rpc, s } = await opened([approval("1"), approval("2")]);
    expect(await s.answer({ decision: "approve", scope: "once" })).toBe(false);
    now += GUARD_MS - 1;
    expect(await s.answer({ decision: "deny" })).toBe(false);
    expect(rpc.sent("approvals.decide")).toEqual([]);
    now += 1;
    expect(await s.answer({ decision: "approve", scope: "once" })).toBe(true);
    expect(s.selected).toBe("2");
    await vi.waitFor(() => expect(s.detail.data?.id).toBe("2"));
    expect(await s.answer({ decision: "deny" })).toBe(false);
    expect(rpc.sent("approvals.decide")).toHaveLength(1);
  });

  it("sends the definition that was shown, the scope and the ticked items", async () => {
    const items = ["a", "b", "c"].map((resource) => ({ capability: "network:https", resource }));
    const { rpc, s } = await opened([approval("1", { requested: items as Approval["requested"] })]);
    now += GUARD_MS;
    s.toggle(1, false);
    expect(s.rerun).toBe(true);
    await s.answer({ decision: "approve", scope: "always", expiresAt: "2026-02-01T00:00:00Z" });
    expect(rpc.sent("approvals.decide")).toEqual([
      {
        id: "1",
        decision: "approve",
        definitionHash: hash,
        scope: "always",
        expiresAt: "2026-02-01T00:00:00Z",
        rerun: true,
        items: [
          { capability: "network:https", resource: "a", allow: true },
          { capability: "network:https", resource: "b", allow: false },
          { capability: "network:https", resource: "c", allow: true },
        ],
      },
    ]);
  });

  it("does not approve nothing", async () => {
    const items = ["a", "b"].map((resource) => ({ capability: "network:https", resource }));
    const { rpc, s } = await opened([approval("1", { requested: items as Approval["requested"] })]);
    now += GUARD_MS;
    s.toggle(0, false);
    s.toggle(1, false);
    expect(await s.answer({ decision: "approve", scope: "once" })).toBe(false);
    expect(s.notice).toContain("Nothing is selected");
    expect(rpc.sent("approvals.decide")).toEqual([]);
  });

  it("refuses a scope that this request does not offer", async () => {
    const { rpc, s } = await opened([approval("1", { scopes: ["once", "run"] })]);
    now += GUARD_MS;
    expect(await s.answer({ decision: "approve", scope: "always" })).toBe(false);
    expect(rpc.sent("approvals.decide")).toEqual([]);
  });

  it("shows the new definition after a conflict and asks to look again", async () => {
    const { rpc, s } = await opened([approval("1")]);
    now += GUARD_MS;
    rpc.failNext("approvals.decide", new RpcError({ message: "It was changed.", kind: "conflict", code: "CONFLICT" }));
    rpc.handle({ "approvals.get": () => detail(approval("1", { definitionHash: "b".repeat(64) })) });
    expect(await s.answer({ decision: "approve", scope: "run" })).toBe(false);
    expect(s.detail.data?.definitionHash).toBe("b".repeat(64));
    expect(s.notice).toContain("Review it");
    expect(await s.answer({ decision: "approve", scope: "run" })).toBe(false);
    now += GUARD_MS;
    expect(await s.answer({ decision: "approve", scope: "run" })).toBe(true);
    expect(rpc.sent("approvals.decide").at(-1)!.definitionHash).toBe("b".repeat(64));
  });

  it("keeps an answer whose rerun failed, and says so", async () => {
    const { rpc, s } = await opened([approval("1")]);
    now += GUARD_MS;
    rpc.failNext("approvals.decide", new RpcError({ message: "The tool is gone.", kind: "denied" }));
    rpc.handle({ "approvals.get": () => detail(approval("1", { status: "approved" })) });
    expect(await s.answer({ decision: "approve", scope: "once" })).toBe(true);
    expect(toasts.list[0]).toMatchObject({ title: "Your answer was saved, but the run didn't restart", text: "The tool is gone." });
    expect(s.selected).toBeNull();
  });

  it("says that the run was not started again, beside the answer that stands", async () => {
    for (const grants of [[], [{ id: "g1" }]]) {
      const { rpc, s } = await opened([approval("1")]);
      now += GUARD_MS;
      rpc.handle({ "approvals.decide": () => ({ status: "approved", grants, rerunError: "The tool is disabled." }) as never });
      await s.answer({ decision: "approve", scope: "once" });
      expect(toasts.list.at(-1)).toMatchObject({ text: "The run didn't restart: The tool is disabled." });
    }
  });

  it("says when an answer was not kept", async () => {
    const { rpc, s } = await opened([approval("1")]);
    now += GUARD_MS;
    rpc.failNext("approvals.decide", new RpcError({ message: "The disk is full. Nothing was changed.", kind: "limit" }));
    expect(await s.answer({ decision: "approve", scope: "once" })).toBe(false);
    expect(toasts.list[0]?.title).toBe("Couldn't save the answer");
    expect(s.selected).toBe("1");
  });

  it("takes an approval back with Undo", async () => {
    const { rpc, s } = await opened([approval("1")]);
    now += GUARD_MS;
    await s.answer({ decision: "approve", scope: "session" });
    expect(toasts.undoLast()).toBe(true);
    await vi.waitFor(() => expect(rpc.sent("permissions.revoke")).toEqual([{ grantId: "g1" }]));
  });

  it("says at Undo what can and cannot be undone", async () => {
    for (const [scope, lastUsedAt, title, text] of [
      ["once", undefined, "Permission revoked", "It hadn't been used."],
      ["once", "2026-01-01T00:00:01Z", "Too late to undo", "The one call was already made"],
      ["session", "2026-01-01T00:00:01Z", "Permission revoked", "Calls that were already made can't be undone."],
    ] as const) {
      const { rpc, s } = await opened([approval("1")]);
      now += GUARD_MS;
      rpc.handle({ "permissions.list": () => ({ grants: [{ id: "g1", ...(lastUsedAt && { lastUsedAt }) }], denials: [], total: 1 }) as never });
      await s.answer({ decision: "approve", scope });
      expect(toasts.list.at(-1)!.text).toContain(scope === "once" ? "until the call is made" : "already made stay");
      toasts.undoLast();
      await vi.waitFor(() => expect(toasts.list.at(-1)!.title).toBe(title));
      expect(toasts.list.at(-1)!.text).toContain(text);
      expect(rpc.sent("permissions.revoke")).toEqual([{ grantId: "g1" }]);
      for (const x of toasts.list) toasts.dismiss(x.id);
    }
  });

  it("lasts as long as in the prompt unless a scope is chosen", async () => {
    const ended = await opened([approval("1")]);
    expect(ended.s.defaultScope).toBe("once");
    const { rpc, s } = await opened([approval("1", { run: { kind: "tool", id: "r1", waiting: true, rerun: false } })]);
    now += GUARD_MS;
    expect(s.defaultScope).toBe("run");
    await s.answer({ decision: "approve" });
    expect(rpc.sent("approvals.decide")[0]!.scope).toBe("run");
  });

  it("leaves waiting requests out of the history, page by page", async () => {
    const all = Array.from({ length: 150 }, (_, i) => approval(String(i), { status: i % 3 === 0 ? "pending" : "approved" }));
    const { rpc, s } = setup([]);
    rpc.handle({ "approvals.list": (p) => ({ approvals: all.slice(p.offset!, p.offset! + p.limit!), total: all.length, pendingCount: 50 }) });
    nav.go("approvals/history");
    await s.reload();
    await s.history.page.more();
    expect([s.history.rows.length, s.history.total]).toEqual([100, 100]);
    expect(new Set(s.history.rows.map((a) => a.id)).size).toBe(100);
  });

  it("denies and remembers", async () => {
    const { rpc, s } = await opened([approval("1")]);
    now += GUARD_MS;
    await s.answer({ decision: "deny", remember: true });
    expect(rpc.sent("approvals.decide")).toEqual([{ id: "1", decision: "deny", definitionHash: hash, remember: true }]);
  });

  it("keeps the selected request when others arrive, and counts them", async () => {
    const { rpc, s, list } = await opened([approval("1")]);
    list.unshift(approval("2"));
    rpc.emit("approvals.changed", { id: "2", status: "pending", pendingCount: 2 });
    expect(s.pendingCount).toBe(2);
    await vi.advanceTimersByTimeAsync(100);
    expect(s.waiting.rows.map((a) => a.id)).toEqual(["2", "1"]);
    expect(s.selected).toBe("1");
    now += GUARD_MS;
    expect(s.awake).toBe(true);
  });

  it("cannot answer without the scope, or while disconnected", async () => {
    const { rpc, s } = await opened([approval("1")]);
    now += GUARD_MS;
    rpc.setPhase("reconnecting");
    expect(await s.answer({ decision: "deny" })).toBe(false);
    expect(s.blocked).toContain("not connected");
  });

  it("lists suspended rights first and gives a revoked one back", async () => {
    const { rpc, s } = setup([]);
    const grant = (id: string, state: string, subject: string): never =>
      ({ id, state, subject: { kind: "tool", id: subject, name: subject }, sentence: "Read files", resource: "/x", capability: "filesystem:read", definitionHash: hash, scope: "always" }) as never;
    rpc.handle({ "permissions.list": () => ({ grants: [grant("1", "active", "a"), grant("2", "revoked", "a"), grant("3", "suspended", "b")], denials: [], total: 3 }) });
    nav.go("approvals/grants");
    await s.reload();
    await vi.waitFor(() => expect(s.rights.data).toBeDefined());
    expect(s.grants.map((g) => g.subject.id)).toEqual(["b", "a"]);
    expect(s.grants.flatMap((g) => g.grants.map((x) => x.id))).toEqual(["3", "1"]);
    s.query = "nothing like it";
    expect(s.grants).toEqual([]);
    await s.revoke({ grantId: "1" }, "Taken back");
    toasts.undoLast();
    await vi.waitFor(() => expect(rpc.sent("permissions.revoke")).toEqual([{ grantId: "1" }, { undoToken: "u1" }]));
  });

  it("says that a right was taken back when the list shows it", async () => {
    const { rpc, s } = setup([]);
    const grant = { id: "1", state: "active", subject: { kind: "tool", id: "a" }, sentence: "Read files" } as never;
    let given = [grant];
    rpc.handle({
      "permissions.list": () => ({ grants: given, denials: [], total: given.length }),
      "permissions.revoke": () => ((given = []), { revoked: 1, undoToken: "u1" }),
    });
    nav.go("approvals/grants");
    await s.reload();
    await vi.waitFor(() => expect(s.grants).toHaveLength(1));
    const shown: number[] = [];
    const undo = vi.spyOn(toasts, "undo").mockImplementation(() => shown.push(s.grants.length));
    await s.revoke({ grantId: "1" }, "Taken back");
    undo.mockRestore();
    expect(shown).toEqual([0]);
  });

  it("forgets a refusal only after 10 s", async () => {
    const { rpc, s } = setup([]);
    const denial = { id: "d1", subject: { kind: "tool", id: "t" }, sentence: "Read files" } as never;
    rpc.handle({ "permissions.list": () => ({ grants: [], denials: [denial], total: 0 }) });
    nav.go("approvals/denials");
    await s.reload();
    await vi.waitFor(() => expect(s.rights.data).toBeDefined());
    s.forget(denial);
    expect(s.rights.data!.denials).toEqual([]);
    await vi.advanceTimersByTimeAsync(9_000);
    expect(rpc.sent("permissions.revoke")).toEqual([]);
    await vi.advanceTimersByTimeAsync(1_100);
    expect(rpc.sent("permissions.revoke")).toEqual([{ denialId: "d1" }]);
  });
});
