import { describe, expect, it, vi } from "vitest";
import { overlap } from "../../lib/chart/geometry";
import { fakeRpc } from "../../lib/rpc/fake";
import { addressOf, placeOf } from "./address";
import { circles, fits, groups, placeAll, quadrants, wrap, type Quadrant } from "./ikigai";
import { en } from "./messages";
import de from "./messages.de";
import { sentenceOf } from "./proposal";
import { PsychologyScreen, proposable } from "./psychology.svelte";
import { ringOf, stages } from "./trust";

const measure = (s: string): number => 7 * s.length;

describe("circles of purpose", () => {
  const of = (e: { q: string; text: string }) => ({ quadrant: e.q, text: e.text });

  it("put a text that several circles hold where they overlap", () => {
    const found = groups([{ q: "love", text: "Teach" }, { q: "good", text: " teach " }, { q: "paid", text: "Bank" }, { q: "need", text: "TEACH" }], of);
    expect(found.map((g) => [g.text, g.in])).toEqual([["Teach", ["love", "good", "need"]], ["Bank", ["paid"]]]);
    expect(found[0]!.entries.length).toBe(3);
  });

  it("show a text of two circles that face each other in each of them", () => {
    const found = groups([{ q: "love", text: "Dance" }, { q: "paid", text: "Dance" }], of);
    expect(found.map((g) => g.in)).toEqual([["love"], ["paid"]]);
    expect(new Set(found.map((g) => g.key)).size).toBe(2);
  });

  it("hold each text inside of its circles and outside of the others, without overlap, the same each time", () => {
    const size = 416;
    const all = circles(size);
    const sets: Quadrant[][] = [["love"], ["good"], ["need"], ["paid"], ["love", "good"], ["love", "need"], ["good", "paid"], ["need", "paid"], [...quadrants]];
    const wanted = Array.from({ length: 36 }, (_, i) => ({ in: sets[i % sets.length]!, sizes: [{ w: 60 + (i % 5) * 8, h: 24 }, { w: 40, h: 24 }, { w: 24, h: 24 }] }));
    const placed = placeAll(wanted, all, size);
    const shown = placed.flatMap((b, i) => (b ? [{ b, i }] : []));
    expect(shown.length).toBeGreaterThan(20);
    for (const { b, i } of shown) {
      expect(fits(b, wanted[i]!.in, all)).toBe(true);
      expect({ w: b.w, h: b.h }).toEqual(wanted[i]!.sizes[b.size]);
    }
    shown.forEach(({ b }, n) => shown.slice(n + 1).forEach((o) => expect(overlap(b, o.b)).toBe(false)));
    expect(placeAll(wanted, all, size)).toEqual(placed);
  });

  it("give no place where there is none", () => {
    const all = circles(416);
    expect(placeAll([{ in: ["love"], sizes: [{ w: 500, h: 24 }] }], all, 416)).toEqual([null]);
    expect(placeAll([{ in: ["love", "paid"], sizes: [{ w: 10, h: 10 }] }], all, 416), "these two overlap only where all do").toEqual([null]);
  });

  it("wrap long texts and cut what has no room", () => {
    expect(wrap("Safe places for young people", 100, 3, measure)).toEqual(["Safe places", "for young", "people"]);
    expect(wrap("Safe places for young people", 100, 2, measure)).toEqual(["Safe places", "for young …"]);
    expect(wrap("Donaudampfschifffahrt", 70, 2, measure)).toEqual(["Donaudamp…"]);
    expect(wrap("", 70, 2, measure)).toEqual([]);
    for (const text of ["a", "one two three four five", "averyveryverylongword and more"]) for (const w of [30, 60, 200]) for (const line of wrap(text, w, 2, measure)) expect(measure(line)).toBeLessThanOrEqual(Math.max(w, 14));
  });
});

describe("rings of trust", () => {
  it("are stages: nearer the center the later the stage, and within one the more trust", () => {
    const r = stages.map((s) => ringOf(s, 0.5));
    expect([...r].sort((a, b) => b - a)).toEqual(r);
    expect(ringOf("early_trust", 0.2)).toBeGreaterThan(ringOf("early_trust", 0.29));
    for (const [i, s] of stages.entries())
      for (const trust of [0, 0.1, 0.5, 1]) {
        expect(ringOf(s, trust)).toBeLessThan((stages.length - i) / stages.length);
        expect(ringOf(s, trust)).toBeGreaterThan((stages.length - i - 1) / stages.length);
      }
  });
});

describe("proposals", () => {
  const pattern = (over: object = {}) => ({ type: "support", engine: "local", description: "5 memories mention support together with *Anna*", subjects: ["Anna"], evidence: ["a", "b"], confidenceParts: {}, firstEvidence: "2026-05-04T09:00:00Z", lastEvidence: "2026-05-06T09:00:00Z", ...over }) as never;

  it("are sentences of the catalogue, for each type", () => {
    for (const type of proposable) expect(sentenceOf(pattern({ type })), type).not.toContain("memories mention");
    expect(sentenceOf(pattern())).toMatch(/^Support or help in connection with Anna: 2 texts \(.*2026\)$/);
    expect(sentenceOf(pattern({ type: "identity_development", confidenceParts: { before: 0.25, after: 0.5 } }))).toBe("You wrote more about Anna: 25% of texts before, 50% after");
  });

  it("are the words of a model where one has written them", () => {
    expect(sentenceOf(pattern({ engine: "llm" }))).toBe("5 memories mention support together with Anna");
  });
});

describe("why something fades", () => {
  it("is said in the language of the interface", () => {
    const cause = (days: number, halfLifeHours: number) => ({ code: "decays", days, halfLifeHours });
    expect([en.decays(cause(0, 36)), en.decays(cause(1, 48)), en.decays(cause(10, 720))]).toEqual(["Revisited today; halves in about 36 hours.", "Not revisited for 1 day; halves in about 2 days.", "Not revisited for 10 days; halves in about 30 days."]);
    expect([de.decays(cause(0, 36)), de.decays(cause(10, 720))]).toEqual(["Heute aufgefrischt; halbiert sich in etwa 36 Stunden.", "Seit 10 Tagen nicht aufgefrischt; halbiert sich in etwa 30 Tagen."]);
    expect(Object.keys(de.causes)).toEqual(Object.keys(en.causes));
  });
});

describe("the psychology screen", () => {
  const entry = (over: object = {}) => ({ id: "e1", layerNumber: 4, kind: "goal", data: { title: "Run", targetDate: "2027-01-01" }, version: 3, retention: 1, memoryIds: [], ...over });
  function setup() {
    let undo: (() => unknown) | null = null;
    const said: string[] = [];
    const rpc = fakeRpc({
      "psychology.overview": () => ({ layers: [], settings: {} }),
      "psychology.get_layer": () => ({ layerNumber: 4, entries: [entry()], kinds: [] }),
      "psychology.goals": () => ({ entries: [] }),
      "psychology.forecast": () => ({ points: [], crossings: [], floor: 0.1, reason: "", cause: { code: "decays" }, item: { id: "e1", kind: "entry", layerNumber: 4 } }),
      "psychology.upsert_entry": (p: { version: number }) => entry({ version: p.version + 1 }),
      "psychology.plan_reviews": (p: { at: string[] }) => ({ reviews: p.at, undoToken: "psychology-r" }),
      "psychology.undo": () => ({ count: 1 }),
      "psychology.decay_run": () => ({ runId: "r", layers: 7, items: 12, changed: 4, fading: 1, skipped: [], trashed: [], tookMs: 1 }),
    } as never);
    const screen = new PsychologyScreen(rpc, {
      ok: (title: string) => said.push(title),
      add: (x: { title: string }) => said.push(x.title),
      error: (_e: unknown, title = "") => said.push(title),
      undo: (title: string, restore: () => unknown) => (said.push(title), (undo = restore)),
    } as never);
    return { rpc, screen, said, takeBack: () => undo?.() };
  }

  it("reads addresses", () => {
    expect(placeOf([])).toEqual({ view: "overview", layer: 0, id: "" });
    expect(placeOf(["layers", "7", "x"])).toEqual({ view: "layers", layer: 7, id: "x" });
    expect(placeOf(["layers", "9"])).toEqual({ view: "layers", layer: 1, id: "" });
    expect(addressOf(placeOf(["layers", "2", "x"]))).toBe("psychology/layers/2/x");
    expect(addressOf(placeOf(["patterns"]))).toBe("psychology/patterns");
  });

  it("moves a date and takes that back with the version that the move has made", async () => {
    const s = setup();
    await s.screen.change(entry() as never, { targetDate: "2027-02-01" }, "moved");
    await s.takeBack();
    const sent = s.rpc.sent("psychology.upsert_entry" as never) as unknown as { data: { targetDate: string; title: string }; version: number }[];
    expect(sent.map((p) => [p.data.title, p.data.targetDate, p.version])).toEqual([["Run", "2027-02-01", 3], ["Run", "2027-01-01", 4]]);
  });

  it("tries out planned reviews in the forecast without saving them", async () => {
    const s = setup();
    s.screen.show({ view: "layers", layer: 4, id: "e1" });
    s.screen.assume({ reviews: ["2027-01-05", "2027-02-05"] });
    await vi.waitFor(() => expect(s.rpc.sent("psychology.forecast" as never)).toContainEqual(expect.objectContaining({ whatIf: { reinforceAt: ["2027-01-05T12:00:00Z", "2027-02-05T12:00:00Z"] } })));
    expect(s.rpc.sent("psychology.reinforce" as never)).toEqual([]);
    expect(s.rpc.sent("psychology.plan_reviews" as never)).toEqual([]);
    await s.screen.apply();
    expect(s.rpc.sent("psychology.plan_reviews" as never)).toEqual([{ id: "e1", at: ["2027-01-05T12:00:00Z", "2027-02-05T12:00:00Z"] }]);
    expect(s.said).toEqual(["2 reviews planned"]);
    await s.takeBack();
    expect(s.rpc.sent("psychology.undo" as never)).toEqual([{ undoToken: "psychology-r" }]);
  });

  it("shows what a check would change until one is made", async () => {
    const s = setup();
    await s.screen.check(true);
    expect(s.screen.dryRun?.changed).toBe(4);
    await s.screen.check(false);
    expect(s.screen.dryRun).toBeNull();
    expect(s.said).toEqual(["4 values updated"]);
  });
});
