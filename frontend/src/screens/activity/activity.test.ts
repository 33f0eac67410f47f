import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fakeRpc, type FakeRpc } from "../../lib/rpc/fake";
import { nav } from "../../lib/ui/state";
import { ActivityState, type Entry } from "./activity.svelte";
import { actionsOf, sentence, whoOf } from "./words";

const entry = (seq: number, more: Partial<Entry> = {}): Entry =>
  ({
    seq,
    id: String(seq),
    timestamp: new Date(Date.UTC(2026, 0, 1, 12, 0, seq)).toISOString(),
    ts: 0,
    action: "start",
    actor: { kind: "user", id: "" },
    subject: { kind: "tool", id: "t1", name: "Counter" },
    outcome: "ok",
    details: null,
    hash: "00",
    signed: true,
    ...more,
  }) as Entry;

function setup(count: number): { rpc: FakeRpc; s: ActivityState; log: Entry[] } {
  const log = Array.from({ length: count }, (_, i) => entry(i + 1));
  const rpc = fakeRpc({
    "audit.list": (p) => {
      const matching = log.filter((e) => (!p.before || e.seq < p.before) && (!p.outcome || e.outcome === p.outcome)).reverse();
      const entries = matching.slice(0, p.limit);
      return { entries, ...(matching.length > entries.length ? { next: entries.at(-1)!.seq } : {}) } as never;
    },
    "audit.get": (p) => log.find((e) => e.seq === p.seq) as never,
    "audit.verify": () => ({ ok: true, lastSeq: log.length }) as never,
  });
  return { rpc, s: new ActivityState(rpc), log };
}
const append = (t: ReturnType<typeof setup>, more: Partial<Entry> = {}): void => {
  const e = entry(t.log.length + 1, more);
  t.log.push(e);
  t.rpc.emit("audit.appended", { seq: e.seq, action: e.action, subject: e.subject, outcome: e.outcome });
};

describe("ActivityState", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    nav.go("activity");
  });
  afterEach(() => void vi.useRealTimers());

  it("reads pages from the newest and groups them by day", async () => {
    const t = setup(250);
    await t.s.load();
    expect(t.s.entries.map((e) => e.seq).slice(0, 2)).toEqual([250, 249]);
    expect(t.s.rows[0]).toHaveProperty("day");
    expect(t.s.more).toBe(true);
    await t.s.loadMore();
    await t.s.loadMore();
    await t.s.loadMore();
    expect(t.s.entries).toHaveLength(250);
    expect(t.s.more).toBe(false);
    expect(t.rpc.sent("audit.list")).toHaveLength(3);
  });

  it("lets new entries in by itself at the top", async () => {
    const t = setup(3);
    await t.s.load();
    append(t);
    append(t);
    await vi.advanceTimersByTimeAsync(300);
    expect(t.s.entries.map((e) => e.seq)).toEqual([5, 4, 3, 2, 1]);
    expect(t.s.fresh).toBe(0);
  });

  it("counts new entries while something is read, and shows them when asked", async () => {
    const t = setup(3);
    await t.s.load();
    nav.go("activity/2");
    t.s.show(nav.rest);
    for (let i = 0; i < 12; i++) append(t);
    await vi.advanceTimersByTimeAsync(300);
    expect(t.s.entries.map((e) => e.seq)).toEqual([3, 2, 1]);
    expect(t.s.fresh).toBe(12);
    await t.s.showFresh();
    expect(t.s.entries).toHaveLength(15);
    expect(t.s.fresh).toBe(0);
    expect(new Set(t.s.entries.map((e) => e.seq)).size).toBe(15);
  });

  it("counts only what the filter lets through", async () => {
    const t = setup(3);
    t.s.set({ outcome: "denied" });
    await vi.advanceTimersByTimeAsync(0);
    t.s.atTop = false;
    append(t);
    append(t, { outcome: "denied" });
    append(t);
    await vi.advanceTimersByTimeAsync(300);
    expect(t.s.fresh).toBe(1);
  });

  it("does not count an entry twice", async () => {
    const t = setup(3);
    await t.s.load();
    t.s.atTop = false;
    append(t);
    t.rpc.emit("audit.appended", { seq: 4, action: "start", subject: { kind: "tool", id: "t1" }, outcome: "ok" });
    expect(t.s.fresh).toBe(1);
  });

  it("sends the filters of the run, the words and the days", async () => {
    const t = setup(1);
    t.s.set({ what: "permissions", text: "  mail ", from: "2026-01-02", to: "2026-01-02" });
    await vi.advanceTimersByTimeAsync(0);
    const p = t.rpc.sent("audit.list").at(-1)!;
    expect(p.actions).toContain("grant.revoked");
    expect(p.text).toBe("mail");
    expect(new Date(p.to!).getTime() - new Date(p.from!).getTime()).toBe(86_400_000 - 1);
    t.s.show(["run", "r1"]);
    await vi.advanceTimersByTimeAsync(0);
    expect(t.rpc.sent("audit.list").at(-1)).toEqual({ runId: "r1", limit: 100 });
    t.s.clear();
    expect(t.s.filtered).toBe(false);
  });

  it("tells the key that verifies an export elsewhere", async () => {
    const t = setup(1);
    t.rpc.handle({ "audit.device_key": () => ({ deviceId: "d", publicKey: "ab" }) });
    expect(await t.s.deviceKey()).toBe("ab");
  });

  it("reads again after a gap", async () => {
    const t = setup(3);
    await t.s.load();
    t.log.push(entry(4));
    t.rpc.reload();
    await vi.advanceTimersByTimeAsync(0);
    expect(t.s.entries[0]!.seq).toBe(4);
  });

  it("folds signatures of the log into the heading of their day", async () => {
    const t = setup(3);
    t.log[1] = entry(2, { action: "audit.segment", subject: { kind: "segment", id: "1" } });
    await t.s.load();
    expect(t.s.rows).toMatchObject([{ routine: 1 }, { id: 3 }, { id: 1 }]);
    t.rpc.emit("audit.appended", { seq: 4, action: "audit.segment", subject: { kind: "segment", id: "2" }, outcome: "ok" });
    expect(t.s.fresh).toBe(0);
    t.s.set({ what: "log" });
    await vi.advanceTimersByTimeAsync(0);
    expect(t.s.rows).toMatchObject([{ routine: 0 }, { id: 3 }, { id: 2 }, { id: 1 }]);
  });

  it("says the result of a check that was asked for", async () => {
    const said: string[] = [];
    const t = setup(3);
    t.rpc.handle({ "audit.verify": () => ({ ok: true, lastSeq: 3, entries: 3, segments: 1, unsigned: 1 }) as never });
    const s = new ActivityState(t.rpc, { ok: (title, text) => said.push(`${title}. ${text}`), add: (x) => said.push(x.title), error: (_, title = "") => void said.push(title), undo: () => {} });
    await s.verify();
    expect(said).toEqual([]);
    await s.verify(true);
    t.rpc.handle({ "audit.verify": () => ({ ok: false, firstBadSeq: 2, lastSeq: 3 }) as never });
    await s.verify(true);
    expect(said).toEqual(["The log is intact. 3 entries checked against 1 signature. 1 entry will be signed within a minute.", "The log is not intact at entry 2."]);
  });

  it("says what happened and who did it", () => {
    const say = (more: Partial<Entry>): string => sentence(entry(1, more));
    expect(say({ action: "network_call", details: { host: "api.example.com" } })).toBe("Tool Counter used the network: api.example.com");
    expect(say({ action: "skill.run", outcome: "error", subject: { kind: "skill", id: "s", name: "Check a table" } })).toBe("Skill Check a table failed");
    expect(say({ action: "schedule.deleted", subject: { kind: "schedule", id: "x" }, details: { name: "Morning" } })).toBe("Schedule Morning was deleted");
    expect(say({ action: "import.completed", subject: { kind: "import", id: "x" }, details: { name: "vault", added: 3 } })).toBe("Import vault finished: 3 added");
    expect(say({ action: "config.changed", subject: { kind: "config", id: "" }, details: { keys: ["a", "b"] } })).toBe("Settings changed: a, b");
    expect(say({ action: "thing.spun_up", subject: { kind: "thing", id: "" } })).toBe("Thing: thing spun up");
    const who = (actor: Entry["actor"]): string => whoOf({ actor, subject: { kind: "tool", id: "t1" } });
    expect(who({ kind: "user", id: "u", client: "window" })).toBe("you, in the window");
    expect([who({ kind: "user", id: "u" }), who({ kind: "token", id: "t", name: "CI" }), who({ kind: "system", id: "" }), who({ kind: "tool", id: "t1" })]).toEqual(["you", "program CI", "Helix", ""]);
  });

  it("asks for no more actions than the backend takes", () => {
    for (const actions of Object.values(actionsOf)) expect(actions.length).toBeLessThanOrEqual(32);
  });
});
