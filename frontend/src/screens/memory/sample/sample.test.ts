import { describe, expect, it, vi } from "vitest";
import { fakeRpc } from "../../../lib/rpc/fake";
import type { Memory } from "../types";
import { entriesOf, SampleDiary, sampleTag } from "./sample.svelte";
import diary from "./diary.txt?raw";

const notify = () => ({ ok: vi.fn(), add: vi.fn(), error: vi.fn(), undo: vi.fn() });

/** A memory that holds only the diary. */
function backend() {
  let held: string[] = [];
  let trash: string[] = [];
  const rpc = fakeRpc({
    "memory.list": ({ limit }) => ({ items: held.slice(0, limit ?? 50).map((id) => ({ id }) as Memory), total: held.length }),
    "memory.add_batch": ({ items }) => ((held = items.map((_, i) => `m${i}`)), { items: held.map((id) => ({ id }) as never) }),
    "memory.delete": ({ ids }) => ((trash = [...trash, ...ids]), (held = held.filter((id) => !ids.includes(id))), { count: ids.length, undoToken: `u${trash.length}` }),
    "memory.undo": () => ((held = [...held, ...trash]), (trash = []), { count: 1 }),
    "memory.synthesize": () => ({ jobId: "j", status: "pending" }) as never,
  });
  return { rpc, held: () => held.length };
}

describe("the sample diary", () => {
  it("ends shortly before today, whenever it is loaded, with each entry on its weekday", () => {
    for (const now of [new Date("2026-11-26T10:00:00Z"), new Date("2028-02-29T23:30:00Z"), new Date("2027-01-03T00:10:00Z")]) {
      const all = entriesOf(diary, now);
      expect(all.length).toBeGreaterThan(90);
      const times = all.map((e) => Date.parse(e.occurredAt));
      expect(times).toEqual([...times].sort((a, b) => a - b));
      expect(now.getTime() - times.at(-1)!).toBeGreaterThan(0);
      expect(now.getTime() - times.at(-1)!).toBeLessThan(11 * 86_400_000);
      for (const e of all) if (/^Sunday/.test(e.content)) expect(new Date(e.occurredAt).getUTCDay()).toBe(0);
    }
  });

  it("is added with its tag, removed whole with its insights, and returns with Undo", async () => {
    const { rpc, held } = backend();
    const n = notify();
    const sample = new SampleDiary(rpc, n);
    expect(await sample.load()).toBe(true);
    expect(rpc.sent("memory.add_batch")[0]!.items.every((i) => i.tags?.includes(sampleTag))).toBe(true);
    expect(sample.count).toBe(held());
    expect(await sample.remove()).toBe(true);
    expect([sample.count, held()]).toEqual([0, 0]);
    expect(rpc.sent("memory.synthesize")).toHaveLength(1);
    await (n.undo.mock.calls[0]![1] as () => Promise<void>)();
    expect(sample.count).toBe(held());
    expect(sample.count).toBeGreaterThan(90);
  });

  it("says why it could not be added and keeps the count", async () => {
    const n = notify();
    const sample = new SampleDiary(fakeRpc({ "memory.list": () => ({ items: [], total: 0 }) }), n);
    expect(await sample.load()).toBe(false);
    expect(n.error).toHaveBeenCalledOnce();
    expect([sample.count, sample.busy]).toEqual([0, false]);
  });
});
