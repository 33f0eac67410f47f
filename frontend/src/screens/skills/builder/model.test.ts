import { describe, expect, it } from "vitest";
import { SkillDraft, stepFor, stepOf, textOf } from "./draft.svelte";
import { namesInTemplate, namesUsed, readTemplate, renameStep, showTemplate, usesIn } from "./expressions";
import { locate, spotOf } from "./jsonlines";
import { layout, linesWithin, pathOf, SIZE } from "./layout";
import { idPath } from "./run.svelte";
import { sample, sampleDocument } from "./samples";
import { copyStep, isShort, moveStep, neighbour, newId, ownerOf, placeOf, rows, scopeAt, segments, shapeProblem, slots, stepAt, stepOfProblem, valueAt, withValue } from "./steps";
import type { Entry, Skill, Step } from "./types";

const t = (id: string, more: Partial<Step> = {}): Step => ({ stepId: id, toolType: "transform", value: {}, ...more });

function forked(): Skill {
  return {
    name: "Forked",
    steps: [t("a"), { stepId: "b", toolType: "branch", cases: [{ when: "$.a == 1", steps: [t("b1"), t("b2")] }], else: [] }, { stepId: "m", toolType: "map", items: "$.a", steps: [t("m1")] }, t("z")],
  };
}

describe("paths", () => {
  it("reads the paths of problems", () => {
    expect(segments("steps[2].cases[0].steps[1].inputMapping['a-b'].c")).toEqual(["steps", 2, "cases", 0, "steps", 1, "inputMapping", "a-b", "c"]);
    expect(placeOf("steps[2].cases[0].steps[1]")).toEqual({ list: "steps[2].cases[0].steps", index: 1 });
    expect(placeOf("steps[2].cases[0]")).toBeNull();
    expect(ownerOf("steps[2].cases[0].steps")).toBe("steps[2]");
    expect(ownerOf("steps[1].else")).toBe("steps[1]");
    expect(ownerOf("steps")).toBeNull();
    expect(stepOfProblem("steps[1].cases[0].steps[1].condition")).toBe("steps[1].cases[0].steps[1]");
    expect(stepOfProblem("steps[1].cases[0].when")).toBe("steps[1]");
    expect(stepOfProblem("outputMapping.x")).toBe("");
  });
  it("changes a value and shares the rest", () => {
    const s = forked();
    const next = withValue(s, "steps[1].cases[0].when", "$.a == 2");
    expect(valueAt(next, "steps[1].cases[0].when")).toBe("$.a == 2");
    expect(valueAt(s, "steps[1].cases[0].when")).toBe("$.a == 1");
    expect(next.steps[0]).toBe(s.steps[0]);
    expect("value" in withValue(s, "steps[0].value", undefined).steps[0]!).toBe(false);
  });
  it("says what cannot be drawn", () => {
    expect(shapeProblem({ steps: null })).toBe("steps must be a list of steps.");
    expect(shapeProblem({ steps: [null] })).toBe("steps[0] must be an object.");
    expect(shapeProblem({ steps: [{ cases: [{ when: "", steps: {} }] }] })).toContain("cases[0].steps");
    expect(shapeProblem([])).not.toBe("");
    expect(shapeProblem({ steps: [{ show: "x" }] })).toBe("steps[0].show must be a list.");
    expect(shapeProblem({ steps: [{ inputMapping: "x" }] })).toBe("steps[0].inputMapping must be an object.");
    expect(shapeProblem({ steps: [{ cases: [{ steps: [] }] }] })).toContain("when must be text");
    expect([isShort({ stepId: "a", toolName: "x" } as Step), isShort(t("a"))]).toEqual([true, false]);
    expect(shapeProblem(forked())).toBe("");
  });
});

describe("the flow", () => {
  it("goes along with the arrow keys, and back the same way", () => {
    const s = forked();
    const way = ["steps[0]", "steps[1]", "steps[1].cases[0].steps[0]", "steps[1].cases[0].steps[1]", "steps[2]", "steps[2].steps[0]", "steps[3]"];
    for (let i = 0; i + 1 < way.length; i++) expect(neighbour(s, way[i]!, "down")).toBe(way[i + 1]);
    for (let i = way.length - 1; i > 0; i--) expect(neighbour(s, way[i]!, "up")).toBe(way[i - 1]);
    expect(neighbour(s, "steps[3]", "down")).toBeNull();
    expect(neighbour(s, "steps[0]", "up")).toBeNull();
    expect(neighbour(s, null, "down")).toBe("steps[0]");
    expect(neighbour(s, null, "up")).toBe("steps[3]");
  });
  it("changes arms with left and right, empty ones too", () => {
    const s = forked();
    expect(neighbour(s, "steps[1].cases[0].steps[1]", "right")).toBe("steps[1].else");
    expect(neighbour(s, "steps[1].else", "left")).toBe("steps[1].cases[0].steps[0]");
    expect(neighbour(s, "steps[1].else", "down")).toBe("steps[2]");
    expect(neighbour(s, "steps[1].else", "up")).toBe("steps[1]");
    expect(neighbour(s, "steps[0]", "left")).toBeNull();
  });
  it("moves a step through every place and back", () => {
    let s = forked();
    let path = "steps[0]";
    const seen: string[] = [path];
    for (let m = moveStep(s, path, 1); m; m = moveStep(s, path, 1)) {
      s = m.skill;
      path = m.path;
      expect(stepAt(s, path)?.stepId).toBe("a");
      seen.push(path);
    }
    expect(seen).toContain("steps[0].cases[0].steps[0]");
    expect(seen).toContain("steps[0].else[0]");
    expect(seen.at(-1)).toBe("steps[3]");
    for (let m = moveStep(s, path, -1); m; m = moveStep(s, path, -1)) ({ skill: s, path } = m);
    expect(s).toEqual(forked());
    expect(slots(forked())).toHaveLength(4 + 1 + 3 + 1 + 2);
  });
  it("lists steps and arms as rows", () => {
    expect(rows(forked()).map((r) => `${r.depth} ${r.step?.stepId ?? r.arm?.kind}`)).toEqual(["0 a", "0 b", "1 case", "2 b1", "2 b2", "1 else", "0 m", "1 body", "2 m1", "0 z"]);
  });
  it("knows what a step may use", () => {
    const s = forked();
    const at = (p: string) => [...scopeAt(s, p).steps].map(([id, v]) => id + (v.maybe ? "?" : ""));
    expect(at("steps[1].cases[0].steps[1]")).toEqual(["a", "b1"]);
    expect(at("steps[3]")).toEqual(["a", "b1?", "b2?", "b", "m"]);
    expect(scopeAt(s, "steps[2].steps[0]").map).toBe("steps[2]");
    expect(scopeAt(s, "steps[3]").map).toBeNull();
    s.steps[0] = { ...s.steps[0]!, condition: "$.input.x" };
    expect(at("steps[1]")).toEqual(["a?"]);
    expect(at("")).toContain("z");
  });
});

describe("ids and expressions", () => {
  it("makes ids that nobody has", () => {
    expect(newId("Text Counter", new Set())).toBe("text_counter");
    expect(newId("Text Counter", new Set(["text_counter"]))).toBe("text_counter_2");
    expect(newId("7zip", new Set())).toBe("step_7zip");
    expect(newId("input", new Set())).toBe("input_1");
    expect(newId("日本", new Set())).toBe("step");
    expect(newId("github.search", new Set())).toBe("github_search");
  });
  it("finds what paths start with, and only paths", () => {
    expect(usesIn("$.a.b == 1 && $['c-d'].x || $.steps.e.output != '$.f'").map((u) => u.name)).toEqual(["a", "c-d", "e"]);
    expect(usesIn("$['steps']['g'].output").map((u) => u.name)).toEqual(["g"]);
    expect(usesIn("$[?@.x == $.h]").map((u) => u.name)).toEqual(["h"]);
    expect(usesIn("plain $ text")).toEqual([]);
  });
  it("renames in conditions, templates and bodies, not in literals", () => {
    const s: Step = {
      stepId: "x",
      toolType: "branch",
      condition: "$.old.n > 1 && $.older == 'old $.old'",
      parameters: { p: "$.old" },
      inputMapping: { q: "$.old", r: ["$$.old", { $path: "$.steps.old.output", default: "$.old" }], l: { $literal: "$.old" } },
      cases: [{ when: "$['old'].ok == true", steps: [t("y", { value: "$.old.z" })] }],
    };
    const out = renameStep(s, "old", "new");
    expect(out.condition).toBe("$.new.n > 1 && $.older == 'old $.old'");
    expect(out.parameters).toEqual({ p: "$.old" });
    expect(out.inputMapping).toEqual({ q: "$.new", r: ["$$.old", { $path: "$.steps.new.output", default: "$.old" }], l: { $literal: "$.old" } });
    expect(out.cases![0]!.when).toBe("$['new'].ok == true");
    expect(out.cases![0]!.steps[0]!.value).toBe("$.new.z");
    expect(renameStep(t("q", { value: "$.old.z" }), "old", "a-b").value).toBe("$['a-b'].z");
    expect([...namesUsed(s)]).toEqual(["old", "older"]);
    expect([...namesInTemplate({ a: ["$.x.y"], b: "$$.z", c: { $concat: ["t", "$['w-w']"] } })]).toEqual(["x", "w-w"]);
  });
  it("reads and shows mappings", () => {
    expect(readTemplate(" $.a ")).toEqual({ value: "$.a", error: "" });
    expect(readTemplate('{"$path":"$.a","default":0}').value).toEqual({ $path: "$.a", default: 0 });
    expect(readTemplate("").value).toBeUndefined();
    expect(readTemplate("a.b").error).not.toBe("");
    expect(showTemplate("$.a")).toBe("$.a");
    expect(showTemplate("x")).toBe('"x"');
    expect(showTemplate(undefined)).toBe("");
  });
});

describe("the draft", () => {
  const entry: Entry = { toolType: "custom", toolId: "1", name: "Fetch", description: "", tier: "readOnly", idempotent: true, capabilities: [] };
  it("adds, edits, duplicates, moves and deletes, and undoes all of it", () => {
    const d = new SkillDraft();
    d.open({ name: "S", steps: [] });
    d.add(stepFor(entry, d.ids()));
    expect(d.selected).toBe("steps[0]");
    expect(d.step).toMatchObject({ stepId: "fetch", toolType: "custom", toolId: "1", toolName: "Fetch" });
    d.edit("steps[0]", { condition: "$.input.x == 1" });
    d.duplicate();
    expect(d.selected).toBe("steps[1]");
    expect(d.step?.stepId).toBe("fetch_2");
    d.move(-1);
    expect(d.skill.steps.map((s) => s.stepId)).toEqual(["fetch_2", "fetch"]);
    d.add(stepOf("branch", d.ids()));
    d.select("steps[1].else");
    d.add(stepFor(entry, d.ids()));
    expect(d.selected).toBe("steps[1].else[0]");
    d.remove();
    expect(d.selected).toBe("steps[1].else");
    const end = d.skill;
    let n = 0;
    while (d.undo() !== "") n++;
    expect(n).toBe(7);
    expect(d.skill).toEqual({ name: "S", steps: [] });
    while (d.redo() !== "");
    expect(d.skill).toBe(end);
    d.undo();
    expect(d.selected).toBe("steps[1].else[0]");
  });
  it("takes typing together, and a pause apart", () => {
    let now = 0;
    const d = new SkillDraft(() => now);
    d.open({ name: "", steps: [t("a")] });
    d.set("name", "A", "Rename");
    d.set("name", "Ab", "Rename");
    now += 5000;
    d.set("name", "Abc", "Rename");
    d.edit("steps[0]", { description: "x" }, "description");
    d.edit("steps[0]", { description: "xy" }, "description");
    d.undo();
    expect(d.skill.steps[0]!.description).toBeUndefined();
    d.undo();
    expect(d.skill.name).toBe("Ab");
    d.undo();
    expect(d.skill.name).toBe("");
    expect(d.canUndo).toBe(false);
  });
  it("renames a step everywhere in one change", () => {
    const d = new SkillDraft();
    d.open({ name: "", steps: [t("a"), t("b", { value: { x: "$.a.n" } })], outputMapping: "$.a" });
    d.rename("steps[0]", "first");
    expect(d.skill.steps[1]!.value).toEqual({ x: "$.first.n" });
    expect(d.skill.outputMapping).toBe("$.first");
    d.undo();
    expect(d.skill.outputMapping).toBe("$.a");
  });
  it("reads text and keeps the last that can be drawn", () => {
    const d = new SkillDraft();
    d.open({ name: "A", steps: [] });
    expect(d.setText('{"name":"B","steps":[')).not.toBe("");
    expect(d.setText('{"name":"B","steps":null}')).toContain("steps");
    expect(d.skill.name).toBe("A");
    expect(d.setText('{"name":"B","steps":[{"stepId":"x","toolType":"transform"}],"extra":1}')).toBe("");
    expect(d.skill).toMatchObject({ name: "B", extra: 1 });
    expect(JSON.parse(textOf(d.skill))).toEqual(d.skill);
  });
  it("copies a body with new ids that refer to each other", () => {
    const copy = copyStep({ stepId: "m", toolType: "map", items: "$.a", steps: [t("x"), t("y", { value: "$.x.n" })] }, new Set(["m", "x", "y", "a"]));
    expect(copy).toMatchObject({ stepId: "m_2", items: "$.a", steps: [{ stepId: "x_2" }, { stepId: "y_2", value: "$.x_2.n" }] });
  });
});

describe("the layout", () => {
  const inside = (skill: Skill): void => {
    const l = layout(skill);
    const solid = l.boxes.filter((b) => b.kind !== "group");
    for (let i = 0; i < solid.length; i++)
      for (let j = i + 1; j < solid.length; j++) {
        const [a, b] = [solid[i]!, solid[j]!];
        const apart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
        expect(apart, `${a.id} over ${b.id}`).toBe(true);
      }
    for (const g of l.boxes.filter((b) => b.kind === "group"))
      for (const b of l.boxes.filter((x) => x !== g && x.id.startsWith(g.arm!.path))) {
        expect(b.x >= g.x && b.y >= g.y && b.x + b.width <= g.x + g.width && b.y + b.height <= g.y + g.height, `${b.id} in ${g.id}`).toBe(true);
      }
    for (const line of l.lines) expect(line.y2).toBeGreaterThan(line.y1);
  };
  it("keeps boxes apart and bodies in their groups", () => {
    inside({ name: "", steps: [] });
    inside(forked());
    const deep = (n: number): Step => (n === 0 ? t(`d${n}`) : { stepId: `d${n}`, toolType: n % 2 ? "map" : "branch", steps: n % 2 ? [deep(n - 1)] : undefined, cases: n % 2 ? undefined : [{ when: "", steps: [deep(n - 1)] }, { when: "", steps: [] }] } as Step);
    inside({ name: "", steps: [deep(8), t("last")] });
  });
  it("leads every way out of a branch to what follows", () => {
    const l = layout(forked());
    expect(l.lines.filter((x) => x.id.startsWith("steps[2]<"))).toHaveLength(2);
    expect(l.lines.every((x) => pathOf(x).startsWith("M"))).toBe(true);
    expect(linesWithin(l.lines, -100, SIZE.end + 1)).toHaveLength(1);
  });
  it("places 500 steps", () => {
    const skill = { name: "", steps: Array.from({ length: 500 }, (_, i) => t(`s${i}`)) };
    expect(layout(skill).boxes).toHaveLength(502);
  });
});

describe("text and samples", () => {
  it("finds the line of each problem path", () => {
    const text = JSON.stringify({ name: "x", steps: [{ stepId: "a", inputMapping: { "a-b": "$.x", q: 1 } }, { stepId: "b" }] }, null, 2);
    const spots = locate(text);
    const line = (p: string) => text.split("\n")[spotOf(spots, p).line - 1]!.trim();
    expect(line("steps[0].inputMapping['a-b']")).toBe('"a-b": "$.x",');
    expect(line("steps[0].inputMapping.q")).toBe('"q": 1');
    expect(line("steps[1].stepId")).toBe('"stepId": "b"');
    expect(line("steps[1].condition")).toBe("{");
    expect(spotOf(spots, "").line).toBe(1);
    expect(locate('{"a": [1, ').get("a")).toBeUndefined();
  });
  it("makes a document from schemas", () => {
    const entry: Entry = { toolType: "custom", name: "F", description: "", tier: "readOnly", idempotent: true, capabilities: [], outputSchema: { type: "object", properties: { list: { type: "array", items: { type: "integer" } } } } };
    const doc = sampleDocument({ name: "", inputSchema: { type: "object", properties: { q: { type: "string" }, n: { default: 5 } } }, steps: [{ stepId: "f", toolType: "custom", toolName: "F" }] }, () => entry);
    expect(doc).toMatchObject({ input: { q: "text", n: 5 }, f: { list: [1] }, steps: { f: { status: "completed" } } });
    expect(sample({ $ref: "#/x" })).toBeNull();
  });

  it("pastes steps with new ids, which those inside follow", () => {
    const d = new SkillDraft();
    d.open({ name: "To", steps: [{ stepId: "get", toolType: "builtin", toolName: "http" }] });
    d.select("steps[0]");
    d.paste([{ stepId: "get", toolType: "builtin", toolName: "http" }, { stepId: "make", toolType: "transform", value: "$.make" }] as Step[]);
    expect(d.skill.steps.map((s) => s.stepId)).toEqual(["get", "get_2", "make"]);
    expect(d.selected).toBe("steps[1]");
    expect(d.undo()).toBe("Paste 2 steps");
    expect(d.skill.steps).toHaveLength(1);
    expect(idPath({ name: "", steps: [{ stepId: "a", toolType: "map", steps: [{ stepId: "b", toolType: "branch", cases: [{ when: "", steps: [{ stepId: "c", toolType: "transform" }] }] }] }] } as unknown as Skill, "steps[0].steps[0].cases[0].steps[0]")).toBe("a/b/c");
  });
});
