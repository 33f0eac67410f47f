import type { Params, Rpc } from "../../../lib/rpc";
import { asError } from "../../../lib/rpc/errors";
import { Load } from "../../../lib/ui/state";
import type { SkillDraft } from "./draft.svelte";
import { memberPath } from "./expressions";
import { outputKnown, sampleDocument, type Find } from "./samples";
import { scopeAt, stepAt, valueAt, walk, type Scope } from "./steps";
import type { Evaluation, Run } from "./types";

/** The field that receives a path selected in the tree. */
export interface Target {
  /** The label of the field. */
  label: string;
  /** Path of the value in the skill. */
  path: string;
  insert(path: string): void;
  focus(): void;
}

/** A root of the tree, with which a path begins. */
export interface Root {
  name: string;
  path: string;
  value: unknown;
  /** The origin of the value: a run, a schema, or unknown. */
  from: "run" | "schema" | "unknown";
  /** The step may be skipped, and is absent then. */
  maybe: boolean;
}

export type As = "path" | "template" | "condition";

/** The source of samples generated from schemas. */
export const SAMPLES = "samples";

/** The run document for evaluating expressions, and the field that receives a path from it. */
export class Mapping {
  /** `samples`, or the id of a run. */
  source = $state<string>(SAMPLES);
  runs = $state.raw<readonly Run[]>([]);
  readonly document = new Load<Record<string, unknown>>();
  /** Results of single-step runs, by step id. */
  results = $state.raw<Readonly<Record<string, unknown>>>({});
  /** Pinned results, by step id. */
  pins = $state.raw<Readonly<Record<string, unknown>>>({});
  /** The last focused field. */
  target = $state.raw<Target | null>(null);
  readonly #rpc: Rpc;
  readonly #draft: SkillDraft;
  readonly #find: Find;
  #cache = new Map<string, Promise<Evaluation>>();
  #cached: readonly unknown[] = [];
  #chosen = false;

  constructor(rpc: Rpc, draft: SkillDraft, find: Find) {
    this.#rpc = rpc;
    this.#draft = draft;
    this.#find = find;
  }

  /** Reads the runs of a skill; the last one is used for mapping until another source is chosen. */
  async readRuns(skillId: string): Promise<void> {
    try {
      const { executions } = await this.#rpc.call("skills.history", { skillId, limit: 25 });
      this.runs = executions.filter((r) => r.mode === "live" || r.mode === "dry");
    } catch {
      this.runs = [];
    }
    const last = this.runs[0];
    if (!this.#chosen && last && last.executionId !== this.source) await this.choose(last.executionId, false);
  }

  /** Uses the document of a run, or samples. */
  async choose(source: string, byHand = true): Promise<void> {
    if (byHand) this.#chosen = true;
    this.source = source;
    if (source === SAMPLES) {
      this.document.cancel();
      this.document.data = undefined;
      return;
    }
    await this.document.run(async (signal) => {
      const { document } = await this.#rpc.call("skills.document", { executionId: source }, { signal });
      return document !== null && typeof document === "object" && !Array.isArray(document) ? (document as Record<string, unknown>) : {};
    });
  }

  readonly #samples = $derived.by(() => sampleDocument(this.#draft.skill, this.#find));
  /** The document of the run; results of single steps and pinned ones replace its values. */
  readonly #real = $derived.by(() => {
    const own = { ...this.results, ...this.pins };
    const run = this.source === SAMPLES ? undefined : this.document.data;
    if (Object.keys(own).length === 0) return run;
    const steps = Object.fromEntries(Object.entries(own).map(([id, output]) => [id, { status: "completed", output, skipped: false, attempts: 1 }]));
    return { ...run, ...own, steps: { ...(run?.["steps"] as object | undefined), ...steps } } as Record<string, unknown>;
  });

  /** The document as visible at a place in the skill; missing values are generated from schemas. */
  documentAt(path: string): Record<string, unknown> {
    const doc = { ...this.#samples, ...(this.#real ?? {}) };
    doc["steps"] = { ...(this.#samples["steps"] as object), ...((this.#real?.["steps"] as object | undefined) ?? {}) };
    const { map } = scopeAt(this.#draft.skill, path);
    if (map !== null) {
      const items = valueAt(doc, (stepAt(this.#draft.skill, map)?.items ?? "").replace(/^\$\.?/, ""));
      doc["item"] = Array.isArray(items) ? (items[0] ?? null) : null;
      doc["index"] = 0;
    }
    return doc;
  }

  /** Whether a step's output is known: from the run, or from a schema. */
  known(id: string): boolean {
    if (this.#real !== undefined && id in this.#real) return true;
    let known = true;
    walk(this.#draft.skill, (_, s) => {
      if (s.stepId === id) known = outputKnown(s, this.#find);
    });
    return known;
  }

  /** The data that can be mapped at a place in the skill. */
  rootsAt(path: string): Root[] {
    const scope: Scope = scopeAt(this.#draft.skill, path);
    const doc = this.documentAt(path);
    const real = this.#real;
    const out: Root[] = [];
    const root = (name: string, from: Root["from"], maybe = false): void => {
      out.push({ name, path: `$${memberPath(name)}`, value: doc[name], from, maybe });
    };
    root("input", real && "input" in real ? "run" : "schema");
    if (scope.map !== null) {
      root("item", real ? "run" : "schema");
      root("index", real ? "run" : "schema");
    }
    for (const [id, s] of [...scope.steps].reverse()) {
      if (id === "") continue;
      const there = real !== undefined && id in real;
      root(id, there ? "run" : outputKnown(s.step, this.#find) ? "schema" : "unknown", s.maybe);
    }
    const steps = doc["steps"] as Record<string, unknown>;
    if (scope.steps.size > 0) out.push({ name: "steps", path: "$.steps", value: Object.fromEntries([...scope.steps.keys()].filter((id) => id in steps).map((id) => [id, steps[id]])), from: real ? "run" : "schema", maybe: false });
    root("run", real ? "run" : "schema");
    return out;
  }

  /**
   * The value of an expression at a place, or on the given document. Never rejects: a failed call is an error
   * in the answer.
   */
  evaluate(expression: unknown, as: As, path: string, on?: unknown): Promise<Evaluation> {
    if (on !== undefined) return this.#ask({ document: on, expression, as });
    const document = this.documentAt(path);
    const real = this.#real;
    // A new document or another skill invalidates all earlier answers.
    const stamp = [real, this.#draft.skill];
    if (stamp.some((v, i) => v !== this.#cached[i])) {
      this.#cached = stamp;
      this.#cache.clear();
    }
    const inMap = "item" in document;
    const key = `${as} ${inMap ? path : ""} ${JSON.stringify(expression)}`;
    const before = this.#cache.get(key);
    if (before) return before;
    // A run with the complete document is referred to instead of sent.
    const named = real !== undefined && real === this.document.data && !inMap && Object.keys(document).every((k) => k in real);
    const answer = this.#ask({ ...(named ? { executionId: this.source } : { document }), expression, as });
    this.#cache.set(key, answer);
    return answer;
  }

  #ask(params: Params<"skills.evaluate">): Promise<Evaluation> {
    return this.#rpc.call("skills.evaluate", params).catch((e: unknown): Evaluation => ({ value: null, matches: [], error: { kind: "internal", message: asError(e).message } }));
  }
}
