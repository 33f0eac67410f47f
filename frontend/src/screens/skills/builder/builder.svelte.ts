import { asError, type RpcError } from "../../../lib/rpc/errors";
import type { Rpc } from "../../../lib/rpc";
import { Load } from "../../../lib/ui/state";
import { emptySkill, SkillDraft, textOf } from "./draft.svelte";
import { Mapping } from "./mapping.svelte";
import { t } from "./messages";
import { memberPath } from "./expressions";
import { CanvasRun } from "./run.svelte";
import { isShort, shapeProblem, stepOfProblem, walk } from "./steps";
import { CALLS, type Entry, type Meta, type Problem, type Skill, type Step, type Validation } from "./types";

/** Where unsaved work is stored, such as `localStorage`; tests pass a map. */
export interface DraftStore {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

interface Kept {
  v: 1;
  skillId: string | null;
  baseVersion: string;
  skill: Skill;
  /** The content of the text tab if it could not be parsed. */
  text?: string;
  at: string;
}

const VALIDATE_MS = 300;
const KEEP_MS = 250;
const key = (id: string | null): string => `helix.skills.draft.${id ?? "new"}`;

/** The editable part of a stored skill, without fields that have their default value. */
export function skillOf(m: Meta): Skill {
  return {
    skillId: m.skillId,
    name: m.name,
    ...(m.description === "" ? {} : { description: m.description }),
    ...(m.tags.length === 0 ? {} : { tags: m.tags }),
    ...(m.icon === "" ? {} : { icon: m.icon }),
    isEnabled: m.isEnabled,
    ...(m.visibility === "public" ? { visibility: "public" } : {}),
    ...(m.inputSchema === undefined || m.inputSchema === null ? {} : { inputSchema: m.inputSchema }),
    ...(m.outputMapping === undefined ? {} : { outputMapping: m.outputMapping }),
    ...(m.notification === undefined || m.notification === null ? {} : { notification: m.notification as NonNullable<Skill["notification"]> }),
    ...(m.overallTimeoutMs > 0 && m.overallTimeoutMs !== 600_000 ? { overallTimeoutMs: m.overallTimeoutMs } : {}),
    steps: m.steps ?? [],
  };
}

/** The number of errors and warnings of a step. */
export interface Mark {
  errors: number;
  warnings: number;
}

/** One skill while it is being built: the draft, its validation by the backend, and saving. */
export class SkillBuilder {
  readonly draft = new SkillDraft();
  readonly mapping: Mapping;
  readonly run: CanvasRun;
  /** The stored skill under the draft; null for a new one. */
  base = $state.raw<Meta | null>(null);
  readonly stored = new Load<Meta>();
  readonly catalog = new Load<readonly Entry[]>();
  validation = $state.raw<Validation | null>(null);
  validating = $state(false);
  /** Validation failed; saving is still possible. */
  validateError = $state.raw<RpcError | null>(null);
  saving = $state(false);
  saveError = $state.raw<RpcError | null>(null);
  /** The skill was changed elsewhere before a save: the stored version. */
  conflict = $state.raw<Meta | null>(null);
  /** Unsaved work of an earlier visit was restored. */
  recovered = $state(false);
  /** A version that was saved elsewhere meanwhile. */
  newerVersion = $state("");
  /** The text in the text tab while it cannot be shown as a flow, and why; otherwise null. */
  brokenText = $state.raw<{ text: string; why: string } | null>(null);
  /** The store is full: the draft exists only in memory. */
  notKept = $state(false);

  readonly #rpc: Rpc;
  readonly #store: DraftStore;
  #original = $state("");
  #validateTimer: ReturnType<typeof setTimeout> | undefined;
  #keepTimer: ReturnType<typeof setTimeout> | undefined;
  #abort: AbortController | null = null;
  #validated = $state.raw<Skill | null>(null);

  constructor(rpc: Rpc, store: DraftStore) {
    this.#rpc = rpc;
    this.#store = store;
    this.mapping = new Mapping(rpc, this.draft, (s) => this.entryOf(s));
    this.run = new CanvasRun(rpc, this.draft, this.mapping, store);
  }

  readonly text = $derived(textOf(this.draft.skill));
  readonly dirty = $derived(this.text !== this.#original || this.brokenText !== null);

  readonly errors = $derived.by<readonly Problem[]>(() => {
    const out: Problem[] = [];
    if (this.draft.skill.name.trim() === "") out.push({ path: "name", code: "missing", message: t.nameMissing });
    for (const e of this.validation?.errors ?? []) if (e.path !== "name" || out.length === 0) out.push(e);
    return out;
  });
  readonly warnings = $derived<readonly Problem[]>(this.validation?.warnings ?? []);
  /** The problems of each step by its path. */
  readonly marks = $derived.by<ReadonlyMap<string, Mark>>(() => {
    const map = new Map<string, Mark>();
    const add = (list: readonly Problem[], what: keyof Mark): void => {
      for (const p of list) {
        const path = stepOfProblem(p.path);
        if (path === "") continue;
        const m = map.get(path) ?? { errors: 0, warnings: 0 };
        map.set(path, { ...m, [what]: m[what] + 1 });
      }
    };
    add(this.errors, "errors");
    add(this.warnings, "warnings");
    return map;
  });
  /** Whether the validation reports a problem with the mapping of a parameter, for example that it is missing. */
  refuses(path: string, name: string): boolean {
    return this.errors.some((e) => e.path === `${path}.inputMapping${memberPath(name)}`);
  }

  /** The problems of a value, including those inside it. */
  problemsAt(path: string): { error: string; warning: string; code: string } {
    const at = (p: Problem): boolean => p.path === path || p.path.startsWith(`${path}.`) || p.path.startsWith(`${path}[`);
    const e = this.errors.find(at);
    const w = this.warnings.find(at);
    return { error: e?.message ?? "", warning: w?.message ?? "", code: w?.code ?? "" };
  }

  readonly #byId = $derived(new Map((this.catalog.data ?? []).filter((e) => e.toolId).map((e) => [`${e.toolType}:${e.toolId}`, e])));
  readonly #byName = $derived(new Map((this.catalog.data ?? []).map((e) => [`${e.toolType}:${e.name}`, e])));
  /** The catalog entry that a step calls. */
  entryOf(s: Step): Entry | undefined {
    if (!CALLS.includes(s.toolType)) return undefined;
    return (s.toolId ? this.#byId.get(`${s.toolType}:${s.toolId}`) : undefined) ?? (s.toolId ? undefined : this.#byName.get(`${s.toolType}:${s.toolName ?? ""}`));
  }

  // — Opening —

  /** Reads a skill, or starts a new one; unsaved work of an earlier visit is restored. */
  async open(skillId: string | null): Promise<void> {
    void this.readCatalog();
    this.run.open(skillId);
    if (skillId === null) {
      this.#load(null, emptySkill());
      this.#recover(null);
      this.changed(0);
      return;
    }
    await this.stored.run((signal) => this.#rpc.call("skills.get_metadata", { skillId }, { signal }));
    const m = this.stored.data;
    if (!m || m.skillId !== skillId) return;
    this.#load(m, skillOf(m));
    this.#recover(m);
    this.changed(0);
    void this.mapping.readRuns(skillId);
  }

  async readCatalog(): Promise<void> {
    await this.catalog.run(async (signal) => (await this.#rpc.call("skills.catalog", {}, { signal })).entries);
  }

  #load(base: Meta | null, skill: Skill): void {
    clearTimeout(this.#keepTimer);
    this.#abort?.abort();
    this.base = base;
    this.draft.open(skill);
    this.#original = textOf(skill);
    this.#validated = null;
    this.validation = null;
    this.validateError = null;
    this.saveError = null;
    this.conflict = null;
    this.recovered = false;
    this.newerVersion = "";
    this.brokenText = null;
  }

  #recover(m: Meta | null): void {
    const kept = this.#kept(m?.skillId ?? null);
    if (kept === null || (textOf(kept.skill) === this.text && kept.text === undefined)) return;
    this.draft.open(kept.skill);
    if (kept.text !== undefined) this.setText(kept.text);
    this.recovered = true;
    if (m && kept.baseVersion !== m.version) {
      this.base = { ...m, version: kept.baseVersion };
      this.newerVersion = m.version;
    }
  }

  #kept(id: string | null): Kept | null {
    try {
      const text = this.#store.getItem(key(id));
      const kept = text === null ? null : (JSON.parse(text) as Kept);
      return kept?.v === 1 && Array.isArray(kept.skill?.steps) ? kept : null;
    } catch {
      return null;
    }
  }

  /** Call after a change of the draft: stores it, and validates it when changes pause. */
  changed(ms = VALIDATE_MS): void {
    clearTimeout(this.#keepTimer);
    this.#keepTimer = setTimeout(() => this.#keepNow(), KEEP_MS);
    clearTimeout(this.#validateTimer);
    this.#validateTimer = setTimeout(() => void this.validate(), ms);
  }

  /** Writes unsaved work to the store at once, before the page closes. */
  flush(): void {
    this.#keepNow();
  }

  #keepNow(): void {
    clearTimeout(this.#keepTimer);
    const id = this.base?.skillId ?? null;
    if (!this.dirty) {
      this.#store.removeItem(key(id));
      return;
    }
    const kept: Kept = { v: 1, skillId: id, baseVersion: this.base?.version ?? "", skill: this.draft.skill, ...(this.brokenText ? { text: this.brokenText.text } : {}), at: new Date().toISOString() };
    try {
      this.#store.setItem(key(id), JSON.stringify(kept));
      this.notKept = false;
    } catch {
      this.notKept = true;
    }
  }

  /** Writes pending work to the store now and stops timers, when the builder is left. */
  close(): void {
    clearTimeout(this.#validateTimer);
    this.#keepNow();
    this.#abort?.abort();
    this.stored.cancel();
    this.catalog.cancel();
  }

  /** Discards the unsaved work and shows the stored skill. Returns a function that undoes this. */
  discard(): () => void {
    const before = this.draft.skill;
    const base = this.base;
    this.#store.removeItem(key(base?.skillId ?? null));
    this.draft.change(t.changes.discard, base === null ? emptySkill() : skillOf(this.stored.data ?? base), null);
    if (this.stored.data) this.base = this.stored.data;
    this.newerVersion = "";
    this.recovered = false;
    this.brokenText = null;
    this.changed();
    return () => {
      this.draft.change(t.changes.unDiscard, before, null);
      this.changed();
    };
  }

  // — Text —

  /** Applies the content of the text tab. */
  setText(text: string): void {
    const why = this.draft.setText(text);
    this.brokenText = why === "" ? null : { text, why };
    this.changed();
  }

  /** The canonical form of steps that are written in a short form; null if there are none. */
  readonly standard = $derived.by<Skill | null>(() => {
    const normalized = this.validation?.normalized;
    let short = false;
    walk(this.draft.skill, (_, s) => (short ||= isShort(s)));
    return short && this.#validated === this.draft.skill && shapeProblem(normalized) === "" ? (normalized as Skill) : null;
  });

  /** Replaces short forms by the canonical form. */
  standardize(): void {
    const to = this.standard;
    if (to === null) return;
    const { steps, inputSchema, outputMapping } = to;
    this.draft.change(t.changes.standard, { ...this.draft.skill, steps, ...(inputSchema === undefined ? {} : { inputSchema }), ...(outputMapping === undefined ? {} : { outputMapping }) });
    this.changed(0);
  }

  // — Checking —

  /** Validates the draft now. A newer validation replaces an older one. */
  async validate(): Promise<Validation | null> {
    clearTimeout(this.#validateTimer);
    const skill = this.draft.skill;
    if (skill === this.#validated && this.validation !== null) return this.validation;
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.validating = true;
    try {
      const v = await this.#rpc.call("skills.validate_composite", { skill }, { signal: abort.signal });
      if (this.#abort !== abort) return null;
      this.validation = v;
      this.#validated = skill;
      this.validateError = null;
      return v;
    } catch (e) {
      if (this.#abort === abort) this.validateError = asError(e);
      return null;
    } finally {
      if (this.#abort === abort) this.validating = false;
    }
  }

  // — Saving —

  /**
   * Saves, even with errors; then as a disabled draft. Returns the stored skill, or null if it was refused;
   * the draft is kept then.
   */
  async save(): Promise<Meta | null> {
    if (this.saving || this.brokenText !== null || this.draft.skill.name.trim() === "") return null;
    this.saveError = null;
    this.saving = true;
    try {
      const v = await this.validate();
      const sent = this.draft.skill;
      const skill: Skill = { ...sent, name: sent.name.trim(), ...(v !== null && v.errors.length > 0 ? { isEnabled: false } : {}) };
      const base = this.base;
      const meta = base === null
        ? await this.#rpc.call("skills.create_composite", { skill }, { idempotencyKey: crypto.randomUUID() })
        : await this.#rpc.call("skills.update_composite", { skill: { ...skill, skillId: base.skillId }, expectedVersion: base.version });
      this.#saved(meta, sent);
      return meta;
    } catch (e) {
      const error = asError(e);
      if (error.kind === "conflict" && this.base !== null && (await this.#readTheirs(this.base))) return null;
      this.saveError = error;
      return null;
    } finally {
      this.saving = false;
    }
  }

  #saved(meta: Meta, sent: Skill): void {
    clearTimeout(this.#keepTimer);
    this.#store.removeItem(key(this.base?.skillId ?? null));
    const fresh = this.base === null;
    this.base = meta;
    this.stored.data = meta;
    const stored = skillOf(meta);
    this.#original = textOf(stored);
    // Changes made while it was saved stay unsaved.
    if (this.draft.skill === sent) this.draft.settle(stored);
    else if (fresh) this.draft.settle({ ...this.draft.skill, skillId: meta.skillId });
    this.conflict = null;
    this.recovered = false;
    this.newerVersion = "";
    this.changed(0);
    if (fresh) {
      this.run.open(meta.skillId, true);
      void this.mapping.readRuns(meta.skillId);
    }
  }

  async #readTheirs(base: Meta): Promise<boolean> {
    try {
      const theirs = await this.#rpc.call("skills.get_metadata", { skillId: base.skillId });
      if (theirs.version === base.version) return false;
      this.conflict = theirs;
      this.#keepNow();
      return true;
    } catch {
      return false;
    }
  }

  /** Conflict: applies this draft to the stored version and saves. */
  async keepMine(): Promise<Meta | null> {
    if (this.conflict === null) return null;
    this.base = this.conflict;
    this.conflict = null;
    this.newerVersion = "";
    return this.save();
  }

  /** Conflict: shows the stored version. Undo restores the draft. */
  takeTheirs(): void {
    const theirs = this.conflict;
    if (theirs === null) return;
    this.base = theirs;
    this.stored.data = theirs;
    this.conflict = null;
    this.newerVersion = "";
    const skill = skillOf(theirs);
    this.#original = textOf(skill);
    this.draft.change(t.changes.theirs, skill, null);
    this.changed();
  }

  /** The skill was changed elsewhere: reports it, or updates at once if nothing is unsaved. */
  async changedElsewhere(skillId: string): Promise<void> {
    if (this.base?.skillId !== skillId || this.saving) return;
    try {
      const m = await this.#rpc.call("skills.get_metadata", { skillId });
      if (this.base?.skillId !== skillId || this.saving || (m.version === this.base.version && m.isEnabled === this.base.isEnabled)) return;
      if (this.dirty) {
        if (m.version !== this.base.version) this.newerVersion = m.version;
        return;
      }
      const selected = this.draft.selected;
      this.stored.data = m;
      this.#load(m, skillOf(m));
      this.draft.select(selected);
      this.changed(0);
    } catch {
      // Deleted or unreachable: saving will report it, and the draft is kept.
    }
  }
}
