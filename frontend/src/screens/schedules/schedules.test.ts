import { describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { nav } from "../../lib/ui/state";
import { arrange, CalendarState, daysOf } from "./calendar.svelte";
import { fake, notice, run, schedule, status, until } from "./fixtures";
import { findRun, scheduleRuns } from "./history";
import { Notices, quietFor } from "./notices.svelte";
import { paletteSchedules } from "./palette";
import { pauseEnd, SchedulesScreen } from "./schedules.svelte";

function setup() {
  let rows = [schedule(), schedule({ scheduleId: "s2", name: "Clean up", system: true, target: { kind: "cleanup" } })];
  let pausedAll = false;
  const said: string[] = [];
  let undo: (() => Promise<unknown> | void) | null = null;
  let again: (() => void) | null = null;
  const change = (id: string, over: object) => {
    rows = rows.map((r) => (r.scheduleId === id ? { ...r, ...over } : r));
    return rows.find((r) => r.scheduleId === id);
  };
  const rpc = fake({
    "schedules.list": (p: { query?: string; limit: number; offset: number }) => {
      const hits = rows.filter((r) => !p.query || r.name.toLowerCase().includes(p.query));
      return { schedules: hits.slice(p.offset, p.offset + p.limit), total: hits.length, limit: p.limit, offset: p.offset };
    },
    "schedules.get": (p: { scheduleId: string }) => rows.find((r) => r.scheduleId === p.scheduleId),
    "schedules.status": () => status({ pausedAll }),
    "schedules.templates": () => ({ templates: [] }),
    "schedules.preview": () => ({ times: [], description: "", warnings: [], cadence: {} }),
    "schedules.runs": () => ({ runs: [run()] }),
    "schedules.run_output": () => ({ text: "done", truncated: false, totalChars: 4 }),
    "schedules.pause": (p: { scheduleId: string }) => change(p.scheduleId, { status: "paused" }),
    "schedules.resume": (p: { scheduleId: string }) => change(p.scheduleId, { status: "active" }),
    "schedules.pause_all": () => ((pausedAll = true), { paused: true }),
    "schedules.resume_all": () => ((pausedAll = false), { paused: false }),
    "schedules.run_now": () => ({ runId: "r9", targetRunId: "e9" }),
    "schedules.cancel_run": () => run({ status: "cancelled" }),
    "schedules.delete": (p: { scheduleId: string }) => {
      rows = rows.filter((r) => r.scheduleId !== p.scheduleId);
      return { deletedAt: "" };
    },
    "schedules.restore": () => {
      rows = [schedule(), ...rows];
      return rows[0];
    },
    "approvals.list": () => ({ approvals: [], total: 0, pendingCount: 0 }),
  });
  const screen = new SchedulesScreen(rpc as never, {
    ok: (title) => said.push(title),
    add: (t) => {
      said.push(t.title);
      again = t.action?.run ?? null;
    },
    error: (_e, title = "") => said.push(title),
    undo: (title, restore) => {
      said.push(title);
      undo = restore;
    },
  });
  screen.start();
  return { rpc, screen, said, undo: () => undo?.(), again: () => again?.(), rows: () => rows };
}
const ready = async (t: ReturnType<typeof setup>) => {
  await until(() => t.screen.list.page.loaded && t.screen.status.data !== undefined);
  return t;
};

describe("the switch", () => {
  it("turned twice quickly sends two different commands", async () => {
    const { screen, rpc } = await ready(setup());
    const first = screen.toggle(screen.list.own[0]!);
    expect(screen.list.own[0]!.status).toBe("paused");
    await Promise.all([first, screen.toggle(screen.list.own[0]!)]);
    expect(rpc.calls.map((c) => c.method).filter((m) => m === "schedules.pause" || m === "schedules.resume")).toEqual(["schedules.pause", "schedules.resume"]);
    await until(() => screen.list.own[0]!.status === "active");
  });
  it("goes back if it was refused", async () => {
    const { screen, rpc, said } = await ready(setup());
    rpc.failNext("schedules.pause", new RpcError({ kind: "internal", message: "no" }));
    await screen.toggle(screen.list.own[0]!);
    expect(screen.list.own[0]!.status).toBe("active");
    expect(said).toHaveLength(1);
  });
});

describe("the list", () => {
  it("keeps what comes with Helix apart and does not count it as one's own", async () => {
    const { screen } = await ready(setup());
    expect(screen.list.own.map((s) => s.name)).toEqual(["Morning report"]);
    expect(screen.list.system.map((s) => s.name)).toEqual(["Clean up"]);
    expect(screen.list.bare).toBe(false);
    await screen.remove(screen.list.own[0]!);
    await until(() => screen.list.own.length === 0 && !screen.list.page.busy);
    expect(screen.list.bare).toBe(true);
    screen.stop();
  });

  it("is read again once for several changes, and searched", async () => {
    const { rpc, screen } = await ready(setup());
    const before = rpc.sent("schedules.list").length;
    for (let i = 0; i < 5; i++) rpc.emit("schedules.run_event", { runId: "r1", scheduleId: "s1", status: "running", at: "", seq: i });
    await until(() => rpc.sent("schedules.list").length === before + 1);
    screen.list.search("clean");
    await until(() => screen.list.own.length === 0 && screen.list.system.length === 1);
    expect(screen.list.bare).toBe(false);
    screen.list.clearFilters();
    await until(() => screen.list.own.length === 1);
    screen.stop();
  });
});

describe("what can be done", () => {
  it("pauses and resumes one", async () => {
    const { screen, rows } = await ready(setup());
    await screen.toggle(screen.list.own[0]!);
    expect(screen.list.own[0]!.status).toBe("paused");
    await screen.toggle(screen.list.own[0]!);
    expect(rows()[0]!.status).toBe("active");
    screen.stop();
  });

  it("pauses all for a while and resumes", async () => {
    const { rpc, screen } = await ready(setup());
    await screen.pauseAll("hour");
    expect(screen.status.data?.pausedAll).toBe(true);
    expect(Date.parse(rpc.sent("schedules.pause_all")[0].until) - Date.now()).toBeGreaterThan(3_500_000);
    await screen.resumeAll();
    expect(screen.status.data?.pausedAll).toBe(false);
    await screen.pauseAll("resume");
    expect(rpc.sent("schedules.pause_all")[1]).toEqual({});
    expect(new Date(pauseEnd("tomorrow")!).getHours()).toBe(0);
    screen.stop();
  });

  it("runs one now, once at a time, and says when it could not", async () => {
    const { rpc, screen, said } = await ready(setup());
    const s = screen.list.own[0]!;
    const both = await Promise.all([screen.runNow(s), screen.runNow(s)]);
    expect(both).toEqual(["r9", ""]);
    rpc.failNext("schedules.run_now", new RpcError({ kind: "unavailable", message: "busy" }));
    expect(await screen.runNow(s)).toBe("");
    expect(said).toContain("Couldn't start Morning report");
    expect(screen.starting.size).toBe(0);
    screen.stop();
  });

  it("deletes one with Undo, keeps it when that fails, and never one that comes with Helix", async () => {
    const t = await ready(setup());
    const { rpc, screen, said } = t;
    nav.go("schedules/s1");
    rpc.failNext("schedules.delete", new RpcError({ kind: "unavailable", message: "no" }));
    await screen.remove(screen.list.own[0]!);
    expect(said).toContain("Couldn't delete Morning report");
    expect(screen.list.own).toHaveLength(1);
    await screen.remove(screen.list.own[0]!);
    expect(said).toContain("Moved Morning report to Trash");
    await until(() => screen.list.own.length === 0);
    await t.undo();
    expect(screen.list.own).toHaveLength(1);
    expect(screen.list.selectedId).toBe("s1");
    await screen.remove(screen.list.system[0]!);
    expect(rpc.sent("schedules.delete")).toHaveLength(2);
    screen.stop();
  });

  it("answers the question of its own run only, and offers to run again", async () => {
    const t = await ready(setup());
    const { rpc, screen, said } = t;
    const failed = run({ status: "failed", reason: "needs_approval", targetRunId: "x1", startedAt: "2026-03-02T08:00:00Z", finishedAt: "2026-03-02T08:00:03Z" });
    // Another run asked while this one went on.
    const other = { id: "a1", status: "pending", createdAt: "2026-03-02T08:00:01Z", lastAt: "2026-03-02T08:00:01Z", requested: [], scopes: ["always"], definitionHash: "h", run: { kind: "skill", id: "inner", rerun: false, waiting: false }, subject: { kind: "tool", id: "t" } };
    const asked = { ...other, id: "a2", createdAt: "2026-03-01T08:00:00Z", lastAt: "2026-03-01T08:00:00Z" };
    rpc.handle({
      "skills.get_execution": () => ({ error: { kind: "denied", message: "No." }, waits: [] }),
      "approvals.list": () => ({ approvals: [other, asked], total: 2, pendingCount: 2 }),
      "approvals.get": ({ id }) => (id === "a2" ? asked : { ...other, status: "denied" }),
      "approvals.decide": () => ({ status: "approved", grants: [] }),
    });
    await screen.answer(failed);
    rpc.handle({ "skills.get_execution": () => ({ error: { kind: "denied", message: "No.", approvalId: "a1" }, waits: [] }) });
    await screen.answer(failed);
    expect(said.filter((s) => s === "This run has no open request")).toHaveLength(2);
    expect(screen.prompt.asked).toBeNull();
    rpc.handle({ "skills.get_execution": ({ executionId }) => ({ error: { kind: "denied", message: "No.", ...(executionId === "x1" ? { approvalId: "a2" } : {}) }, waits: [] }) });
    await screen.answer(failed);
    expect([screen.prompt.asked?.id, screen.prompt.scope]).toEqual(["a2", "always"]);
    screen.prompt.armed = true;
    await screen.prompt.approve();
    expect(said).toContain("Morning report is now allowed to do this");
    t.again();
    await until(() => rpc.sent("schedules.run_now").length === 1);
    screen.stop();
  });

  it("shows the question that its run waits for", async () => {
    const { rpc, screen } = await ready(setup());
    rpc.handle({
      "skills.get_execution": () => ({ waits: [{ request: { reason: "timer" } }, { request: { reason: "permission" }, approvalId: "a2" }] }),
      "approvals.get": ({ id }) => ({ id, status: "pending", requested: [], scopes: ["once"], definitionHash: "h", run: { kind: "skill", rerun: false, waiting: true }, subject: { kind: "tool", id: "t" } }),
    });
    await screen.answer(run({ status: "waiting", reason: "permission", targetRunId: "x1" }));
    expect(screen.prompt.asked?.id).toBe("a2");
    screen.stop();
  });
});

describe("the inspector", () => {
  it("reads a schedule, its next times and its runs, and again when something happens to it", async () => {
    const { rpc, screen } = await ready(setup());
    screen.inspector.show("s1", screen.list.own[0]);
    expect(screen.inspector.schedule.data?.name).toBe("Morning report");
    await until(() => screen.inspector.next.data !== undefined);
    expect(rpc.sent("schedules.preview").at(-1).count).toBe(5);
    screen.inspector.setTab("runs");
    await until(() => screen.inspector.history?.rows.length === 1);
    const before = rpc.sent("schedules.get").length;
    rpc.emit("schedules.changed", { scheduleId: "s2", change: "fired" });
    rpc.emit("schedules.changed", { scheduleId: "s1", change: "fired" });
    await until(() => rpc.sent("schedules.get").length === before + 1);
    screen.stop();
  });

  it("shows a run at once where a list knows it, and says when it is gone", async () => {
    const { rpc, screen } = await ready(setup());
    screen.detail.show("s1", "r1", run());
    expect(screen.detail.run.data?.status).toBe("success");
    await until(() => screen.detail.output.data?.text === "done");
    await screen.cancel(run());
    expect(screen.detail.run.data?.status).toBe("cancelled");
    screen.detail.show("s1", "r404");
    await until(() => screen.detail.run.error !== undefined);
    expect(screen.detail.run.error?.kind).toBe("not_found");
    expect(rpc.sent("schedules.runs").length).toBeGreaterThan(0);
    screen.stop();
  });
});

describe("the history", () => {
  const pages = (n: number) => (p: { cursor?: string; status?: string; limit: number }) => {
    const all = Array.from({ length: n }, (_, i) => run({ runId: `r${i}`, status: i % 2 ? "failed" : "success" })).filter((r) => !p.status || r.status === p.status);
    const from = Number(p.cursor ?? 0);
    return { runs: all.slice(from, from + p.limit), ...(from + p.limit < all.length ? { nextCursor: String(from + p.limit) } : {}) };
  };

  it("is read page by page and read again as far as it is shown", async () => {
    const rpc = fake({ "schedules.runs": pages(220) });
    const h = scheduleRuns(rpc as never);
    await h.page.reload();
    expect(h.rows).toHaveLength(100);
    await h.page.more();
    await h.page.more();
    await h.page.more();
    expect(h.rows).toHaveLength(220);
    expect(new Set(h.rows.map((r) => r.runId)).size).toBe(220);
    await h.page.reload();
    expect(h.rows).toHaveLength(220);
    h.setFilter("status", "failed");
    await until(() => h.rows.length === 100);
    expect(h.filtered).toBe(true);
    h.filters = { ...h.filters, from: "2026-03-02" };
    h.setFilter("to", "2026-03-02");
    await until(() => rpc.sent("schedules.runs").at(-1).from !== undefined);
    const p = rpc.sent("schedules.runs").at(-1);
    expect(Date.parse(p.to) - Date.parse(p.from)).toBe(86_400_000 - 1);
  });

  it("finds one run among the newest", async () => {
    const rpc = fake({ "schedules.runs": pages(1000) });
    expect((await findRun(rpc as never, "s1", "r250", new AbortController().signal))?.runId).toBe("r250");
    expect(await findRun(rpc as never, "s1", "r900", new AbortController().signal)).toBeNull();
  });
});

describe("the calendar", () => {
  const days = daysOf("week", new Date(2026, 2, 4));
  const names = new Map([["s1", "Morning report"]]);
  const at = (day: number, hour: number, minute = 0) => new Date(2026, 2, 2 + day, hour, minute).toISOString();

  it("has weeks from Monday and whole months", () => {
    expect(days.map((d) => d.getDate())).toEqual([2, 3, 4, 5, 6, 7, 8]);
    expect(daysOf("month", new Date(2026, 1, 15))).toHaveLength(28);
    expect(daysOf("week", new Date(2026, 2, 8))[0]!.getDate()).toBe(2);
  });

  it("puts each time where it belongs", () => {
    const [row] = arrange(
      [
        { scheduleId: "s1", at: at(0, 9), kind: "ran", runId: "r1" },
        { scheduleId: "s1", at: at(6, 23, 59), kind: "planned" },
        { scheduleId: "s1", at: at(9, 9), kind: "planned" },
      ],
      days,
      names,
      4,
    );
    expect(row!.cells.map((c) => c.marks.length)).toEqual([1, 0, 0, 0, 0, 0, 1]);
    expect(row!.cells[0]!.marks[0]).toMatchObject({ kind: "succeeded", runId: "r1" });
  });

  it("shows counts where marks do not fit, and on a day of more than 200", () => {
    const hourly = Array.from({ length: 24 }, (_, h) => ({ scheduleId: "s1", at: at(0, h), kind: h < 20 ? "ran" : "planned", runId: `r${h}` }));
    const [row] = arrange([...hourly, { scheduleId: "s1", at: at(1, 9), kind: "missed" }], days, names, 12);
    expect(row!.cells[0]!.folded).toBe(true);
    expect(row!.cells[0]!.marks.map((m) => [m.kind, m.count, m.runId])).toEqual([
      ["succeeded", 20, ""],
      ["planned", 4, ""],
    ]);
    expect(row!.cells[1]!.folded).toBe(false);
    const many = Array.from({ length: 201 }, (_, i) => ({ scheduleId: `s${i}`, at: at(2, 1), kind: "planned" }));
    expect(arrange(many, days, new Map(), 50).every((r) => r.cells[2]!.folded)).toBe(true);
    const counted = arrange([{ scheduleId: "s1", at: at(3, 0), kind: "missed", count: 40 }], days, names, 12);
    expect(counted[0]!.cells[3]!.marks[0]!.count).toBe(40);
  });

  it("is walked by arrow keys", async () => {
    const rpc = fake({
      "schedules.calendar": () => ({
        items: [
          { scheduleId: "s1", at: at(0, 9), kind: "ran", runId: "r1" },
          { scheduleId: "s1", at: at(3, 9), kind: "planned" },
          { scheduleId: "s3", at: at(2, 12), kind: "failed", runId: "r3" },
        ],
        truncated: false,
      }),
      "schedules.list": () => ({ schedules: [schedule(), schedule({ scheduleId: "s2", name: "Never due" }), schedule({ scheduleId: "s3", name: "Other" })], total: 3, limit: 100, offset: 0 }),
    });
    const c = new CalendarState(rpc as never);
    c.anchor = new Date(2026, 2, 4);
    await c.read();
    expect(c.rows).toHaveLength(3);
    c.move(0, 0);
    c.edge(false);
    expect(c.find()?.mark.runId).toBe("r1");
    c.move(1, 0);
    c.move(1, 0);
    expect(c.find()?.mark.kind).toBe("planned");
    c.move(0, 1);
    expect(c.find()?.mark.runId).toBe("r3");
    c.move(0, -1);
    expect(c.find()?.row).toBe(0);
    const p = rpc.sent("schedules.calendar")[0];
    expect(Date.parse(p.to) - Date.parse(p.from)).toBeGreaterThan(6 * 86_400_000);
    c.turn(1);
    expect(c.days[0]!.getDate()).toBe(9);
    c.setSpan("month");
    expect(c.days).toHaveLength(31);
    c.stop();
  });
});

describe("notices", () => {
  const setup = (waiting: unknown[], values: Record<string, unknown> = {}) => {
    const shown: string[] = [];
    const sent: string[] = [];
    let desktop = false;
    let now = new Date(2026, 0, 5, 12, 0);
    const rpc = fake({ "config.get": () => ({ values, sources: {} }), "schedules.notices": () => ({ notices: waiting }), "schedules.take_notices": () => ({ notices: [] }) });
    const n = new Notices(rpc as never, { toast: (t) => shown.push(t.title), desktop: (x) => desktop && sent.push(`${x.title}: ${x.body}`) > 0, open: () => {} }, () => now);
    return { rpc, n, shown, sent, values, away: () => (desktop = true), at: (d: Date) => (now = d) };
  };

  it("are taken but not shown when notifications are off", async () => {
    const { rpc, n, shown } = setup([notice("1")], { "notifications.enabled": false });
    n.start();
    await until(() => rpc.sent("schedules.take_notices").length === 1);
    expect(shown).toEqual([]);
    n.stop();
  });

  it("wait with the backend during quiet hours", async () => {
    const { rpc, n, shown, values, at } = setup([notice("1")], { "notifications.quiet": "22:00-07:00" });
    at(new Date(2026, 0, 5, 23, 30));
    n.start();
    await until(() => rpc.sent("schedules.notices").length === 1);
    expect(shown).toEqual([]);
    expect(rpc.sent("schedules.take_notices")).toEqual([]);
    values["notifications.quiet"] = "";
    rpc.emit("config.changed", { keys: ["notifications.quiet"] });
    await until(() => rpc.sent("schedules.take_notices").length === 1);
    expect(shown).toEqual(["Notice 1"]);
    n.stop();
  });

  it("show details on the desktop only when asked to", async () => {
    const { rpc, n, sent, values, away } = setup([]);
    n.start();
    away();
    await until(() => rpc.sent("schedules.notices").length === 1);
    await n.show([{ ...notice("1"), body: "Details" }]);
    values["notifications.preview"] = true;
    rpc.emit("config.changed", { keys: ["notifications.preview"] });
    await until(() => rpc.sent("schedules.notices").length === 2);
    await n.show([{ ...notice("2"), body: "Details" }]);
    expect(sent).toEqual(["Notice 1: ", "Notice 2: Details"]);
    n.stop();
  });

  it("know when quiet hours end", () => {
    const at = (h: number, m: number) => new Date(2026, 0, 5, h, m);
    expect(quietFor("22:00-07:00", at(21, 59))).toBe(0);
    expect(quietFor("22:00-07:00", at(22, 0))).toBe(9 * 3_600_000);
    expect(quietFor("22:00-07:00", at(6, 30))).toBe(30 * 60_000);
    expect(quietFor("12:00-13:00", at(13, 0))).toBe(0);
    expect(quietFor("", at(3, 0))).toBe(0);
  });

  it("are shown once and taken", async () => {
    const { rpc, n, shown } = setup([notice("1")]);
    n.start();
    await until(() => rpc.sent("schedules.take_notices").length === 1);
    rpc.emit("schedules.notification", notice("1"));
    rpc.emit("schedules.notification", notice("2"));
    await until(() => rpc.sent("schedules.take_notices").length === 2);
    rpc.reload();
    await until(() => rpc.sent("schedules.notices").length === 2);
    expect(shown).toEqual(["Notice 1", "Notice 2"]);
    expect(rpc.sent("schedules.take_notices")).toEqual([{ noticeIds: ["1"] }, { noticeIds: ["2"] }]);
    n.stop();
  });

  it("are summed up when many waited, and left to the desktop while nobody looks", async () => {
    const { rpc, n, shown, away } = setup(["1", "2", "3", "4"].map((id) => notice(id)));
    n.start();
    await until(() => rpc.sent("schedules.take_notices").length === 1);
    expect(shown).toEqual(["4 notices from schedules"]);
    away();
    await n.show([notice("9")]);
    expect(shown).toHaveLength(1);
    n.stop();
  });

  it("wait for a session that may take them", () => {
    const rpc = fake({ "schedules.notices": () => ({ notices: [notice("1")] }) });
    new Notices(rpc as never, { toast: () => {}, desktop: () => false, open: () => {} }).start();
    expect(rpc.sent("schedules.notices")).toHaveLength(0);
  });
});

describe("the palette", () => {
  it("finds schedules by name and runs them", async () => {
    const { rpc } = setup();
    const went: string[] = [];
    expect(await paletteSchedules(rpc as never, "zebra stripes", () => {})).toHaveLength(0);
    const found = await paletteSchedules(rpc as never, "run schedule morning", (t) => went.push(t));
    expect(found.map((c) => c.title)).toEqual(["Open schedule: Morning report", "Run schedule now: Morning report"]);
    found[1]!.run();
    await until(() => went.length === 1);
    expect(went).toEqual(["schedules/s1/runs/r9"]);
  });
});
