import { describe, expect, it } from "vitest";
import { addressOf, itemOf, placeOf } from "./address";
import { fromField, toField } from "./edit.svelte";
import { fake, hit, turnHit } from "./fixtures";
import { droppedPath } from "./importing.svelte";
import { paletteMemory } from "./palette";
import { readable } from "./rows";
import { bars, bestOf, firstLine, monthSpan, monthWord, pieces, priors, resultWords, spansOf, tagsOf } from "./words";

describe("addresses", () => {
  it("go there and back", () => {
    for (const a of ["memory", "memory/list/memory/m1", "memory/list/turn/t1/c1/7", "memory/conversations/c1", "memory/documents/d1", "memory/timeline/conversation/c1", "memory/list/chunk/k1/d1/0"]) {
      const p = placeOf(a.split("/").slice(1));
      expect(addressOf(p.view, p.item)).toBe(a);
    }
    expect(placeOf(["m1"])).toEqual({ view: "list", item: { kind: "memory", id: "m1", parentId: "", seq: -1 } });
    expect(placeOf(["list", "nonsense", "x"]).item).toBeNull();
    expect(itemOf(turnHit("t1", "c1", 7))).toEqual({ kind: "turn", id: "t1", parentId: "c1", seq: 7 });
  });
});

describe("text", () => {
  it("is cut at its marks, whatever they are", () => {
    expect(pieces("abcdef", [{ start: 1, end: 3 }, { start: 2, end: 4 }, { start: 9, end: 12 }])).toEqual([
      { text: "a", mark: false },
      { text: "bc", mark: true },
      { text: "d", mark: true },
      { text: "ef", mark: false },
    ]);
    expect(pieces("", [])).toEqual([]);
  });

  it("marks whole words in any case", () => {
    expect(spansOf("Pasta, antipasta, PASTA", ["pasta"])).toEqual([{ start: 0, end: 5 }, { start: 18, end: 23 }]);
    expect(spansOf("x", ["", " "])).toEqual([]);
    expect(spansOf("İstanbul", ["istanbul"])).toEqual([]);
  });

  it("has a first line without signs, and tags without doubles", () => {
    expect(firstLine("\n## Title\nmore")).toBe("Title");
    expect(firstLine("- item")).toBe("item");
    expect(firstLine("a\u202eb")).toContain("U+202E");
    expect(tagsOf(" #Work, work\nHome ,")).toEqual(["work", "home"]);
    expect(readable("file:///a%20b/c.md")).toBe("/a b/c.md");
    expect(readable("file:///%zz")).toBe("file:///%zz");
  });

  it("names months as the backend counts them", () => {
    expect(monthWord("2024-02")).toBe("February 2024");
    expect(monthWord("")).toBe("No date");
    expect(monthSpan("2024-12")).toEqual({ from: "2024-12-01T00:00:00.000Z", to: "2025-01-01T00:00:00.000Z" });
  });

  it("says what an import did", () => {
    expect(resultWords({ added: 1200, updated: 0, skipped: 3, failed: 1 })).toBe("1,200 added, 3 already imported, 1 unreadable");
  });
});

describe("why something was found", () => {
  const base = hit("a").parts!;
  it("has a bar for each list, against the best of all", () => {
    const best = bestOf([base, { ...base, bm25: 8, window: 4 }, undefined]);
    expect(bars(base, best).map((b) => [b.name, b.width])).toEqual([["Words", 0.5], ["Meaning", 0.5], ["With surrounding context", 0.5]]);
    const { bm25Rank: _r, bm25: _b, vectorRank: _v, cosine: _c, ...bare } = base;
    expect(bars({ ...bare, window: 0 }, best).map((b) => b.text)).toEqual(["not found", "not compared", "no share"]);
  });

  it("names only what shifted something", () => {
    expect(priors(base)).toEqual([]);
    expect(priors({ ...base, recency: 1.1, pinned: 1.05 })).toEqual([{ name: "Recency", value: "× 1.10" }, { name: "Pinned", value: "× 1.05" }]);
  });
});

describe("fields", () => {
  it("hold times there and back", () => {
    const at = new Date(2024, 1, 29, 13, 5).toISOString();
    expect(fromField(toField(at))).toBe(at);
    expect(fromField("")).toBeNull();
    expect(fromField("2024-13-45T99:00")).toBeUndefined();
    expect(toField("nonsense")).toBe("");
  });

  it("take the path of a dropped file where the browser gives it", () => {
    expect(droppedPath("# c\r\nfile:///home/me/my%20chats.zip\r\n")).toBe("/home/me/my chats.zip");
    expect(droppedPath("file:///C:/Users/me/a.zip")).toBe("C:/Users/me/a.zip");
    expect(droppedPath("https://example.org/a.zip")).toBe("");
    expect(droppedPath("")).toBe("");
  });
});

describe("the palette", () => {
  it("finds memories by what is typed, and asks nothing for one letter", async () => {
    const rpc = fake({ "memory.search": () => ({ results: [hit("a"), turnHit("t1", "c1", 3)], tookMs: 1, mode: "hybrid", modelId: "" }) });
    expect(await paletteMemory(rpc as never, "ab", () => {})).toEqual([]);
    let went = "";
    const found = await paletteMemory(rpc as never, "find: nut allergy", (to) => (went = to));
    expect(rpc.sent("memory.search")).toEqual([{ query: "nut allergy", limit: 8 }]);
    expect(found[0]?.title).toBe("Memory: Text of a");
    found[1]?.run();
    expect(went).toBe("memory/list/turn/t1/c1/3");
  });
});
