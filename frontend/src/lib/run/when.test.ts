import { afterEach, describe, expect, it, vi } from "vitest";
import { language, shipped } from "../i18n";
import { when, type CadenceParts } from "./when";

vi.stubGlobal("localStorage", { getItem: () => null, setItem: () => {}, removeItem: () => {} });
afterEach(() => language.set("en"));

const zone = { timezone: "Europe/Berlin" };

describe("texts of the backend", () => {
  it("are English as they come", () => {
    expect(when({ words: "every day at 06:00, Berlin", parts: { times: ["06:00"], ...zone } })).toBe("every day at 06:00, Berlin");
    expect(shipped("Memory decay")).toBe("Memory decay");
  });

  it.each<[CadenceParts, string]>([
    [{ everySecs: 3600 }, "jede Stunde"],
    [{ everySecs: 5400 }, "alle 90 Minuten"],
    [{ times: ["06:00"], ...zone }, "täglich um 06:00, Berlin"],
    [{ times: ["08:00", "20:00"], weekdays: [1, 2, 3, 4, 5], timezone: "UTC" }, "montags bis freitags um 08:00 und 20:00, UTC"],
    [{ times: ["00:00"], days: [1, 15], ...zone }, "am 1. und 15. des Monats um 00:00, Berlin"],
    [{ times: ["09:00"], days: [13], weekdays: [5], ...zone }, "freitags und außerdem am 13. des Monats um 09:00, Berlin"],
    [{ times: ["09:00"], dayStep: 2, weekdays: [1], bothDays: true, ...zone }, "montags, aber nur alle 2 Tage ab dem 1. des Monats um 09:00, Berlin"],
    [{ times: ["09:00"], months: [6], nthWeekdays: [{ nth: 2, weekday: 1 }], ...zone }, "am zweiten Montag des Monats im Juni um 09:00, Berlin"],
    [{ minutes: { values: [30] }, ...zone }, "jede Stunde zur Minute 30, Berlin"],
    [{ minutes: { values: [0] }, weekdays: [0, 6] }, "jede Stunde, am Wochenende"],
    [{ minutes: { step: 20 }, hours: { first: 9, last: 17 }, lastWeekdays: [6], ...zone }, "alle 20 Minuten, Stunden 9 bis 17, am letzten Samstag des Monats, Berlin"],
    [{ seconds: { step: 10 }, minutes: {} }, "alle 10 Sekunden, jede Minute"],
    [{}, "braucht ein neueres Helix"],
  ])("say %j in German", async (parts, german) => {
    await language.set("de");
    expect(when({ words: "in English", parts })).toBe(german);
  });

  it("are translated when the backend ships them, and left alone when a person wrote them", async () => {
    await language.set("de");
    expect(shipped("Memory decay")).toBe("Verblassen von Erinnerungen");
    expect(shipped("My own report")).toBe("My own report");
  });
});
