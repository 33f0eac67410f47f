import { asError, type RpcError } from "../../../lib/rpc/errors";
import type { Rpc } from "../../../lib/rpc";
import type { RunFeed } from "../composite/feed.svelte";
import type { SkillDraft } from "./draft.svelte";
import type { DraftStore } from "./builder.svelte";
import type { Mapping } from "./mapping.svelte";
import { ownerOf, placeOf, stepAt, walk } from "./steps";
import type { Skill, Step } from "./types";

/** The callable kinds of the step kinds. */
const callableKinds: Readonly<Record<string, string>> = { custom: "tool" };

const key = (id: string | null): string => `helix.skills.pins.${id ?? "new"}`;

/** The ids of the enclosing steps and of the step itself, joined by a slash, as in runs. */
export function idPath(skill: Skill, path: string): string {
  const place = placeOf(path);
  const owner = place === null ? null : ownerOf(place.list);
  const id = stepAt(skill, path)?.stepId ?? "";
  return owner === null ? id : `${idPath(skill, owner)}/${id}`;
}

/** The run on the canvas, single-step runs, and pinned results. */
export class CanvasRun {
  /** The run whose states are shown at the steps; null for none. */
  feed = $state.raw<RunFeed | null>(null);
  /** Path of the step in a single-step run. */
  busy = $state("");
  /** Why a single-step run failed, by step id. */
  errors = $state.raw<Readonly<Record<string, RpcError>>>({});
  readonly #rpc: Rpc;
  readonly #draft: SkillDraft;
  readonly #mapping: Mapping;
  readonly #store: DraftStore;
  #skillId: string | null = null;

  constructor(rpc: Rpc, draft: SkillDraft, mapping: Mapping, store: DraftStore) {
    this.#rpc = rpc;
    this.#draft = draft;
    this.#mapping = mapping;
    this.#store = store;
  }

  /** The states of the steps, by their position in the skill. Empty without a run. */
  readonly states = $derived.by<ReadonlyMap<string, string>>(() => {
    const out = new Map<string, string>();
    const states = this.feed?.journal.states();
    if (states) walk(this.#draft.skill, (path) => void out.set(path, states.get(idPath(this.#draft.skill, path)) ?? "pending"));
    return out;
  });

  /** Selects a skill and reads its pinned results. A new skill keeps its pins when it is saved. */
  open(skillId: string | null, saved = false): void {
    if (saved) this.#store.removeItem(key(null));
    this.#skillId = skillId;
    if (saved) return this.#keep();
    this.feed = null;
    this.#mapping.results = {};
    this.#mapping.pins = {};
    try {
      this.#mapping.pins = JSON.parse(this.#store.getItem(key(skillId)) ?? "{}") as Record<string, unknown>;
    } catch {
      // Unreadable results are not pinned.
    }
  }

  /** Whether a step can be run alone: it calls something, or computes a value. */
  can(step: Step): boolean {
    return !["branch", "map", "approval"].includes(step.toolType);
  }

  /** Runs one step with the data that it can use. Its result is available to others. */
  async step(path: string): Promise<boolean> {
    const step = stepAt(this.#draft.skill, path);
    if (step === null || this.busy !== "" || !this.can(step)) return false;
    const id = step.stepId;
    this.busy = path;
    this.errors = Object.fromEntries(Object.entries(this.errors).filter(([k]) => k !== id));
    try {
      this.#mapping.results = { ...this.#mapping.results, [id]: step.toolType === "transform" ? await this.#value(step.value ?? null, path) : await this.#call(step, path) };
      return true;
    } catch (e) {
      this.errors = { ...this.errors, [id]: asError(e) };
      return false;
    } finally {
      this.busy = "";
    }
  }

  async #call(step: Step, path: string): Promise<unknown> {
    const mapped = step.inputMapping ? ((await this.#value(step.inputMapping, path)) as Record<string, unknown>) : {};
    const { output } = await this.#rpc.call("callables.call", {
      kind: callableKinds[step.toolType] ?? step.toolType,
      ...(step.toolId ? { id: step.toolId } : { name: step.toolName ?? "" }),
      input: { ...step.parameters, ...mapped },
      interactive: true,
    });
    return step.outputMapping === undefined ? output : this.#value(step.outputMapping, path, output);
  }

  async #value(template: unknown, path: string, on?: unknown): Promise<unknown> {
    const { value, error } = await this.#mapping.evaluate(template, "template", path, on);
    if (error) throw new Error(error.message);
    return value;
  }

  /** Pins a result to a step, or unpins it. */
  pin(id: string, output: unknown): void {
    const { [id]: _, ...others } = this.#mapping.pins;
    this.#mapping.pins = output === undefined ? others : { ...others, [id]: output };
    this.#keep();
  }

  #keep(): void {
    try {
      if (Object.keys(this.#mapping.pins).length === 0) this.#store.removeItem(key(this.#skillId));
      else this.#store.setItem(key(this.#skillId), JSON.stringify(this.#mapping.pins));
    } catch {
      // The store is full: they are kept until the builder is closed.
    }
  }

  /** Results that dry runs use instead of calling steps, by the path of the step. */
  get mocks(): Record<string, { output: unknown }> {
    const out: Record<string, { output: unknown }> = {};
    walk(this.#draft.skill, (path, s) => {
      if (s.stepId in this.#mapping.pins) out[idPath(this.#draft.skill, path)] = { output: this.#mapping.pins[s.stepId] };
    });
    return out;
  }
}
