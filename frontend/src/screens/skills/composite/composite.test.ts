import { describe, expect, it } from "vitest";
import { nav } from "../../../lib/ui/state";
import { RpcError } from "../../../lib/rpc/errors";
import { asText, byStep, place } from "./changes";
import { CompositeScreen } from "./composite.svelte";
import { execution, fake, meta, until, version } from "./fixtures";
import { listedErrors } from "../../../lib/rpc/fields";
import type { Execution, Meta } from "./types";

function setup() {
  let rows: Meta[] = [meta(), meta({ skillId: "s2", name: "Second", isEnabled: false, lastExecutionId: "e9" })];
  let runs: Execution[] = Array.from({ length: 160 }, (_, i) => execution({ executionId: `e${160 - i}`, status: i % 2 ? "failed" : "completed", createdAt: new Date(1_767_225_600_000 - i * 86_400_000).toISOString(), finishedAt: "2026-01-01T00:00:00Z", pinned: i === 150 }));
  const said: string[] = [];
  let undo: (() => unknown) | null = null;
  let later: { commit(): unknown; revert(): void } | null = null;
  const rpc = fake({
    "skills.list_composite": (p: { query?: string; enabled?: boolean; limit: number; offset: number }) => {
      const hits = rows.filter((r) => (!p.query || r.name.toLowerCase().includes(p.query.toLowerCase())) && (p.enabled === undefined || r.isEnabled === p.enabled));
      return { skills: hits.slice(p.offset, p.offset + p.limit), total: hits.length, limit: p.limit, offset: p.offset };
    },
    "schedules.list": () => ({ schedules: [{ scheduleId: "c1", words: "every day at 07:00", status: "active", target: { kind: "skill", id: "s1" } }, { scheduleId: "c2", words: "hourly", status: "paused", target: { kind: "skill", name: "second" } }], total: 2, limit: 100, offset: 0 }),
    "skills.get_metadata": (p: { skillId: string }) => {
      const found = rows.find((r) => r.skillId === p.skillId);
      if (!found) throw new RpcError({ kind: "not_found", message: "skill not found" });
      return found;
    },
    "skills.update_composite": (p: { skill: Partial<Meta> }) => {
      rows = rows.map((r) => (r.skillId === p.skill.skillId ? { ...r, ...p.skill } : r));
      return rows.find((r) => r.skillId === p.skill.skillId);
    },
    "skills.delete_composite": (p: { skillId: string }) => {
      rows = rows.filter((r) => r.skillId !== p.skillId);
      return { deletedAt: "" };
    },
    "skills.restore_composite": () => {
      rows = [meta(), ...rows];
      return rows[0];
    },
    "skills.clone_composite": () => {
      const copy = meta({ skillId: "s3", name: "Digest (Clone)", isEnabled: false });
      rows = [copy, ...rows];
      return copy;
    },
    "skills.preview_rights": () => ({ steps: [], union: [], verdict: "ready" }),
    "skills.list_versions": () => ({ versions: [version({ versionId: "v3", version: "1.0.2", current: true }), version({ versionId: "v2", version: "1.0.1" }), version()] }),
    "skills.diff_versions": () => ({ steps: { added: [], removed: [], moved: [], changed: [] }, fields: [], rights: { added: [], removed: [] } }),
    "skills.rollback": () => meta({ version: "1.0.3" }),
    "skills.history": (p: { cursor?: string; limit: number; status?: string }) => {
      const all = runs.filter((e) => !p.status || e.status === p.status);
      const at = Number(p.cursor ?? 0);
      return { executions: all.slice(at, at + p.limit), ...(at + p.limit < all.length ? { nextCursor: String(at + p.limit) } : {}), bytes: 4096 };
    },
    "skills.pin": () => execution(),
    "skills.purge_history": () => {
      const before = runs.length;
      runs = runs.filter((e) => e.pinned);
      return { removed: before - runs.length };
    },
    "skills.execute_composite": () => execution({ executionId: "new" }),
    "skills.dry_run": () => execution({ executionId: "dry", status: "completed", mode: "dry" }),
    "skills.get_execution": (p: { executionId: string }) => execution({ executionId: p.executionId }),
    "skills.events": () => ({ events: [], lastSeq: 0 }),
    "skills.restart": () => ({ executionId: "again", warnings: ["step \"a\" changed"] }),
    "skills.import": (p: { dryRun?: boolean; onConflict: string }) => ({ name: "Digest", action: p.onConflict === "skip" ? "skipped" : "created", errors: [], warnings: [], missing: [], signer: "unsigned", trusted: false, rights: { steps: [], union: [], verdict: "ready" }, ...(p.dryRun ? {} : { skillId: "s4" }) }),
    "skills.export": () => ({ file: { format: "helix-skill" }, filename: "digest.helixskill.json" }),
  });
  const screen = new CompositeScreen(rpc as never, {
    ok: (title) => said.push(title),
    error: (_e, title = "") => said.push(title),
    undo: (title, restore) => {
      said.push(title);
      undo = restore;
    },
    deferred: (act) => {
      said.push(act.title);
      later = act;
    },
  });
  screen.start();
  return { rpc, screen, said, undo: () => undo?.(), later: () => later!, rows: () => rows };
}

describe("the list of skills", () => {
  it("shows what starts a skill by itself, by id and by name", async () => {
    const { rpc, screen } = setup();
    await screen.list.load();
    expect(screen.list.schedulesOf({ skillId: "s1", name: "Digest" }).map((s) => s.words)).toEqual(["every day at 07:00"]);
    expect(screen.list.schedulesOf({ skillId: "s2", name: "Second" }).map((s) => s.status)).toEqual(["paused"]);
    rpc.failNext("schedules.list", new RpcError({ message: "no" }));
    await screen.list.readSchedules();
    expect(screen.list.schedulesOf({ skillId: "s1", name: "Digest" })).toHaveLength(1);
    screen.stop();
  });

  it("is searched, filtered, and read again when a skill changes or runs", async () => {
    const { rpc, screen } = setup();
    const { list } = screen;
    await list.load();
    expect(list.rows.map((r) => r.name)).toEqual(["Digest", "Second"]);
    list.search("sec");
    await until(() => list.rows.length === 1);
    list.clearFilters();
    await until(() => list.rows.length === 2);
    const before = rpc.sent("skills.list_composite").length;
    rpc.emit("skills.changed", { skillId: "s1", version: "1.0.2", change: "updated" });
    rpc.emit("skills.changed", { skillId: "s2", version: "1.0.2", change: "updated" });
    await until(() => rpc.sent("skills.list_composite").length > before);
    expect(rpc.sent("skills.list_composite").length).toBe(before + 1);
    screen.stop();
  });

  it("is deleted with Undo, and chosen again", async () => {
    const { screen, undo, said } = setup();
    await screen.list.load();
    nav.go("skills/s1");
    await screen.remove(meta());
    expect(said.at(-1)).toBe("Moved Digest to Trash");
    await until(() => screen.list.rows.length === 1);
    await undo();
    await until(() => screen.list.rows.length === 2);
    expect(screen.list.selectedId).toBe("s1");
    screen.stop();
  });

  it("stays when the deletion is refused", async () => {
    const { rpc, screen, said } = setup();
    await screen.list.load();
    rpc.failNext("skills.delete_composite", new RpcError({ kind: "unavailable", message: "no" }));
    await screen.remove(meta());
    expect(said.at(-1)).toBe("Couldn't delete Digest");
    expect(screen.list.rows).toHaveLength(2);
    screen.stop();
  });

  it("is enabled with Undo", async () => {
    const { screen, undo, said, rows } = setup();
    await screen.list.load();
    await screen.setEnabled(rows()[1]!, true);
    expect(said.at(-1)).toBe("Enabled Second");
    expect(rows()[1]!.isEnabled).toBe(true);
    await undo();
    expect(rows()[1]!.isEnabled).toBe(false);
    screen.stop();
  });
});

describe("running", () => {
  it("starts a run that goes on by itself", async () => {
    const { rpc, screen } = setup();
    expect(await screen.launch(meta(), { q: 1 })).toBe("new");
    expect(rpc.sent("skills.execute_composite")[0]).toMatchObject({ skillId: "s1", input: { q: 1 }, async: true, requestId: expect.any(String) });
    expect(screen.startOf("s1").lastId).toBe("new");
    screen.stop();
  });

  it("keeps what is typed and tells each problem when it is refused", async () => {
    const { rpc, screen } = setup();
    const start = screen.startOf("s1");
    start.params = { q: 1 };
    rpc.failNext("skills.execute_composite", new RpcError({ kind: "invalid", message: "input: 1 problem", details: { errors: [{ path: "input/q", message: "expected string" }, 3] } }));
    expect(await screen.launch(meta(), {})).toBeNull();
    expect(listedErrors(start.error!)).toEqual([{ path: "input/q", code: "", message: "expected string" }]);
    expect(start.params).toEqual({ q: 1 });
    expect(screen.startOf("s1")).toBe(start);
    screen.stop();
  });

  it("rehearses with what the last run gave, and shows it without asking again", async () => {
    const { rpc, screen } = setup();
    const start = screen.startOf("s2");
    start.dry = true;
    expect(await screen.launch(meta({ skillId: "s2", lastExecutionId: "e9" }), {})).toBe("dry");
    expect(rpc.sent("skills.dry_run")[0]).toEqual({ skillId: "s2", input: {}, allowReadOnly: false, fillFromSchema: true, executionId: "e9" });
    expect(screen.feed("dry").over).toBe(true);
    expect(rpc.sent("skills.get_execution")).toEqual([]);
    screen.stop();
  });

  it("restarts from a step and tells what changed", async () => {
    const { rpc, screen, said } = setup();
    expect(await screen.restart(execution(), "sum", { input: { a: 1 } })).toBe("again");
    expect(rpc.sent("skills.restart")[0]).toEqual({ executionId: "e1", fromStepId: "sum", input: { a: 1 } });
    expect(said.at(-1)).toBe("Restarted from sum");
    rpc.failNext("skills.restart", new RpcError({ kind: "invalid", message: "no" }));
    expect(await screen.restart(execution(), "sum")).toMatchObject({ message: "no" });
    screen.stop();
  });

  it("follows few runs at a time", () => {
    const { screen } = setup();
    const first = screen.feed("r0");
    for (let i = 1; i < 12; i++) screen.feed(`r${i}`);
    expect(screen.feed("r11")).toBe(screen.feed("r11"));
    expect(screen.feed("r0")).not.toBe(first);
    screen.stop();
  });
});

describe("versions", () => {
  it("shows the newest against the one before, and rolls back with Undo", async () => {
    const { rpc, screen, undo, said } = setup();
    screen.inspector.tab = "versions";
    screen.inspector.show("s1");
    await until(() => screen.inspector.diff.data !== undefined);
    expect(rpc.sent("skills.diff_versions").at(-1)).toEqual({ from: "v2", to: "v3" });
    screen.inspector.look("v1");
    expect(screen.inspector.diff.data).toBeUndefined();
    screen.inspector.compare("v3");
    await until(() => screen.inspector.diff.data !== undefined);
    expect(rpc.sent("skills.diff_versions").at(-1)).toEqual({ from: "v3", to: "v1" });
    await screen.rollback(meta(), version());
    expect(rpc.sent("skills.rollback")[0]).toEqual({ skillId: "s1", versionId: "v1" });
    expect(said.at(-1)).toBe("Rolled back Digest to 1.0.0");
    await undo();
    expect(rpc.sent("skills.rollback")[1]).toEqual({ skillId: "s1", versionId: "v2" });
    screen.stop();
  });

  it("gathers changes by step", () => {
    const changes = byStep({
      steps: {
        added: [{ stepId: "n", path: "steps[2].cases[0].steps[1]", step: { stepId: "n" } }],
        removed: [],
        moved: [{ stepId: "a", from: "steps[0]", to: "steps[1]" }, { stepId: "b", from: "steps[1]", to: "steps[0].else[2]" }],
        changed: [{ stepId: "a", path: "timeoutMs", before: 1, after: 2 }, { stepId: "a", path: "condition", after: "$.x" }],
      },
      fields: [],
      rights: { added: [], removed: [] },
    });
    expect(changes.map((c) => [c.stepId, c.kind, c.words])).toEqual([
      ["n", "added", "added at place 3 › case 1 › 2"],
      ["a", "changed", "changed, and moved to place 2"],
      ["b", "moved", "moved from place 2 to place 1 › else › 3"],
    ]);
    expect(changes[1]).toMatchObject({ before: "timeoutMs: 1", after: "timeoutMs: 2\ncondition: $.x" });
    expect(asText([{ path: "inputMapping", before: { a: 1 } }], "before")).toBe('inputMapping:\n  {\n    "a": 1\n  }');
    expect(place("steps[0]")).toBe("place 1");
  });
});

describe("the history", () => {
  it("is read page by page, filtered, and pins runs", async () => {
    const { rpc, screen } = setup();
    screen.inspector.show("s1");
    const history = screen.inspector.history!;
    await history.page.reload();
    expect(history.rows).toHaveLength(100);
    await history.page.more();
    expect(history.rows).toHaveLength(160);
    await history.page.more();
    expect(rpc.sent("skills.history")).toHaveLength(2);
    history.setFilter("status", "failed");
    await until(() => history.page.loaded);
    expect(history.rows.every((e) => e.status === "failed")).toBe(true);
    await screen.pin(history.rows[0]!, true);
    expect(history.rows[0]!.pinned).toBe(true);
    rpc.failNext("skills.pin", new RpcError({ message: "no" }));
    await screen.pin(history.rows[1]!, true);
    expect(history.rows[1]!.pinned).toBe(false);
    screen.stop();
  });

  it("is removed after a while in which it can be taken back", async () => {
    const { rpc, screen, later } = setup();
    screen.inspector.show("s1");
    const history = screen.inspector.history!;
    await history.page.reload();
    screen.purge(null, "all finished runs");
    expect(history.rows).toHaveLength(0);
    expect(rpc.sent("skills.purge_history")).toEqual([]);
    later().revert();
    expect(history.rows).toHaveLength(100);
    screen.purge(null, "all finished runs");
    await later().commit();
    expect(rpc.sent("skills.purge_history")).toEqual([{ skillId: "s1" }]);
    expect(history.rows.map((e) => e.pinned)).toEqual([true]);
    screen.stop();
  });
});

describe("sharing", () => {
  const file = (text: string, size = text.length) => ({ name: "a.helixskill.json", size, text: async () => text });

  it("shows what would happen before it adds anything", async () => {
    const { rpc, screen } = setup();
    const { importing } = screen;
    await importing.choose([file("no json")]);
    expect(importing.error?.message).toContain("is not JSON");
    await importing.choose([file("{}", 9_000_000)]);
    expect(importing.error?.message).toContain("larger");
    await importing.choose([file('{"format":"helix-skill"}')]);
    expect(rpc.sent("skills.import")).toEqual([{ file: { format: "helix-skill" }, onConflict: "rename", dryRun: true }]);
    expect(importing.blocked).toBe("");
    importing.setOnConflict("skip");
    await until(() => importing.review?.action === "skipped");
    expect(await importing.add()).toBeNull();
    importing.setOnConflict("newVersion");
    await until(() => importing.review?.action === "created");
    expect((await importing.add())?.skillId).toBe("s4");
    expect(importing.open).toBe(false);
    screen.stop();
  });

  it("finds what others share, and adds exactly what was reviewed", async () => {
    const { rpc, screen } = setup();
    const { importing } = screen;
    const shared = { shareId: "x1", url: "helix://skills/shared/x1", name: "Digest", version: "1.0.0" };
    let hub = false;
    rpc.handle({ "skills.search_public": (p: { query?: string }) => ({ skills: [], total: 0, hub, shared: p.query === "none" ? [] : [shared] }) });
    importing.begin();
    await until(() => importing.shared !== undefined);
    expect(importing.shared).toBeNull();
    hub = true;
    await importing.search();
    expect(importing.shared).toEqual([shared]);
    importing.query = " none ";
    await importing.search();
    expect(importing.shared).toEqual([]);
    await importing.readLink(` ${shared.url} `, shared.name);
    expect([importing.name, importing.review?.action]).toEqual(["Digest", "created"]);
    expect((await importing.add())?.skillId).toBe("s4");
    expect(rpc.sent("skills.import")).toEqual([
      { url: shared.url, onConflict: "rename", dryRun: true },
      { url: shared.url, onConflict: "rename" },
    ]);
    rpc.failNext("skills.import", new RpcError({ kind: "not_found", message: "The skill is no longer shared." }));
    await importing.readLink(shared.url);
    expect([importing.open, importing.review, importing.error?.message]).toEqual([true, null, "The skill is no longer shared."]);
    screen.stop();
  });

  it("makes a link to a skill and withdraws it", async () => {
    const { rpc, screen } = setup();
    const share = { shareId: "x1", url: "helix://skills/shared/x1", access: "link", version: "1.0.0" };
    let shares: object[] = [];
    rpc.handle({ "skills.shares": () => ({ shares, hub: true }), "skills.share": () => (shares = [share])[0], "skills.unshare": () => ((shares = []), {}) });
    const { inspector } = screen;
    inspector.show("s1");
    inspector.setTab("sharing");
    await until(() => inspector.sharing.hub === true);
    inspector.sharing.begin("s1", "Digest");
    inspector.sharing.access = "public";
    await inspector.sharing.share();
    expect(rpc.sent("skills.share")).toEqual([{ skillId: "s1", access: "public" }]);
    expect([inspector.sharing.made?.url, inspector.sharing.live.length]).toEqual([share.url, 1]);
    expect(await inspector.sharing.unshare("x1")).toBe(true);
    expect([inspector.sharing.made, inspector.sharing.live.length]).toEqual([null, 0]);
    screen.stop();
  });

  it("makes a skill of a template, with its sample filled in", async () => {
    const { rpc, screen, said } = setup();
    const template = { key: "chain", name: "Digest", description: "", icon: "", shows: ["chain"], tools: ["Words"], skills: [], stepCount: 2, sampleInput: { text: "a" } };
    rpc.handle({ "skills.templates": () => ({ templates: [template] }), "skills.create_from_template": () => meta({ skillId: "s5" }) });
    screen.templates.begin();
    await until(() => screen.templates.list.data !== undefined);
    rpc.failNext("skills.create_from_template", new RpcError({ kind: "conflict", message: "taken" }));
    expect(await screen.use(template)).toBeNull();
    expect(screen.templates).toMatchObject({ open: true, making: "", error: { message: "taken" } });
    expect((await screen.use(template))?.skillId).toBe("s5");
    expect(screen.templates.open).toBe(false);
    expect(screen.startOf("s5").params).toEqual({ text: "a" });
    expect(said.at(-1)).toBe("Created Digest");
    screen.stop();
  });

  it("makes a file", async () => {
    const { rpc, screen } = setup();
    screen.exporting.begin(meta());
    screen.exporting.includeTools = false;
    expect(await screen.exporting.make()).toEqual({ name: "digest.helixskill.json", text: '{"format":"helix-skill"}' });
    expect(rpc.sent("skills.export")).toEqual([{ skillId: "s1", includeTools: false }]);
    screen.stop();
  });
});
