import { flushSync } from "svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { RpcError } from "../../../lib/rpc/errors";
import { fakeRpc, type Handlers } from "../../../lib/rpc/fake";
import { SkillBuilder, skillOf } from "./builder.svelte";
import { SAMPLES } from "./mapping.svelte";
import type { Entry, Meta, Problem, Run, Skill } from "./types";

const ID = "0192f0c0-0000-7000-8000-000000000001";
const fetch: Entry = {
  toolType: "custom",
  toolId: "t1",
  name: "Fetch",
  description: "Fetches",
  tier: "readOnly",
  idempotent: true,
  capabilities: [],
  inputSchema: { type: "object", properties: { url: { type: "string" } }, required: ["url"] },
  outputSchema: { type: "object", properties: { body: { type: "string" } } },
};

function meta(more: Partial<Meta> = {}): Meta {
  return {
    skillId: ID, name: "News", description: "", version: "1.0.0", versionId: "v1", definitionHash: "h", tags: [], icon: "", isEnabled: true, valid: true, visibility: "private", mine: true,
    steps: [{ stepId: "get", toolType: "custom", toolId: "t1", toolName: "Fetch" }],
    overallTimeoutMs: 600_000, stepCount: 1, executionCount: 0, createdAt: "2026-01-01T00:00:00Z", updatedAt: "2026-01-01T00:00:00Z", ...more,
  };
}

function store(): Map<string, string> & { getItem(k: string): string | null; setItem(k: string, v: string): void; removeItem(k: string): void } {
  const m = new Map<string, string>();
  return Object.assign(m, { getItem: (k: string) => m.get(k) ?? null, setItem: (k: string, v: string) => void m.set(k, v), removeItem: (k: string) => void m.delete(k) });
}

let errors: Problem[] = [];
const handlers = (more: Handlers = {}): Handlers => ({
  "skills.catalog": () => ({ entries: [fetch] }),
  "skills.get_metadata": () => meta(),
  "skills.history": () => ({ executions: [], bytes: 0 }),
  "skills.validate_composite": () => ({ valid: errors.length === 0, errors, warnings: [{ path: "steps[0].condition", code: "maybe_absent", message: "odd" }] }),
  "skills.create_composite": ({ skill }) => meta({ ...(skill as Meta), skillId: ID, version: "1.0.0", isEnabled: (skill as Skill).isEnabled ?? true }),
  "skills.update_composite": ({ skill }) => meta({ ...(skill as Meta), version: "1.0.1" }),
  ...more,
});

describe("the builder", () => {
  beforeEach(() => {
    vi.useFakeTimers();
    errors = [];
  });
  afterEach(() => vi.useRealTimers());

  it("opens a skill, checks it and marks its steps", async () => {
    errors = [{ path: "steps[0].inputMapping.url", code: "bad_parameter", message: "Required.", stepId: "get" }];
    const b = new SkillBuilder(fakeRpc(handlers()), store());
    await b.open(ID);
    await vi.advanceTimersByTimeAsync(10);
    expect(b.dirty).toBe(false);
    expect(b.marks.get("steps[0]")).toEqual({ errors: 1, warnings: 1 });
    expect(b.problemsAt("steps[0].inputMapping").error).toBe("Required.");
    expect([b.refuses("steps[0]", "url"), b.refuses("steps[0]", "ur"), b.refuses("steps[1]", "url")]).toEqual([true, false, false]);
    expect(b.entryOf(b.draft.skill.steps[0]!)?.name).toBe("Fetch");
  });

  it("checks once typing pauses", async () => {
    const rpc = fakeRpc(handlers());
    const b = new SkillBuilder(rpc, store());
    await b.open(null);
    await vi.advanceTimersByTimeAsync(10);
    const before = rpc.sent("skills.validate_composite").length;
    for (const name of ["N", "Ne", "New"]) {
      b.draft.set("name", name, "Rename");
      b.changed();
      await vi.advanceTimersByTimeAsync(100);
    }
    expect(rpc.sent("skills.validate_composite")).toHaveLength(before);
    await vi.advanceTimersByTimeAsync(400);
    expect(rpc.sent("skills.validate_composite")).toHaveLength(before + 1);
  });

  it("saves a new skill, then changes of it with the version it began from", async () => {
    const rpc = fakeRpc(handlers());
    const b = new SkillBuilder(rpc, store());
    await b.open(null);
    expect(await b.save()).toBeNull();
    b.draft.set("name", " News ", "Rename");
    b.draft.add({ stepId: "a", toolType: "transform", value: 1 });
    expect((await b.save())?.skillId).toBe(ID);
    expect(rpc.sent("skills.create_composite")[0]).toMatchObject({ skill: { name: "News" } });
    expect(b.dirty).toBe(false);
    b.draft.edit("steps[0]", { value: 2 });
    expect(b.dirty).toBe(true);
    await b.save();
    expect(rpc.sent("skills.update_composite")[0]).toMatchObject({ expectedVersion: "1.0.0", skill: { skillId: ID } });
    expect(b.base?.version).toBe("1.0.1");
    expect(b.draft.canUndo).toBe(true);
  });

  it("saves a draft with errors turned off", async () => {
    errors = [{ path: "steps", code: "bad_parameter", message: "A skill needs a step." }];
    const rpc = fakeRpc(handlers());
    const b = new SkillBuilder(rpc, store());
    await b.open(null);
    b.draft.set("name", "Half", "Rename");
    await b.save();
    expect(rpc.sent("skills.create_composite")[0]).toMatchObject({ skill: { isEnabled: false } });
    expect(b.draft.skill.isEnabled).toBe(false);
  });

  it("keeps unsaved work and finds it again", async () => {
    const s = store();
    const rpc = fakeRpc(handlers());
    const b = new SkillBuilder(rpc, s);
    await b.open(ID);
    b.draft.edit("steps[0]", { condition: "$.input.on == true" });
    b.changed();
    b.close();
    const again = new SkillBuilder(rpc, s);
    await again.open(ID);
    expect(again.recovered).toBe(true);
    expect(again.draft.skill.steps[0]!.condition).toBe("$.input.on == true");
    const back = again.discard();
    expect(again.draft.skill.steps[0]!.condition).toBeUndefined();
    back();
    expect(again.draft.skill.steps[0]!.condition).toBeDefined();
    again.draft.undo();
    again.draft.undo();
    again.close();
    // A later version under the kept draft is told.
    rpc.handle({ "skills.get_metadata": () => meta({ version: "1.0.4" }) });
    const late = new SkillBuilder(rpc, s);
    await late.open(ID);
    expect([late.newerVersion, late.base?.version]).toEqual(["1.0.4", "1.0.0"]);
    late.close();
  });

  it("shows both sides of a save that came too late", async () => {
    const rpc = fakeRpc(handlers());
    const b = new SkillBuilder(rpc, store());
    await b.open(ID);
    b.draft.set("description", "mine", "Edit");
    rpc.failNext("skills.update_composite", new RpcError({ message: "changed elsewhere", kind: "conflict", code: "CONFLICT" }));
    rpc.handle({ "skills.get_metadata": () => meta({ version: "1.0.7", description: "theirs" }) });
    expect(await b.save()).toBeNull();
    expect(b.conflict?.version).toBe("1.0.7");
    await b.keepMine();
    expect(rpc.sent("skills.update_composite")[1]).toMatchObject({ expectedVersion: "1.0.7", skill: { description: "mine" } });
  });

  it("follows what is changed elsewhere, unless something is unsaved", async () => {
    const rpc = fakeRpc(handlers());
    const b = new SkillBuilder(rpc, store());
    await b.open(ID);
    rpc.handle({ "skills.get_metadata": () => meta({ version: "1.0.2", description: "new" }) });
    await b.changedElsewhere(ID);
    expect(b.draft.skill.description).toBe("new");
    b.draft.set("description", "mine", "Edit");
    rpc.handle({ "skills.get_metadata": () => meta({ version: "1.0.3" }) });
    await b.changedElsewhere(ID);
    expect([b.newerVersion, b.draft.skill.description]).toEqual(["1.0.3", "mine"]);
  });

  it("does not save text that cannot be drawn", async () => {
    const b = new SkillBuilder(fakeRpc(handlers()), store());
    await b.open(ID);
    b.setText("{");
    expect(b.brokenText?.why).not.toBe("");
    expect(b.dirty).toBe(true);
    expect(await b.save()).toBeNull();
    b.setText(b.text);
    expect(b.brokenText).toBeNull();
    expect(b.dirty).toBe(false);
  });

  it("keeps text that cannot be drawn, too", async () => {
    const s = store();
    const rpc = fakeRpc(handlers());
    const b = new SkillBuilder(rpc, s);
    await b.open(ID);
    b.setText('{ "steps": [');
    b.close();
    const again = new SkillBuilder(rpc, s);
    await again.open(ID);
    expect([again.recovered, again.brokenText?.text]).toEqual([true, '{ "steps": [']);
    again.close();
  });

  it("writes short steps out once they were read", async () => {
    const long = { name: "N", steps: [{ stepId: "a", toolType: "custom", toolName: "Fetch" }] };
    const b = new SkillBuilder(fakeRpc(handlers({ "skills.validate_composite": () => ({ valid: true, errors: [], warnings: [], normalized: long }) })), store());
    await b.open(null);
    b.setText('{"name":"N","steps":[{"stepId":"a","toolName":"Fetch"}]}');
    await b.validate();
    expect(b.standard).not.toBeNull();
    b.standardize();
    expect(b.draft.step ?? b.draft.skill.steps[0]).toMatchObject({ toolType: "custom" });
    expect(b.standard).toBeNull();
    b.close();
  });

  it("leaves defaults out of what is stored", () => {
    expect(Object.keys(skillOf(meta()))).toEqual(["skillId", "name", "isEnabled", "steps"]);
    expect(skillOf(meta({ overallTimeoutMs: 5000 })).overallTimeoutMs).toBe(5000);
  });
});

describe("mapping", () => {
  const run = (id: string): Run => ({ executionId: id, mode: "live", status: "completed" }) as Run;
  const skill: Skill = {
    name: "", inputSchema: { type: "object", properties: { q: { type: "string" } } },
    steps: [
      { stepId: "get", toolType: "custom", toolId: "t1", toolName: "Fetch", condition: "$.input.q == 'x'" },
      { stepId: "each", toolType: "map", items: "$.get.list", steps: [{ stepId: "one", toolType: "transform", value: "$.item" }] },
      { stepId: "new-one", toolType: "transform", value: 1 },
    ],
  };
  const evaluated = { value: 1, matches: [] };

  it("offers what is in scope, from samples or from a run", async () => {
    const rpc = fakeRpc(handlers({ "skills.document": () => ({ document: { input: { q: "y" }, run: {}, steps: {}, get: { list: [7] } } }), "skills.evaluate": () => evaluated }));
    const b = new SkillBuilder(rpc, store());
    await b.readCatalog();
    b.draft.open(skill);
    const names = (p: string) => b.mapping.rootsAt(p).map((r) => `${r.name} ${r.from}${r.maybe ? "?" : ""}`);
    expect(names("steps[1]")).toEqual(["input schema", "get schema?", "steps schema", "run schema"]);
    expect(b.mapping.rootsAt("").find((r) => r.name === "new-one")?.path).toBe("$['new-one']");
    await b.mapping.choose("r1");
    expect(names("steps[1].steps[0]")).toEqual(["input run", "item run", "index run", "get run?", "steps run", "run run"]);
    expect(b.mapping.documentAt("steps[1].steps[0]")["item"]).toBe(7);
    expect(names("steps[2]")).toContain("each schema");
    expect([b.mapping.known("get"), b.mapping.known("one"), b.mapping.known("each")]).toEqual([true, false, true]);
  });

  it("names a run that has all, and sends a document else; answers are asked for once", async () => {
    const rpc = fakeRpc(handlers({ "skills.document": () => ({ document: { input: {}, run: {}, steps: {}, get: {}, each: [], one: 1, "new-one": 1 } }), "skills.evaluate": () => evaluated }));
    const b = new SkillBuilder(rpc, store());
    b.draft.open(skill);
    await b.mapping.evaluate("$.input.q", "path", "steps[1]");
    await b.mapping.evaluate("$.input.q", "path", "steps[2]");
    expect(rpc.sent("skills.evaluate")).toHaveLength(1);
    expect(rpc.sent("skills.evaluate")[0]).toMatchObject({ document: { input: { q: "text" } }, as: "path" });
    await b.mapping.choose("r1");
    await b.mapping.evaluate("$.input.q", "path", "steps[1]");
    expect(rpc.sent("skills.evaluate")[1]).toEqual({ executionId: "r1", expression: "$.input.q", as: "path" });
    rpc.failNext("skills.evaluate", new RpcError({ message: "gone", kind: "unavailable", code: "X" }));
    expect((await b.mapping.evaluate("$.y", "path", "steps[1]")).error?.message).toBe("gone");
  });

  it("takes the last run until something else is chosen", async () => {
    const rpc = fakeRpc(handlers({ "skills.history": () => ({ executions: [run("r2"), run("r1")], bytes: 0 }), "skills.document": ({ executionId }) => ({ document: { input: executionId } }) }));
    const b = new SkillBuilder(rpc, store());
    await b.open(ID);
    await vi.waitFor(() => expect(b.mapping.document.data).toEqual({ input: "r2" }));
    await b.mapping.choose(SAMPLES);
    await b.mapping.readRuns(ID);
    flushSync();
    expect(b.mapping.source).toBe(SAMPLES);
    b.close();
  });

  it("runs one step with the data that it sees, and keeps its result as data", async () => {
    const rpc = fakeRpc(
      handlers({
        "skills.get_metadata": () =>
          meta({ steps: [{ stepId: "get", toolType: "custom", toolId: "t1", toolName: "Fetch", parameters: { retries: 2 }, inputMapping: { url: "$.input.url" }, outputMapping: "$.body" }, { stepId: "make", toolType: "transform", value: { got: "$.get" } }] } as Partial<Meta>),
        "skills.evaluate": (p) => ({ value: p.expression === "$.body" ? (p.document as { body: string }).body : p.as === "template" && "url" in (p.expression as object) ? { url: "https://a" } : { got: (p.document as Record<string, unknown>)["get"] }, matches: [] }),
        "callables.call": () => ({ name: "Fetch", kind: "tool", id: "t1", output: { body: "news" }, usage: {} }) as never,
      }),
    );
    const kept = store();
    const b = new SkillBuilder(rpc, kept);
    await b.open(ID);
    expect(await b.run.step("steps[0]")).toBe(true);
    expect(rpc.sent("callables.call")).toEqual([{ kind: "tool", id: "t1", input: { retries: 2, url: "https://a" }, interactive: true }]);
    expect(b.mapping.results).toEqual({ get: "news" });
    expect(b.mapping.known("get")).toBe(true);
    expect(await b.run.step("steps[1]")).toBe(true);
    expect(b.mapping.results["make"]).toEqual({ got: "news" });

    b.run.pin("get", "old news");
    expect(b.run.mocks).toEqual({ get: { output: "old news" } });
    expect(b.mapping.documentAt("steps[1]")["get"]).toBe("old news");
    const again = new SkillBuilder(rpc, kept);
    await again.open(ID);
    expect(again.mapping.pins).toEqual({ get: "old news" });
    again.run.pin("get", undefined);
    expect([...kept.keys()].filter((k) => k.includes("pins"))).toEqual([]);

    rpc.failNext("callables.call", new RpcError({ kind: "denied", message: "not allowed" }));
    expect(await b.run.step("steps[0]")).toBe(false);
    expect(b.run.errors["get"]?.message).toBe("not allowed");
    expect(b.run.busy).toBe("");
  });
});
