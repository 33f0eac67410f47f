/** A skill while it is being changed: operations on it, what is selected, undo and redo. */
import { renameInTemplate, renameStep } from "./expressions";
import { t } from "./messages";
import { armsOf, copyStep, idsOf, insertStep, listAt, moveStep, neighbour, newId, ownerOf, placeOf, removeStep, shapeProblem, stepAt, walk, withValue } from "./steps";
import type { Entry, Skill, Step } from "./types";

/** One state in the undo history. */
interface Moment {
  skill: Skill;
  selected: string | null;
  /** The change that followed it, in words. */
  label: string;
  /** Consecutive changes with the same key within a short time are one undo step. */
  merge: string;
  at: number;
}

const MERGE_MS = 2000;
const DEPTH = 200;

export function emptySkill(): Skill {
  return { name: "", steps: [] };
}

/** The order in which fields of a skill and of a step are written. */
const SKILL_ORDER = ["skillId", "name", "description", "version", "tags", "icon", "isEnabled", "visibility", "inputSchema", "outputMapping", "notification", "overallTimeoutMs", "steps"];

/** The text of a skill. */
export function textOf(skill: Skill): string {
  const out: Record<string, unknown> = {};
  for (const k of SKILL_ORDER) if (skill[k] !== undefined) out[k] = skill[k];
  for (const [k, v] of Object.entries(skill)) if (!(k in out) && v !== undefined) out[k] = v;
  return JSON.stringify(out, null, 2);
}

/** A new step that calls an entry of the catalog. */
export function stepFor(entry: Entry, taken: ReadonlySet<string>): Step {
  const step: Step = { stepId: newId(entry.name, taken), toolType: entry.toolType };
  // Built-ins and MCP tools are identified by name; the user's own can be renamed, so the id is used.
  if (entry.toolId) step.toolId = entry.toolId;
  step.toolName = entry.name;
  return step;
}

/** A new step of a kind that calls nothing. */
export function stepOf(kind: "branch" | "map" | "approval" | "transform", taken: ReadonlySet<string>): Step {
  const id = newId({ branch: "choose", map: "each", approval: "ask", transform: "make" }[kind], taken);
  switch (kind) {
    case "branch":
      return { stepId: id, toolType: kind, cases: [{ when: "", steps: [] }], else: [] };
    case "map":
      return { stepId: id, toolType: kind, items: "", steps: [] };
    case "approval":
      return { stepId: id, toolType: kind, title: "Continue?" };
    case "transform":
      return { stepId: id, toolType: kind, value: {} };
  }
}

export class SkillDraft {
  /** Replaced as a whole by each change; unchanged parts stay the same objects. */
  skill = $state.raw<Skill>(emptySkill());
  /** Path of a step, or of an arm without steps; null for the skill itself. */
  selected = $state<string | null>(null);
  #undo = $state.raw<readonly Moment[]>([]);
  #redo = $state.raw<readonly Moment[]>([]);
  readonly #now: () => number;

  constructor(now: () => number = () => Date.now()) {
    this.#now = now;
  }

  readonly canUndo = $derived(this.#undo.length > 0);
  readonly canRedo = $derived(this.#redo.length > 0);
  /** What undo would revert, in words. */
  readonly undoLabel = $derived(this.#undo.at(-1)?.label ?? "");
  readonly redoLabel = $derived(this.#redo.at(-1)?.label ?? "");
  readonly step = $derived(this.selected === null ? null : stepAt(this.skill, this.selected));

  /** Starts with a skill and an empty undo history. */
  open(skill: Skill): void {
    this.skill = skill;
    this.selected = null;
    this.#undo = [];
    this.#redo = [];
  }

  /** Replaces the shown skill by its stored form, without an undo step. */
  settle(skill: Skill): void {
    this.skill = skill;
    this.selected = this.#valid(this.selected);
  }

  /** Makes an undoable change. Changes with the same merge key within a short time are merged. */
  change(label: string, skill: Skill, selected: string | null = this.selected, merge = ""): void {
    if (skill === this.skill) return;
    const last = this.#undo.at(-1);
    const now = this.#now();
    if (merge !== "" && last?.merge === merge && now - last.at < MERGE_MS && this.#redo.length === 0) {
      this.#undo = [...this.#undo.slice(0, -1), { ...last, at: now }];
    } else this.#undo = [...this.#undo.slice(-DEPTH + 1), { skill: this.skill, selected: this.selected, label, merge, at: now }];
    this.#redo = [];
    this.skill = skill;
    this.selected = this.#valid(selected);
  }

  /** The path if it still exists, else null. */
  #valid(path: string | null): string | null {
    if (path === null) return null;
    if (placeOf(path)) return stepAt(this.skill, path) ? path : null;
    const owner = ownerOf(path);
    const step = owner === null ? null : stepAt(this.skill, owner);
    return owner !== null && step && armsOf(step, owner).some((a) => a.path === path) ? path : null;
  }

  /** Undoes the last change. Returns its label, or "". */
  undo(): string {
    return this.#step("undo");
  }

  /** Redoes the last undone change. Returns its label, or "". */
  redo(): string {
    return this.#step("redo");
  }

  #step(way: "undo" | "redo"): string {
    const from = way === "undo" ? this.#undo : this.#redo;
    const m = from.at(-1);
    if (!m) return "";
    const here: Moment = { skill: this.skill, selected: this.selected, label: m.label, merge: "", at: 0 };
    if (way === "undo") {
      this.#undo = from.slice(0, -1);
      this.#redo = [...this.#redo, here];
    } else {
      this.#redo = from.slice(0, -1);
      this.#undo = [...this.#undo, here];
    }
    this.skill = m.skill;
    this.selected = this.#valid(m.selected);
    return m.label;
  }

  select(path: string | null): void {
    this.selected = this.#valid(path);
  }

  /** Moves the selection with an arrow key. Returns false if there is nothing in that direction. */
  go(key: "up" | "down" | "left" | "right"): boolean {
    const next = neighbour(this.skill, this.selected, key);
    if (next === null) return false;
    this.selected = next;
    return true;
  }

  /** Where a step is inserted after the selection. */
  after(path: string | null = this.selected): { list: string; index: number } {
    const p = path === null ? null : placeOf(path);
    if (p) return { list: p.list, index: p.index + 1 };
    if (path !== null) return { list: path, index: 0 };
    return { list: "steps", index: this.skill.steps.length };
  }

  /** Where a step is inserted before the selection. */
  before(path: string | null = this.selected): { list: string; index: number } {
    const p = path === null ? null : placeOf(path);
    return p ?? (path !== null ? { list: path, index: 0 } : { list: "steps", index: 0 });
  }

  /** Inserts a step and selects it. */
  add(step: Step, at: { list: string; index: number } = this.after()): void {
    this.change(t.changes.add(step.stepId), insertStep(this.skill, at.list, at.index, step), `${at.list}[${at.index}]`);
  }

  /** Inserts copies of steps, with new ids if theirs are taken, and selects the first. */
  paste(steps: readonly Step[], at: { list: string; index: number } = this.after()): void {
    let skill = this.skill;
    steps.forEach((s, i) => (skill = insertStep(skill, at.list, at.index + i, copyStep(s, idsOf(skill)))));
    this.change(t.changes.paste(steps.length), skill, `${at.list}[${at.index}]`);
  }

  /** The ids that are taken. */
  ids(): Set<string> {
    return idsOf(this.skill);
  }

  /** Removes a step; the next one, or else the previous one, is selected. */
  remove(path: string | null = this.selected): Step | null {
    const at = path === null ? null : placeOf(path);
    const step = path === null ? null : stepAt(this.skill, path);
    if (!at || !step || path === null) return null;
    const next = removeStep(this.skill, path);
    const left = listAt(next, at.list).length;
    const select = left === 0 ? (ownerOf(at.list) === null ? null : at.list) : `${at.list}[${Math.min(at.index, left - 1)}]`;
    this.change(t.changes.delete(step.stepId), next, select);
    return step;
  }

  /** Moves a step one place along the flow. Returns false at either end. */
  move(by: 1 | -1, path: string | null = this.selected): boolean {
    const step = path === null ? null : stepAt(this.skill, path);
    const moved = path === null || !step ? null : moveStep(this.skill, path, by);
    if (!moved || !step) return false;
    this.change(t.changes.move(step.stepId), moved.skill, moved.path);
    return true;
  }

  /** Inserts a copy after a step and selects it. */
  duplicate(path: string | null = this.selected): void {
    const step = path === null ? null : stepAt(this.skill, path);
    if (step) this.paste([step], this.after(path));
  }

  /** Changes fields of a step; undefined removes one. Typing into one field is one change. */
  edit(path: string, patch: Partial<Record<keyof Step, unknown>>, merge = ""): void {
    const was = stepAt(this.skill, path);
    if (!was) return;
    const next: Record<string, unknown> = { ...was };
    for (const [k, v] of Object.entries(patch)) {
      if (v === undefined) delete next[k];
      else next[k] = v;
    }
    this.change(t.changes.edit(was.stepId), withValue(this.skill, path, next), this.selected, merge === "" ? "" : `${path}:${merge}`);
  }

  /** Changes any value of the skill by its path. */
  set(path: string, value: unknown, label: string, merge = path): void {
    this.change(label, withValue(this.skill, path, value), this.selected, merge);
  }

  /** Renames the id of a step, and all references to it. */
  rename(path: string, id: string): void {
    const step = stepAt(this.skill, path);
    if (!step || step.stepId === id) return;
    const was = step.stepId;
    let next = withValue(this.skill, `${path}.stepId`, id);
    if (was !== "") {
      next = { ...next, steps: next.steps.map((s) => renameStep(s, was, id)) };
      if (next.outputMapping !== undefined) next = { ...next, outputMapping: renameInTemplate(next.outputMapping, was, id) };
      const n = next.notification;
      if (n) next = { ...next, notification: { ...n, ...(n.title === undefined ? {} : { title: renameInTemplate(n.title, was, id) }), ...(n.body === undefined ? {} : { body: renameInTemplate(n.body, was, id) }) } };
    }
    this.change(t.changes.rename(was), next);
  }

  /** Makes a step call something else. Mappings and policies are kept. */
  retarget(path: string, entry: Entry): void {
    const s = stepAt(this.skill, path);
    if (!s) return;
    this.edit(path, { toolType: entry.toolType, toolId: entry.toolId, toolName: entry.name, skillVersion: undefined });
  }

  /** Applies the content of the text tab. Returns why it cannot be shown as a flow, or "". */
  setText(text: string): string {
    let v: unknown;
    try {
      v = JSON.parse(text);
    } catch {
      return t.invalidJson;
    }
    const problem = shapeProblem(v);
    if (problem !== "") return problem;
    if (JSON.stringify(v) !== JSON.stringify(this.skill)) this.change(t.changes.text, { ...(v as Skill), name: (v as Skill).name ?? "" }, this.selected, "text");
    return "";
  }

  /** The path of the first step with an id, or null. */
  find(id: string): string | null {
    let found: string | null = null;
    walk(this.skill, (path, s) => {
      if (found === null && s.stepId === id) found = path;
    });
    return found;
  }
}
