import { describe, expect, it } from "vitest";
import { RpcError } from "../rpc/errors";
import { parseFragment } from "../rpc/session";
import { diffLines, diffWords, fold } from "./diff";
import { ago, age, bytes, dayName, duration, visible } from "./format";
import { Load } from "./load.svelte";
import { Paged } from "./paged.svelte";

describe("diffWords", () => {
  it("marks the words that the other text does not have", () => {
    expect(diffWords("on Monday at ten", "on Friday at ten o'clock")).toEqual([
      { text: "on ", changed: false },
      { text: "Friday", changed: true },
      { text: " at ten", changed: false },
      { text: " o'clock", changed: true },
    ]);
    expect(diffWords("a b", "")).toEqual([]);
    expect(diffWords("same\ntext", "same\ntext")).toEqual([{ text: "same\ntext", changed: false }]);
  });
});

describe("diffLines", () => {
  it("pairs changed lines and numbers both sides", () => {
    const rows = diffLines("a\nb\nc\nd", "a\nB\nc\nx\nd");
    expect(rows.map((r) => [r.kind, r.leftNo, r.rightNo])).toEqual([
      ["same", 1, 1],
      ["change", 2, 2],
      ["same", 3, 3],
      ["add", 0, 4],
      ["same", 4, 5],
    ]);
  });

  it("gives back both texts, whatever they are", () => {
    const words = ["a", "b", "c", ""];
    let seed = 7;
    const next = (n: number): number => (seed = (seed * 16807) % 2147483647) % n;
    for (let i = 0; i < 300; i++) {
      const make = (): string => Array.from({ length: next(12) }, () => words[next(words.length)]).join("\n");
      const [x, y] = [make(), make()];
      const rows = diffLines(x, y);
      expect(rows.filter((r) => r.leftNo > 0).map((r) => r.left).join("\n")).toBe(x);
      expect(rows.filter((r) => r.rightNo > 0).map((r) => r.right).join("\n")).toBe(y);
    }
  });

  it("hides long unchanged stretches and stays quick on large texts", () => {
    const long = Array.from({ length: 40 }, (_, i) => `line ${i}`);
    const rows = fold(diffLines(long.join("\n"), [...long.slice(0, 20), "new", ...long.slice(20)].join("\n")));
    expect(rows.filter((r) => "hidden" in r)).toEqual([{ hidden: 17 }, { hidden: 17 }]);
    const big = (c: string): string => Array.from({ length: 9000 }, (_, i) => c + i).join("\n");
    expect(diffLines(big("a"), big("b"))).toHaveLength(9000);
  });
});

describe("format", () => {
  const now = new Date(2026, 2, 3, 12, 0, 0).getTime();
  it("writes sizes and durations", () => {
    expect([0, 1023, 1536, 12 * 2 ** 20, 3 * 2 ** 30].map(bytes)).toEqual(["0 B", "1023 B", "1.5 KiB", "12 MiB", "3.0 GiB"]);
    expect([40, 1400, 42_000, 125_000, 3_600_000].map(duration)).toEqual(["40 ms", "1.4 s", "42 s", "2 min 5 s", "1 h"]);
  });
  it("writes times as a person would", () => {
    expect(age(now - 5_000, now)).toBe("now");
    expect(ago(now - 240_000, now)).toBe("4 min ago");
    expect(ago(new Date(2025, 11, 24), now)).toBe("on 24 Dec 2025");
    expect(dayName(now - 3_600_000, now)).toBe("Today");
    expect(dayName(new Date(2026, 2, 2, 23, 59), now)).toBe("Yesterday");
  });
  it("shows what would hide in other people's text", () => {
    expect(visible("ab\u202Ecd\u0000e")).toBe("ab⟨U+202E⟩cd␀e");
    expect(visible("x".repeat(400))).toHaveLength(301);
  });
});

describe("links", () => {
  it("finds the ticket in the fragment", () => {
    expect(parseFragment("#ticket=abc")).toEqual({ ticket: "abc", path: "" });
    expect(parseFragment("#/approvals/1")).toEqual({ ticket: null, path: "/approvals/1" });
  });
});

describe("Load", () => {
  it("keeps only the newest answer, and the former data while it reads", async () => {
    const l = new Load<number>();
    let first: (n: number) => void = () => {};
    const slow = l.run(() => new Promise<number>((r) => (first = r)));
    await l.run(async () => 2);
    first(1);
    await slow;
    expect(l.data).toBe(2);
    await l.run(() => Promise.reject(new RpcError({ message: "no" })));
    expect([l.data, l.error?.message, l.busy]).toEqual([2, "no", false]);
  });
});

describe("Paged", () => {
  it("reads pages and reads again as much as is shown", async () => {
    const asked: [number, number][] = [];
    const p = new Paged(async (offset, limit) => {
      asked.push([offset, limit]);
      return { items: Array.from({ length: Math.min(limit, 25 - offset) }, (_, i) => offset + i), total: 25 };
    }, 10);
    await p.reload();
    await p.more();
    await p.more();
    await p.more();
    expect(p.items).toHaveLength(25);
    asked.length = 0;
    await p.reload();
    expect(asked).toEqual([[0, 10], [10, 10], [20, 10]]);
    expect(p.items).toHaveLength(25);
  });
  it("has read again when a reload ends, even if another one replaced it", async () => {
    const answers: (() => void)[] = [];
    const p = new Paged<string>((_offset, _limit, signal) => new Promise((done, fail) => {
      const n = answers.length;
      answers.push(() => done({ items: [`${n}`], total: 1 }));
      signal.addEventListener("abort", () => fail(new Error("canceled")));
    }));
    let ended = 0;
    const both = [p.reload().then(() => ended++), p.reload().then(() => ended++)];
    await new Promise((r) => setTimeout(r));
    expect(ended).toBe(0);
    answers[1]!();
    await Promise.all(both);
    expect(p.items).toEqual(["1"]);
  });
});
