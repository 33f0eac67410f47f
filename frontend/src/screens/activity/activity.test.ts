import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fakeRpc, type FakeRpc } from "../../lib/rpc/fake";
import { ActivityState, type Entry } from "./activity.svelte";
import { aboutSubject, sentence } from "./words";

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
  beforeEach(() => void vi.useFakeTimers());
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
    t.s.select(2);
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
    t.s.outcome = "denied";
    await t.s.load();
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
    t.s.what = "permissions";
    t.s.text = "  mail ";
    t.s.from = "2026-01-02";
    t.s.to = "2026-01-02";
    await t.s.load();
    const p = t.rpc.sent("audit.list").at(-1)!;
    expect(p.actions).toContain("grant.revoked");
    expect(p.text).toBe("mail");
    expect(new Date(p.to!).getTime() - new Date(p.from!).getTime()).toBe(86_400_000 - 1);
    t.s.showRun("r1");
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

  it("says what happened in words", () => {
    expect(sentence({ action: "network_call", details: { host: "api.example.com" } })).toBe("used the network: api.example.com");
    expect(sentence({ action: "gateway.token_created", details: null })).toBe("gateway token created");
    expect(aboutSubject("start")).toBe(true);
    expect(aboutSubject("config.changed")).toBe(false);
  });
});
