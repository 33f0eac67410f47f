import { describe, expect, it } from "vitest";
import { addressOf, placeOf } from "./address";
import { asCadence, explainCron, inUnits, presetOf, presets, span, weeklyCron, weeklyOf } from "./cadence";
import { times } from "./fixtures";
import { nth } from "./messages";
import { missedExample } from "./missed";
import { absolute, markOf, marksWords, noteWords, onThisClock, reasonWord, stretch, until, wallDay, wallTime } from "./words";
import { city, offset, zones } from "./zones";

describe("a cron text", () => {
  const means = (text: string) => explainCron(text).map((p) => p.means);

  it("is explained field by field", () => {
    expect(means("0 9 * * 1-5")).toEqual(["0", "9", "any", "any", "Monday to Friday"]);
    expect(means("*/15 8-18/2 1,15 JAN,7 0")).toEqual(["every 15 minutes", "every 2 hours, 8 to 18", "the 1st and the 15th", "January and July", "Sunday"]);
    expect(means("30 0 0 L * 5#3")).toEqual(["30", "0", "0", "the last day", "any", "the 3rd Friday of the month"]);
    expect(means("0 0 15W * 7")).toEqual(["0", "0", "the weekday nearest the 15th", "any", "Sunday"]);
    expect(means("@weekly")).toEqual(["0", "0", "any", "any", "Sunday"]);
  });

  it("shows what is still to come and what it cannot tell", () => {
    const parts = explainCron("0 9");
    expect(parts.map((p) => p.text)).toEqual(["0", "9", "", "", ""]);
    expect(means("60 x * * *")).toEqual(["", "", "any", "any", "any"]);
    expect(explainCron("")).toHaveLength(5);
  });

  it("finds the part that an error is about", () => {
  });

  it("is known by its preset", () => {
    for (const [name, expression] of Object.entries(presets)) expect(presetOf(` ${expression} `)).toBe(name);
    expect(presetOf("1 2 3 4 5")).toBe("custom");
    expect(presetOf("30 8 * * 1-5")).toBe("days");
    expect(weeklyOf("30 8 * * 1-5")).toEqual({ days: [1, 2, 3, 4, 5], time: "08:30" });
    expect(weeklyOf("5 22 * * 0,6-7")).toEqual({ days: [0, 6], time: "22:05" });
    expect(weeklyOf("5 22 1 * 0")).toBeNull();
    expect(weeklyOf("60 22 * * 0")).toBeNull();
    for (const cron of ["30 8 * * 1-5", "0 0 * * *", "5 22 * * 0,6"]) expect(weeklyCron(weeklyOf(cron)!)).toBe(cron);
    expect(weeklyCron({ days: [], time: "07:00" })).toBe("0 7 * * *");
  });
});

describe("lengths of time", () => {
  it("are said in the largest unit", () => {
    expect(inUnits(7200)).toEqual({ count: 2, unit: "3600" });
    expect(inUnits(90)).toEqual({ count: 1.5, unit: "60" });
    expect([45, 90, 60, 3600, 5400, 86_400, 259_200].map(span)).toEqual(["45 s", "90 s", "1 minute", "1 hour", "90 minutes", "1 day", "3 days"]);
    expect([1, 2, 3, 4, 11, 12, 13, 21, 22].map(nth)).toEqual(["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd"]);
  });

  it("count down", () => {
    const now = Date.UTC(2026, 2, 2, 8);
    expect([-5, 30, 840, 10_800, 259_200].map((s) => until(now + s * 1000, now))).toEqual(["now", "in 30 s", "in 14 min", "in 3 h", "in 3 d"]);
    expect(until("no time")).toBe("");
  });
});

describe("what is missed", () => {
  const daily = times("2026-03-02T09:00:00Z", 86_400_000, 10);

  it("is explained on the schedule's own times", () => {
    expect(missedExample(daily, "skip", 86_400)).toContain("all 3 are listed as missed");
    expect(missedExample(daily, "once", 86_400)).toContain("Only the latest, Wed 4 Mar 09:00, runs immediately; the other 2 are listed as missed.");
    expect(missedExample(daily, "all", 7 * 86_400)).toContain("3 runs follow one after another");
    expect(missedExample(daily, "all", 90_000)).toContain("2 runs follow one after another, oldest first; the other one is more than 25 hours late");
    expect(missedExample(daily, "all", 60)).toContain("No catch-up runs");
  });

  it("has an example for a single time, and none without any", () => {
    expect(missedExample(daily.slice(0, 1), "once", 86_400)).toContain("It runs immediately.");
    expect(missedExample([], "once", 86_400)).toBe("");
  });
});

describe("words about runs", () => {
  it("name each mark and count them", () => {
    expect(["success", "ran", "failed", "missed", "skipped", "interrupted", "waiting", "planned"].map(markOf)).toEqual(["succeeded", "succeeded", "failed", "missed", "skipped", "canceled", "running", "planned"]);
    expect(marksWords([{ status: "success" }, { status: "success" }, { status: "failed" }])).toBe("last 3 runs: 2 succeeded, 1 failed");
    expect(marksWords([])).toBe("never run");
  });

  it("say why a time was missed", () => {
    const from = new Date(2026, 2, 2, 2, 10).toISOString();
    const to = new Date(2026, 2, 2, 7, 45).toISOString();
    const now = Date.parse(to);
    expect(reasonWord({ status: "missed", reason: "asleep", dueAt: from, lastMissedAt: to, missedCount: 12, missedMore: false }, now)).toBe("12 times, asleep 2 Mar 02:10–07:45");
    expect(reasonWord({ status: "missed", reason: "not_running", dueAt: from, lastMissedAt: to, missedCount: 1000, missedMore: true }, now)).toContain("more than 1,000 times");
    expect(reasonWord({ status: "missed", reason: "asleep", dueAt: from }, now)).toBe("asleep");
    expect(reasonWord({ status: "missed", reason: "asleep", dueAt: new Date(2026, 2, 2, 3).toISOString(), startedAt: from, finishedAt: to }, now)).toBe("asleep 2 Mar 02:10–07:45");
    expect(reasonWord({ status: "skipped", reason: "overlap", dueAt: from })).toBe("the previous run hadn't finished");
    expect(reasonWord({ status: "success", dueAt: from })).toBe("");
    expect(stretch(from, new Date(2026, 2, 3, 1).toISOString(), now)).toBe("2 Mar 02:10 to 3 Mar 01:00");
  });

  it("show times without a zone by the clock of this device", () => {
    const at = new Date(2026, 2, 2, 9, 5, 7);
    const [t] = onThisClock([{ at: at.toISOString(), local: "x", offset: "x" }], false);
    expect(t!.local).toBe("2026-03-02 09:05:07");
    expect(t!.offset).toMatch(/^[+-]\d\d:\d\d$/);
    expect(onThisClock([{ at: "", local: "x", offset: "y" }], true)[0]!.local).toBe("x");
  });

  it("tell wall times without any zone of their own", () => {
    expect(wallDay("2026-03-29 03:00:00")).toBe("Sun 29 Mar 2026");
    expect([wallTime("2026-03-29 03:00:00"), wallTime("2026-03-29 03:00:30")]).toEqual(["03:00", "03:00:30"]);
    expect(noteWords("gap_shifted", "2026-03-29 03:00:00")).toBe("clock change: runs at 03:00");
    expect(noteWords("overlap_both", "")).toContain("both times");
    expect(absolute(new Date(2026, 2, 2, 9), Date.UTC(2026, 5))).toBe("Mon 2 Mar, 09:00");
  });
});

describe("time zones", () => {
  it("are listed once each, UTC first, also where the engine cannot list them", () => {
    const all = zones(["Mars/Base", "Europe/Berlin"]);
    expect(all[0]).toBe("UTC");
    expect(all.filter((z) => z === "Europe/Berlin")).toHaveLength(1);
    expect(all).toContain("Mars/Base");
    expect(all.length).toBeGreaterThan(300);
    expect(zones([], () => ["Asia/Tokyo"])).toEqual(["UTC", "Asia/Tokyo"]);
  });

  it("have an offset, except unknown ones", () => {
    expect(offset("Europe/Berlin", Date.UTC(2026, 6, 1))).toBe("UTC+02:00");
    expect(offset("UTC")).toMatch(/^UTC(\+00:00)?$/);
    expect(offset("Mars/Base")).toBe("");
    expect(city("America/New_York")).toBe("New York");
  });
});

describe("addresses", () => {
  it("lead back to where they came from", () => {
    for (const a of ["schedules", "schedules/s1", "schedules/s1/runs", "schedules/s1/runs/r1", "schedules/calendar", "schedules/calendar/s1/r1", "schedules/history", "schedules/history/s1/r1"]) {
      const p = placeOf(a.split("/").slice(1));
      expect(addressOf(p.view, p.scheduleId, p.tab, p.runId)).toBe(a);
    }
  });

  it("know what is no cadence", () => {
    expect(asCadence({ type: "moon" })).toBeNull();
    expect(asCadence(null)).toBeNull();
    expect(asCadence({ type: "once", at: "2026-03-02T08:00:00Z" })?.at).toBeDefined();
  });
});
