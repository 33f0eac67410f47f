import { describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { fake, schedule, status, times, until } from "./fixtures";
import { numberError, placeOf, ScheduleForm } from "./form.svelte";

function setup() {
  const rpc = fake({
    "schedules.preview": (p: { cadence: { type: string; expression?: string; timezone?: string } }) => {
      if (p.cadence.expression?.startsWith("60 ")) throw new RpcError({ kind: "invalid", message: "Minutes go from 0 to 59.", details: { field: "cadence.expression[0]", code: "syntax" } });
      if (p.cadence.timezone === "Mars/Base") throw new RpcError({ kind: "invalid", message: "Nobody knows this place.", details: { field: "cadence.timezone", code: "unknown_value" } });
      return { times: times("2026-03-02T09:00:00Z", 86_400_000, 10), description: "every day at 09:00", warnings: [], cadence: p.cadence };
    },
    "schedules.create": (p: object) => schedule({ ...p, scheduleId: "new" } as never),
    "schedules.update": (p: { patch: object }) => schedule(p.patch as never),
    "schedules.get": () => schedule({ revision: 4 }),
    "callables.list": (p: { kind: string }) => ({
      callables: [
        { kind: "skill", id: "k1", name: "Report", effects: {}, input: { type: "object", properties: { city: { type: "string" } } } },
        { kind: "skill", id: "k2", name: "Draft", effects: {}, blocked: "draft" },
        { kind: "tool", id: "t1", name: "Fetch", effects: {}, input: { type: "object", properties: { url: { type: "string" } } } },
        { kind: "tool", id: "t2", name: "Fetch of others", effects: {}, blocked: "foreign" },
      ].filter((c) => c.kind === p.kind),
    }),
    "skills.preview_rights": () => ({ steps: [{ stepPath: "steps[0]", toolName: "Fetch page", missing: ["network:https(a.org)"], granted: [], needs: [], toolHash: "", tier: "" }], union: ["network:https(a.org)"], verdict: "denied" }),
    "permissions.preview": () => ({ steps: [], union: [], hosts: [], secrets: [], tier: "", willAsk: [], stops: [], unattended: "ok", unresolved: [] }),
  });
  return { rpc, form: new ScheduleForm(rpc as never) };
}

describe("a new schedule", () => {
  it("starts with the zone of the backend and the first kind that works", async () => {
    const { rpc, form } = setup();
    form.begin(status());
    expect([form.kind, form.zone, form.preset]).toEqual(["skill", "Europe/Berlin", "daily"]);
    expect(form.dirty).toBe(false);
    expect(form.blocked).toBe("Choose what to run");
    await until(() => form.choices.length === 2);
    expect(form.choices[1]!.blocked).toContain("draft");
    form.setTarget("k1");
    expect(form.name).toBe("Report");
    expect(form.blocked).toBe("Loading the input fields");
    await until(() => form.blocked === "");
    await until(() => form.rights.data !== undefined);
    expect(form.rights.data).toMatchObject({ ok: false, step: "Fetch page", needs: ["network:https(a.org)"] });
    expect(rpc.sent("skills.preview_rights")).toEqual([{ skillId: "k1", unattended: true }]);
    expect(form.schema.data?.schema).toHaveProperty("properties");
  });

  it("takes the name of the target until somebody writes one", async () => {
    const { form } = setup();
    form.begin(status());
    form.setKind("tool");
    await until(() => form.choices.length === 1);
    form.setTarget("t1");
    expect(form.name).toBe("Fetch");
    form.setName("My fetch");
    form.setKind("skill");
    await until(() => form.choices.length === 2);
    form.setTarget("k1");
    expect(form.name).toBe("My fetch");
  });

  it("shows its times, again after each change but not for each letter", async () => {
    const { rpc, form } = setup();
    form.begin(status());
    await until(() => form.preview.data !== undefined);
    const before = rpc.sent("schedules.preview").length;
    form.setPreset("custom");
    form.setExpression("1");
    form.setExpression("1 2 * * *");
    form.setZone("Asia/Tokyo");
    await until(() => rpc.sent("schedules.preview").length > before);
    expect(rpc.sent("schedules.preview")).toHaveLength(before + 1);
    expect(rpc.sent("schedules.preview").at(-1).cadence).toEqual({ type: "cron", expression: "1 2 * * *", timezone: "Asia/Tokyo" });
  });

  it("says at the field what the backend refuses and keeps what is typed", async () => {
    const { rpc, form } = setup();
    form.begin(status());
    form.setTarget("k1");
    form.setName("Kept");
    form.setExpression("60 * * * *");
    await until(() => form.preview.error !== undefined);
    expect([form.refused.when, form.wrongPart]).toEqual(["Minutes go from 0 to 59.", 0]);
    expect(form.blocked).toBe("Fix the times first");
    expect(await form.save()).toBeNull();
    await until(() => form.schema.data !== undefined);
    form.setExpression("0 9 * * *");
    form.setZone("Mars/Base");
    await until(() => form.refused.zone !== undefined);
    form.setZone("UTC");
    await until(() => form.preview.error === undefined);
    expect(form.wrongPart).toBe(-1);
    rpc.failNext("schedules.create", new RpcError({ kind: "limit", message: "50 schedules at most" }));
    expect(await form.save()).toBeNull();
    expect(form.refused).toEqual({ "": "50 schedules at most" });
    expect([form.open, form.name, form.error?.message]).toEqual([true, "Kept", "50 schedules at most"]);
    rpc.failNext("schedules.create", new RpcError({ kind: "invalid", message: "A city is needed.", details: { field: "target.input", code: "invalid", errors: [{ path: "/city", keyword: "required", message: "missing" }] } }));
    expect(await form.save()).toBeNull();
    expect(form.refused).toEqual({ input: "A city is needed." });
    const errors = [
      { path: "jitterSecs", code: "out_of_range", message: "Too long." },
      { path: "retry.max", code: "out_of_range", message: "Too many." },
      { path: "budget.maxTurns", code: "out_of_range", message: "Too few." },
    ];
    rpc.failNext("schedules.create", new RpcError({ kind: "invalid", message: "Three are wrong.", details: { errors } }));
    expect(await form.save()).toBeNull();
    expect(form.refused).toEqual({ jitter: "Too long.", retries: "Too many.", "": "Too few." });
    rpc.failNext("schedules.create", new RpcError({ kind: "conflict", message: "It is disabled.", details: { field: "target", code: "conflict" } }));
    expect(await form.save()).toBeNull();
    expect(form.refused).toEqual({ target: "It is disabled." });
    expect((await form.save())?.scheduleId).toBe("new");
    expect(form.open).toBe(false);
  });

  it("sends everything that was decided", async () => {
    const { rpc, form } = setup();
    form.begin(status());
    form.setTarget("k1");
    await until(() => form.name === "Report");
    form.input = { city: "Oslo" };
    form.setWhen("interval");
    form.every = "90";
    form.everyUnit = "60";
    form.missed = "all";
    form.grace = "2";
    form.graceUnit = "3600";
    form.maxRun = "0.5";
    form.maxRuns = "10";
    form.startsAt = "2027-01-01T00:00";
    form.paused = true;
    form.notification = "never";
    form.notifyWhen = "ignored";
    await form.save();
    expect(rpc.sent("schedules.create")[0]).toMatchObject({
      name: "Report",
      target: { kind: "skill", id: "k1", input: { city: "Oslo" } },
      cadence: { type: "interval", everySecs: 5400 },
      missedPolicy: "all",
      graceSecs: 7200,
      maxRunMs: 30_000,
      maxRuns: 10,
      startsAt: new Date("2027-01-01T00:00").toISOString(),
      paused: true,
      notifyWhen: "",
    });
    expect(rpc.sent("schedules.create")[0]).not.toHaveProperty("endsAt");
  });

  it("begins from a template and is then worth asking about", () => {
    const { form } = setup();
    form.begin(status(), { key: "review", name: "Weekly review", description: "", target: { kind: "skill", id: "k1" }, cadence: { type: "cron", expression: "0 3 * * 0", timezone: "Asia/Tokyo" }, words: "", parts: {} });
    expect([form.name, form.preset, form.expression, form.zone]).toEqual(["Weekly review", "days", "0 3 * * 0", "Asia/Tokyo"]);
    expect(form.dirty).toBe(true);
  });

  it("does not take a time that has passed", () => {
    const { form } = setup();
    form.begin(status());
    form.setWhen("once");
    expect(form.onceError).toBe("");
    form.onceDay = "2020-01-01";
    expect(form.onceError).toBe("This time is in the past.");
    expect(form.cadence()).toEqual({ type: "once", at: new Date("2020-01-01T09:00").toISOString() });
  });
});

describe("editing", () => {
  it("sends only what changed, and null for what was emptied", async () => {
    const { rpc, form } = setup();
    form.edit(schedule({ graceSecs: 90, endsAt: "2027-01-01T10:00:00Z", maxRuns: 5 }));
    expect(form.dirty).toBe(false);
    expect(form.patch()).toEqual({});
    form.setName("Evening report");
    form.endsAt = "";
    form.maxRuns = "";
    form.takeover = true;
    expect(form.patch()).toEqual({ name: "Evening report", endsAt: null, maxRuns: null, placement: { homeDeviceId: "d1", takeover: true, here: true } });
    await form.save();
    expect(rpc.sent("schedules.update")[0]).toMatchObject({ scheduleId: "s1", expectedRevision: 3, patch: { name: "Evening report" } });
  });

  it("keeps what is typed when it was changed elsewhere, and saves on top", async () => {
    const { rpc, form } = setup();
    form.edit(schedule());
    form.setName("Mine");
    rpc.failNext("schedules.update", new RpcError({ kind: "conflict", message: "It was changed." }));
    expect(await form.save()).toBeNull();
    expect([form.stale, form.name, form.open]).toEqual([true, "Mine", true]);
    await form.save();
    expect(rpc.sent("schedules.update")[1].expectedRevision).toBe(4);
  });

  it("keeps following the zone of the device where it did", () => {
    const { form } = setup();
    form.edit(schedule({ osZone: true }));
    expect(form.zone).toBe("");
    expect(form.cadence()).toEqual({ type: "cron", expression: "0 9 * * 1-5" });
    form.setZone("Asia/Tokyo");
    expect(form.patch()).toEqual({ cadence: { type: "cron", expression: "0 9 * * 1-5", timezone: "Asia/Tokyo" } });
    form.setZone("");
    expect(form.dirty).toBe(false);
  });

  it("copies everything into a new one", () => {
    const { form } = setup();
    form.copy(schedule({ missedPolicy: "all" }));
    expect([form.base, form.name, form.missed, form.dirty]).toEqual([null, "Morning report copy", "all", true]);
  });
});

describe("errors", () => {
  it("belong to the field that their path names, whatever they say", () => {
    expect(["cadence", "cadence.at", "cadence.expression[4]", "cadence.timezone"].map(placeOf)).toEqual(["when", "when", "when", "zone"]);
    expect(["target.input", "target.input/city", "target.id", "target"].map(placeOf)).toEqual(["input", "input", "target", "target"]);
    expect(["retry.max", "graceSecs", "placement", "", "cadences"].map(placeOf)).toEqual(["retries", "grace", "", "", ""]);
  });

  it("of numbers say what is allowed", () => {
    expect(["", "x", "1.5", "0", "3000", "7"].map((t) => numberError(t, 1, 2000))).toEqual(["Enter a whole number.", "Enter a whole number.", "Enter a whole number.", "At least 1.", "At most 2,000.", ""]);
    expect(numberError("1.5", 1, 2, false)).toBe("");
  });
});
