/**
 * Steps of a skill as values. Everything here is pure: an operation answers a new skill and
 * leaves the old one as it was, sharing what did not change.
 *
 * A place is written as the backend writes the path of a problem. A list of steps is
 * `steps`, `steps[2].steps`, `steps[2].cases[0].steps` or `steps[2].else`; a step is a list
 * and an index, `steps[2].cases[0].steps[1]`.
 */
import { renameStep } from "./expressions";
import { t } from "./messages";
import type { Case, Skill, Step } from "./types";

export type Segment = string | number;

/** The parts of a path: `steps[2].cases` → ["steps", 2, "cases"]. Quoted names are supported too. */
export function segments(path: string): Segment[] {
  const out: Segment[] = [];
  const part = /\.?([A-Za-z_$][\w$-]*)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]/gy;
  for (let m = part.exec(path); m !== null; m = part.exec(path)) {
    out.push(m[2] !== undefined ? Number(m[2]) : m[3] !== undefined ? m[3].replace(/\\(.)/g, "$1") : m[1]!);
    if (part.lastIndex >= path.length) break;
  }
  return out;
}

/** The value at a path, undefined if there is none. */
export function valueAt(root: unknown, path: string): unknown {
  let v = root;
  for (const s of segments(path)) {
    if (v === null || typeof v !== "object") return undefined;
    v = (v as Record<Segment, unknown>)[s];
  }
  return v;
}

/** The root with another value at a path. Undefined removes a member. */
export function withValue<T>(root: T, path: string, value: unknown): T {
  const put = (at: unknown, rest: readonly Segment[]): unknown => {
    const [head, ...tail] = rest;
    if (head === undefined) return value;
    if (typeof head === "number") {
      const list = Array.isArray(at) ? [...(at as unknown[])] : [];
      list[head] = put(list[head], tail);
      return list;
    }
    const was = (at !== null && typeof at === "object" ? at : {}) as Record<string, unknown>;
    const next = put(was[head], tail);
    if (next !== undefined) return { ...was, [head]: next };
    const { [head]: _gone, ...others } = was;
    return others;
  };
  return put(root, segments(path)) as T;
}

/** The list and the index of a step; null if the path is not that of a step. */
export function placeOf(path: string): { list: string; index: number } | null {
  const m = /^(.*)\[(\d+)\]$/.exec(path);
  return m && /(^|\.)(steps|else)$/.test(m[1]!) ? { list: m[1]!, index: Number(m[2]) } : null;
}

/** The step that contains a list of steps, or null for the skill's own list. */
export function ownerOf(list: string): string | null {
  const m = /^(.*?)(?:\.cases\[\d+\])?\.(?:steps|else)$/.exec(list);
  return m ? m[1]! : null;
}

/** The steps of a list; empty if it does not exist. */
export function listAt(skill: Skill, list: string): readonly Step[] {
  const v = valueAt(skill, list);
  return Array.isArray(v) ? (v as Step[]) : [];
}

export function stepAt(skill: Skill, path: string): Step | null {
  return placeOf(path) === null ? null : ((valueAt(skill, path) as Step | undefined) ?? null);
}

/** One list of steps inside a step. */
export interface Arm {
  /** Path of the list. */
  path: string;
  kind: "case" | "else" | "body";
  /** For a case: its number and its condition. */
  index: number;
  when: string;
  steps: readonly Step[];
}

/** The lists inside a step, in order. A branch always has an else. */
export function armsOf(step: Step, path: string): Arm[] {
  if (step.toolType === "branch") {
    const cases = Array.isArray(step.cases) ? step.cases : [];
    return [
      ...cases.map((c, i): Arm => ({ path: `${path}.cases[${i}].steps`, kind: "case", index: i, when: c.when ?? "", steps: c.steps ?? [] })),
      { path: `${path}.else`, kind: "else", index: cases.length, when: "", steps: step.else ?? [] },
    ];
  }
  if (step.toolType === "map") return [{ path: `${path}.steps`, kind: "body", index: 0, when: "", steps: step.steps ?? [] }];
  return [];
}

/** Visits every step, outer ones before inner ones. */
export function walk(skill: Skill, visit: (path: string, step: Step, depth: number) => void): void {
  const go = (list: string, steps: readonly Step[], depth: number): void => {
    steps.forEach((s, i) => {
      const path = `${list}[${i}]`;
      visit(path, s, depth);
      for (const arm of armsOf(s, path)) go(arm.path, arm.steps, depth + 1);
    });
  };
  go("steps", skill.steps, 0);
}

/** The ids of all steps. */
export function idsOf(skill: Skill): Set<string> {
  const ids = new Set<string>();
  walk(skill, (_, s) => ids.add(s.stepId));
  return ids;
}

const RESERVED = new Set(["input", "steps", "run", "item", "index"]);

/** An unused id derived from a name. */
export function newId(name: string, taken: ReadonlySet<string>): string {
  let base = name
    .normalize("NFKD")
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .toLowerCase()
    .slice(0, 40);
  if (base === "" || /^[0-9]/.test(base)) base = `step_${base}`.replace(/_$/, "");
  if (RESERVED.has(base)) base += "_1";
  if (!taken.has(base)) return base;
  const stem = base.replace(/_\d+$/, "");
  for (let i = 2; ; i++) if (!taken.has(`${stem}_${i}`)) return `${stem}_${i}`;
}

/** Why a step cannot have this id; empty if it can. */
export function idProblem(id: string, others: ReadonlySet<string>): string {
  if (id === "") return t.idErrors.missing;
  if (!/^[A-Za-z_][A-Za-z0-9_-]{0,63}$/.test(id)) return t.idErrors.signs;
  if (RESERVED.has(id)) return t.idErrors.reserved(id);
  return others.has(id) ? t.idErrors.taken : "";
}

/** The skill with a step inserted into a list at an index. */
export function insertStep(skill: Skill, list: string, index: number, step: Step): Skill {
  const steps = [...listAt(skill, list)];
  steps.splice(index, 0, step);
  return withValue(skill, list, steps);
}

export function removeStep(skill: Skill, path: string): Skill {
  const at = placeOf(path);
  if (at === null) return skill;
  const steps = listAt(skill, at.list).filter((_, i) => i !== at.index);
  return withValue(skill, at.list, steps);
}

/** A copy with new ids for the step and all steps inside it; references inside the copy are updated. */
export function copyStep(step: Step, taken: ReadonlySet<string>): Step {
  const ids = new Set(taken);
  const names = new Map<string, string>();
  const collect = (s: Step): void => {
    const id = newId(s.stepId, ids);
    ids.add(id);
    names.set(s.stepId, id);
    for (const a of armsOf(s, "")) a.steps.forEach(collect);
  };
  collect(step);
  let copy = structuredClone(step);
  for (const [was, now] of names) if (was !== now) copy = renameStep(copy, was, now);
  const rename = (s: Step): Step => {
    const out: Step = { ...s, stepId: names.get(s.stepId) ?? s.stepId };
    if (s.steps) out.steps = s.steps.map(rename);
    if (s.else) out.else = s.else.map(rename);
    if (s.cases) out.cases = s.cases.map((c): Case => ({ ...c, steps: c.steps.map(rename) }));
    delete out.ui;
    return out;
  };
  return rename(copy);
}

/** Every place where a step can be, in the order of the flow. */
export function slots(skill: Skill): { list: string; index: number }[] {
  const out: { list: string; index: number }[] = [];
  const go = (list: string, steps: readonly Step[]): void => {
    steps.forEach((s, i) => {
      out.push({ list, index: i });
      for (const a of armsOf(s, `${list}[${i}]`)) go(a.path, a.steps);
    });
    out.push({ list, index: steps.length });
  };
  go("steps", skill.steps);
  return out;
}

/** Moves a step one place along the flow, into and out of arms and bodies. Null at either end. */
export function moveStep(skill: Skill, path: string, by: 1 | -1): { skill: Skill; path: string } | null {
  const at = placeOf(path);
  const step = stepAt(skill, path);
  if (at === null || step === null) return null;
  const rest = removeStep(skill, path);
  const all = slots(rest);
  const here = all.findIndex((s) => s.list === at.list && s.index === at.index);
  const to = all[here + by];
  if (here < 0 || to === undefined) return null;
  const next = insertStep(rest, to.list, to.index, step);
  return { skill: next, path: `${to.list}[${to.index}]` };
}

/** What can be selected by keyboard, in the order of the flow: steps, and arms without steps. */
export interface Stop {
  path: string;
  step: Step | null;
  arm: Arm | null;
  depth: number;
}

/** The rows of the list view: steps and all arms. */
export function rows(skill: Skill): Stop[] {
  const out: Stop[] = [];
  const go = (list: string, steps: readonly Step[], depth: number): void => {
    steps.forEach((s, i) => {
      const path = `${list}[${i}]`;
      out.push({ path, step: s, arm: null, depth });
      for (const arm of armsOf(s, path)) {
        out.push({ path: arm.path, step: null, arm, depth: depth + 1 });
        go(arm.path, arm.steps, depth + 2);
      }
    });
  };
  go("steps", skill.steps, 0);
  return out;
}

/** The place that an arrow key leads to; null if there is none. */
export function neighbour(skill: Skill, path: string | null, key: "up" | "down" | "left" | "right"): string | null {
  const first = skill.steps.length > 0 ? "steps[0]" : null;
  if (path === null) return key === "up" && first ? `steps[${skill.steps.length - 1}]` : first;
  const head = (list: string): string => (listAt(skill, list).length > 0 ? `${list}[0]` : list);
  const tail = (list: string): string => (listAt(skill, list).length > 0 ? `${list}[${listAt(skill, list).length - 1}]` : list);
  const place = placeOf(path);
  const list = place?.list ?? path;
  if (key === "left" || key === "right") {
    // The arm next to this one, at the same height.
    for (let l: string | null = list; l !== null; ) {
      const owner = ownerOf(l);
      const step = owner === null ? null : stepAt(skill, owner);
      if (owner === null || step === null) return null;
      const arms = armsOf(step, owner);
      const next = arms[arms.findIndex((a) => a.path === l) + (key === "right" ? 1 : -1)];
      if (next) return next.steps.length === 0 ? next.path : `${next.path}[${Math.min(l === list ? (place?.index ?? 0) : 0, next.steps.length - 1)}]`;
      l = placeOf(owner)?.list ?? null;
    }
    return null;
  }
  if (key === "down") {
    const step = place ? stepAt(skill, path) : null;
    const inner = step ? armsOf(step, path)[0] : undefined;
    if (inner) return head(inner.path);
    for (let at: string | null = path; at !== null; ) {
      const p = placeOf(at);
      if (p && p.index + 1 < listAt(skill, p.list).length) return `${p.list}[${p.index + 1}]`;
      at = ownerOf(p?.list ?? at);
    }
    return null;
  }
  if (place && place.index > 0) {
    let at = `${place.list}[${place.index - 1}]`;
    for (;;) {
      const s = placeOf(at) ? stepAt(skill, at) : null;
      const arm = s ? armsOf(s, at)[0] : undefined;
      if (!arm) return at;
      at = tail(arm.path);
    }
  }
  return ownerOf(list);
}

/** The steps that a step may use, and whether they may be absent because they can be skipped. */
export interface Scope {
  /** Steps that have run before this place: id → may have been skipped. */
  steps: ReadonlyMap<string, { path: string; step: Step; maybe: boolean }>;
  /** Path of the innermost enclosing map, or null. */
  map: string | null;
}

/** Whether the flow can continue without an output of the step. */
function mayBeSkipped(s: Step): boolean {
  const on = s.errorHandling ?? "stop";
  return (
    (s.condition ?? "") !== "" ||
    on === "skip" ||
    on === "continue" ||
    (on === "retry" && (s.onExhausted ?? "stop") !== "stop") ||
    (s.toolType === "approval" && s.onTimeout === "skip")
  );
}

/** The scope at a place: a step, a list of steps, or the end of the skill (`""`). */
export function scopeAt(skill: Skill, path: string): Scope {
  const seen = new Map<string, { path: string; step: Step; maybe: boolean }>();
  let map: string | null = null;
  const add = (s: Step, at: string, maybe: boolean): void => {
    for (const arm of armsOf(s, at)) if (arm.kind !== "body") arm.steps.forEach((x, i) => add(x, `${arm.path}[${i}]`, true));
    seen.set(s.stepId, { path: at, step: s, maybe: maybe || mayBeSkipped(s) });
  };
  const before = (list: string, index: number): void => {
    const owner = ownerOf(list);
    if (owner !== null) {
      const p = placeOf(owner);
      if (p) before(p.list, p.index);
      if (stepAt(skill, owner)?.toolType === "map") map = owner;
    }
    listAt(skill, list)
      .slice(0, index)
      .forEach((s, i) => add(s, `${list}[${i}]`, false));
  };
  if (path === "") before("steps", skill.steps.length);
  else {
    const p = placeOf(path);
    before(p?.list ?? path, p?.index ?? 0);
  }
  return { steps: seen, map };
}

const FIELDS: Record<string, "string" | "number" | "object" | "list"> = {
  stepId: "string",
  toolType: "string",
  toolId: "string",
  toolName: "string",
  description: "string",
  items: "string",
  errorHandling: "string",
  parameters: "object",
  inputMapping: "object",
  retryOn: "list",
  show: "list",
  timeoutMs: "number",
  waitMs: "number",
  maxRetries: "number",
};

/** Why the steps of a value cannot be shown as a flow; empty if they can. */
export function shapeProblem(v: unknown): string {
  if (v === null || typeof v !== "object" || Array.isArray(v)) return t.shape.object;
  const list = (steps: unknown, at: string): string => {
    if (!Array.isArray(steps)) return t.shape.steps(at);
    for (let i = 0; i < steps.length; i++) {
      const s: unknown = steps[i];
      const here = `${at}[${i}]`;
      if (s === null || typeof s !== "object" || Array.isArray(s)) return t.shape.beObject(here);
      const step = s as Record<string, unknown>;
      for (const [field, type] of Object.entries(FIELDS)) {
        const v = step[field];
        if (v !== undefined && (type === "list" ? !Array.isArray(v) : type === "object" ? v === null || typeof v !== "object" || Array.isArray(v) : typeof v !== type)) return { string: t.shape.beText, number: t.shape.beNumber, object: t.shape.beObject, list: t.shape.beList }[type](`${here}.${field}`);
      }
      if (step["steps"] !== undefined) {
        const p = list(step["steps"], `${here}.steps`);
        if (p) return p;
      }
      if (step["else"] !== undefined) {
        const p = list(step["else"], `${here}.else`);
        if (p) return p;
      }
      if (step["cases"] === undefined) continue;
      if (!Array.isArray(step["cases"])) return t.shape.beList(`${here}.cases`);
      for (let j = 0; j < step["cases"].length; j++) {
        const c: unknown = step["cases"][j];
        if (c === null || typeof c !== "object") return t.shape.beObject(`${here}.cases[${j}]`);
        if (typeof (c as Case).when !== "string") return t.shape.beText(`${here}.cases[${j}].when`);
        const p = list((c as Case).steps, `${here}.cases[${j}].steps`);
        if (p) return p;
      }
    }
    return "";
  };
  if (typeof ((v as Skill).name ?? "") !== "string") return t.shape.beText("name");
  return list((v as Skill).steps, "steps");
}

/** Whether a step is written in a short form, which the backend accepts but the views do not. */
export function isShort(s: Step): boolean {
  return !s.toolType || (s.condition !== undefined && typeof s.condition !== "string");
}

/** The longest path of a step or list that contains the path of a problem; empty if it is about the skill. */
export function stepOfProblem(path: string): string {
  const m = /^steps\[\d+\](?:(?:\.cases\[\d+\]\.steps|\.steps|\.else)\[\d+\])*/.exec(path);
  return m ? m[0] : "";
}
