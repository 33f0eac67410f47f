import { afterEach, describe, expect, it, vi } from "vitest";
import { catalogue, choose, date, dateRange, language, listing, number, plural } from ".";
import { preferred } from "./language.svelte";
import { pseudo } from "./pseudo";

const en = { title: "Runs", runs: (n: number) => plural(n, { one: "run", other: "runs" }), states: { on: "On" } };
const de = { title: "Läufe", runs: (n: number) => plural(n, { one: "Lauf", other: "Läufe" }), states: { on: "An" } } satisfies typeof en;

vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {}, removeItem: () => {} });
afterEach(() => language.set("en"));

describe("a catalogue", () => {
  it("switches between languages, with plurals and numbers of each", async () => {
    const t = catalogue(en, { de: async () => ({ default: de }) });
    expect([t.title, t.runs(1), t.runs(1200)]).toEqual(["Runs", "1 run", "1,200 runs"]);
    await language.set("de");
    expect([t.title, t.runs(1), t.runs(1200), t.states.on]).toEqual(["Läufe", "1 Lauf", "1.200 Läufe", "An"]);
    expect(dateRange(new Date(2026, 10, 23), new Date(2026, 10, 29), { day: "numeric", month: "long", year: "numeric" })).toBe("23.–29. November 2026");
    expect([number(0.5), listing(["a", "b", "c"]), date("2026-03-02T12:00:00Z", { day: "numeric", month: "long" })]).toEqual(["0,5", "a, b und c", "2. März"]);
  });

  it("loads a language only when it is chosen, also for a catalogue that comes later", async () => {
    const load = vi.fn(async () => ({ default: de }));
    catalogue(en, { de: load });
    expect(load).not.toHaveBeenCalled();
    await language.set("de");
    expect(load).toHaveBeenCalledTimes(1);
    const late = catalogue(en, { de: load });
    await language.ready();
    expect(late.title).toBe("Läufe");
  });

  it("keeps the former language when the texts of another can't be loaded", async () => {
    let broken = true;
    const t = catalogue(en, { de: async () => (broken ? Promise.reject(new Error("offline")) : { default: de }) });
    await expect(language.set("de")).rejects.toThrow("offline");
    expect([language.current, language.choice, t.title]).toEqual(["en", "en", "Runs"]);
    broken = false;
    await language.set("de");
    expect(t.title).toBe("Läufe");
  });

  it("shows the language that was chosen last, whichever is loaded first", async () => {
    let loaded: (m: { default: typeof de }) => void = () => {};
    catalogue(en, { de: () => new Promise((r) => (loaded = r)) });
    const slow = language.set("de");
    await language.set("pseudo");
    loaded({ default: de });
    await slow;
    expect([language.current, language.choice]).toEqual(["pseudo", "pseudo"]);
  });

  it("has a pseudo-locale that is longer everywhere", () => {
    const p = pseudo(en);
    expect(p.title.length).toBeGreaterThan(en.title.length);
    expect(p.runs(3)).toContain("3 rüñš");
    expect(p.states.on).not.toBe("On");
  });
});

describe("languages", () => {
  it("are taken from the browser as far as there is a catalogue", () => {
    expect([["de-AT", "en"], ["fr", "de"], ["fr", "ja"], []].map(preferred)).toEqual(["de", "de", "en", "en"]);
  });

  it("have their own plural forms", () => {
    expect([0, 1, 2].map((n) => choose(n, { one: "is", other: "are" }))).toEqual(["are", "is", "are"]);
  });
});
