import { describe, expect, it } from "vitest";
import { addressOf, memoAt, momentOf, viewOf } from "./address";
import { position } from "./time";
import type { Word } from "./types";
import { decode, follow, momentAt, shareOf, zoom } from "./wave";
import { matching, paragraphs, pieces, stepWord, subtitles, wordAt } from "./words";

const word = (w: string, startMs: number, endMs: number): Word => ({ w, startMs, endMs });
const words = [word("Buy", 200, 400), word("crème", 400, 700), word("brûlée.", 750, 1200), word("Then", 4000, 4200), word("call", 4250, 4500)];

describe("addresses", () => {
  it("name a view, a memo and a moment of it", () => {
    expect(viewOf([])).toBe("memos");
    expect(viewOf(["queue"])).toBe("queue");
    expect(viewOf(["0198c5a2"])).toBe("memos");
    expect(addressOf("memos")).toBe("voice");
    expect(memoAt("m1", 1234.4)).toBe("voice/m1/1234");
    expect(memoAt("m1")).toBe("voice/m1");
    expect(momentOf(["m1", "1234"])).toBe(1234);
    for (const rest of [["m1"], ["m1", "x"], ["queue", "12"], []]) expect(momentOf(rest)).toBe(-1);
  });
});

describe("positions", () => {
  it("are short, and have hours only when needed", () => {
    expect([0, 7400, 59_999, 60_000, 725_000, 3_723_000].map((ms) => position(ms))).toEqual(["0:00", "0:07", "0:59", "1:00", "12:05", "1:02:03"]);
    expect(position(7460, true)).toBe("0:07.4");
    expect([Number.NaN, Infinity, -5].map((ms) => position(ms))).toEqual(["0:00", "0:00", "0:00"]);
  });
});

describe("words", () => {
  it("are current from their start until the next one begins", () => {
    expect([0, 199, 200, 399, 400, 720, 3000, 4249, 4250, 99_999].map((ms) => wordAt(words, ms))).toEqual([-1, -1, 0, 0, 1, 1, 2, 3, 4, 4]);
    expect(wordAt([], 5)).toBe(-1);
  });
  it("are stepped through and stop at both ends", () => {
    expect(stepWord(words, 450, 1)).toBe(750);
    expect(stepWord(words, 450, -1)).toBe(200);
    expect(stepWord(words, 0, -1)).toBe(200);
    expect(stepWord(words, 9000, 1)).toBe(4250);
    expect(stepWord([], 77, 1)).toBe(77);
  });
  it("form paragraphs at pauses and when they grow long", () => {
    expect(paragraphs(words).map((p) => [p.from, p.words.length])).toEqual([[0, 3], [3, 2]]);
    const long = Array.from({ length: 170 }, (_, i) => word("a", i * 100, i * 100 + 90));
    expect(paragraphs(long).map((p) => p.words.length)).toEqual([80, 80, 10]);
    expect(paragraphs([])).toEqual([]);
  });
  it("are found without case and accents; the last word may be a beginning", () => {
    expect([...matching(words, "BRULEE")]).toEqual([2]);
    expect([...matching(words, "creme bru")]).toEqual([1, 2]);
    expect([...matching(words, "cre brulee")]).toEqual([2]);
    expect([...matching(words, " ?! ")]).toEqual([]);
    expect([...matching(words, "ca")]).toEqual([]);
    expect([...matching([word("明日の", 0, 100), word("会議は", 100, 200)], "会議")]).toEqual([1]);
    expect(pieces("Buy crème brûlée.", "brul")).toEqual(["Buy crème ", "brûlée", "."]);
    expect(pieces("Buy", "")).toEqual(["Buy"]);
    expect(pieces("Then call", "th")).toEqual(["Then call"]);
    expect(pieces("資料。明日の会議は十時です。", "会議")).toEqual(["資料。", "明日の会議は十時です", "。"]);
    expect(pieces('"OR" NOT*', "or")).toEqual(['"', "OR", '" NOT*']);
  });
  it("become subtitles that end at pauses", () => {
    expect(subtitles(words, "srt")).toBe("1\n00:00:00,200 --> 00:00:01,200\nBuy crème brûlée.\n\n2\n00:00:04,000 --> 00:00:04,500\nThen call\n");
    expect(subtitles([word("late", 3_723_004, 3_723_500)], "vtt")).toBe("WEBVTT\n\n01:02:03.004 --> 01:02:03.500\nlate\n");
  });
});

describe("the waveform", () => {
  const base64 = (...values: number[]): string => btoa(String.fromCharCode(...values.map((v) => v & 255)));
  it("is decoded as signed peaks and unsigned levels", () => {
    const p = decode({ min: base64(-127, 0), max: base64(127, 64), rms: base64(255, 51) });
    expect([...p.min]).toEqual([-1, 0]);
    expect(p.max[0]).toBe(1);
    expect(p.max[1]).toBeCloseTo(64 / 127, 5);
    expect(p.rms[1]).toBeCloseTo(0.2, 5);
  });
  it("maps moments to places and back", () => {
    const r = { from: 1000, to: 3000 };
    expect(shareOf(r, 1500)).toBe(0.25);
    expect(momentAt(r, 0.25)).toBe(1500);
    expect([momentAt(r, -1), momentAt(r, 2)]).toEqual([1000, 3000]);
    expect(shareOf({ from: 0, to: 0 }, 5)).toBe(0);
  });
  it("zooms around a moment and stays within the recording", () => {
    expect(zoom({ from: 0, to: 10_000 }, 0.5, 5000, 10_000)).toEqual({ from: 2500, to: 7500 });
    expect(zoom({ from: 0, to: 10_000 }, 0.5, 0, 10_000)).toEqual({ from: 0, to: 5000 });
    expect(zoom({ from: 2500, to: 7500 }, 4, 2500, 10_000)).toEqual({ from: 0, to: 10_000 });
    expect(zoom({ from: 0, to: 600 }, 0.1, 0, 10_000)).toEqual({ from: 0, to: 500 });
    expect(zoom({ from: 0, to: 300 }, 0.1, 0, 300)).toEqual({ from: 0, to: 300 });
  });
  it("follows the playing moment", () => {
    expect(follow({ from: 0, to: 1000 }, 500, 5000)).toEqual({ from: 0, to: 1000 });
    expect(follow({ from: 0, to: 1000 }, 1200, 5000)).toEqual({ from: 1200, to: 2200 });
    expect(follow({ from: 0, to: 1000 }, 4900, 5000)).toEqual({ from: 4000, to: 5000 });
  });
});
