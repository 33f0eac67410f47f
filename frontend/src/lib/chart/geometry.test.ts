import { describe, expect, it } from "vitest";
import { inside, linear, nearest, overlap, packRows, placeLabels, ticks, timeTicks, towards } from "./geometry";
import { dayOf, startOf } from "./time";

/** The same sequence of numbers between 0 and 1 each time. */
function sequence(seed: number): () => number {
  let s = seed;
  return () => ((s = (Math.imul(s, 1664525) + 1013904223) >>> 0), s / 2 ** 32);
}

describe("scales", () => {
  it("map ends to ends, and a range without extent to the middle", () => {
    const y = linear(0, 10, 100, 0);
    expect([y(0), y(10), y(2.5)]).toEqual([100, 0, 75]);
    expect(linear(3, 3, 0, 10)(3)).toBe(5);
  });

  it("have round ticks within the range", () => {
    expect(ticks(0, 1, 4)).toEqual([0, 0.25, 0.5, 0.75, 1]);
    expect(ticks(-1, 1, 4)).toEqual([-1, -0.5, 0, 0.5, 1]);
    expect(ticks(0, 37, 4)).toEqual([0, 10, 20, 30]);
    expect(ticks(2, 2, 4)).toEqual([2]);
  });

  it("have ticks of time at local midnights, first days of months and new years, never more than asked for", () => {
    const from = new Date(2026, 0, 10, 15).getTime();
    for (const days of [3, 20, 100, 400, 1500, 20_000]) {
      const list = timeTicks(from, from + days * 86_400_000, 8);
      expect(list.length, `${days} days`).toBeGreaterThan(0);
      expect(list.length, `${days} days`).toBeLessThanOrEqual(9);
      for (const k of list) {
        const d = new Date(k.at);
        expect(d.getHours()).toBe(0);
        if (k.unit !== "day") expect(d.getDate()).toBe(1);
        if (k.unit === "year") expect(d.getMonth()).toBe(0);
      }
    }
    expect(timeTicks(from, from, 8)).toEqual([]);
  });

  it("name days as they are here", () => {
    expect(dayOf(new Date(2026, 4, 31, 23, 59).getTime())).toBe("2026-05-31");
    expect(startOf("2026-05-31")).toBe(new Date(2026, 4, 31).getTime());
    expect(dayOf(startOf("2026-03-29"))).toBe("2026-03-29");
  });
});

describe("a lasso", () => {
  const square = [{ x: 0, y: 0 }, { x: 10, y: 0 }, { x: 10, y: 10 }, { x: 0, y: 10 }];
  it("holds what is inside, whichever way it was drawn", () => {
    for (const ring of [square, [...square].reverse()]) {
      expect(inside({ x: 5, y: 5 }, ring)).toBe(true);
      expect(inside({ x: 15, y: 5 }, ring)).toBe(false);
      expect(inside({ x: 5, y: -1 }, ring)).toBe(false);
    }
  });

  it("leaves out the bay of a concave shape and the hole of one that crosses itself", () => {
    const bay = [{ x: 0, y: 0 }, { x: 10, y: 0 }, { x: 10, y: 10 }, { x: 5, y: 3 }, { x: 0, y: 10 }];
    expect(inside({ x: 5, y: 8 }, bay)).toBe(false);
    expect(inside({ x: 1, y: 5 }, bay)).toBe(true);
    const bow = [{ x: 0, y: 0 }, { x: 10, y: 10 }, { x: 10, y: 0 }, { x: 0, y: 10 }];
    expect([inside({ x: 1, y: 5 }, bow), inside({ x: 9, y: 5 }, bow), inside({ x: 5, y: 1 }, bow)]).toEqual([true, true, false]);
  });

  it("holds nothing with fewer than three corners", () => {
    expect(inside({ x: 0, y: 0 }, [])).toBe(false);
    expect(inside({ x: 0.5, y: 0.5 }, [{ x: 0, y: 0 }, { x: 1, y: 1 }])).toBe(false);
  });
});

describe("points", () => {
  const spots = [{ x: 0, y: 0 }, { x: 10, y: 0 }, { x: 10, y: 10 }, { x: 30, y: 1 }];
  it("are found within reach, the nearest first", () => {
    expect(nearest(spots, { x: 9, y: 1 }, 5)).toBe(1);
    expect(nearest(spots, { x: 20, y: 20 }, 5)).toBe(-1);
    expect(nearest([], { x: 0, y: 0 }, 5)).toBe(-1);
  });

  it("are reached by arrow keys, each from some other", () => {
    expect(towards(spots, 0, 1, 0)).toBe(1);
    expect(towards(spots, 1, 1, 0)).toBe(3);
    expect(towards(spots, 1, 0, 1)).toBe(2);
    expect(towards(spots, 3, 1, 0), "nothing is further right").toBe(3);
    expect(towards(spots, -1, 1, 0), "the first key goes to the first point").toBe(0);
    expect(towards([], -1, 1, 0)).toBe(-1);
  });
});

describe("labels", () => {
  it("never cover each other or leave the frame, and are the same each time", () => {
    const random = sequence(7);
    const labels = Array.from({ length: 200 }, () => ({ at: { x: 400 * random(), y: 300 * random() }, w: 20 + 80 * random(), h: 15, gap: 5 }));
    const frame = { x: 0, y: 0, w: 400, h: 300 };
    const placed = placeLabels(labels, frame);
    const shown = placed.filter((b) => b !== null);
    expect(shown.length).toBeGreaterThan(20);
    shown.forEach((a, i) => shown.slice(i + 1).forEach((b) => expect(overlap(a, b)).toBe(false)));
    for (const b of shown) expect(b.x >= 0 && b.y >= 0 && b.x + b.w <= 400 && b.y + b.h <= 300).toBe(true);
    expect(placeLabels(labels, frame)).toEqual(placed);
  });

  it("of goals stand in rows where none meets another", () => {
    const random = sequence(3);
    const spans = Array.from({ length: 60 }, () => {
      const from = 500 * random();
      return { from, to: from + 30 + 60 * random() };
    });
    const rows = packRows(spans);
    spans.forEach((a, i) => spans.forEach((b, j) => i < j && rows[i] === rows[j] && expect(a.to <= b.from || b.to <= a.from).toBe(true)));
    expect(packRows([{ from: 0, to: 5 }, { from: 5, to: 9 }, { from: 4, to: 6 }])).toEqual([0, 0, 1]);
  });
});
