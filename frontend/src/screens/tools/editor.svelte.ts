import { shipped } from "../../lib/i18n";
import { asError, RpcError } from "../../lib/rpc/errors";
import type { Rpc } from "../../lib/rpc";
import { capabilityProblem, type Profile } from "../../lib/run/capabilities";
import { fromForm, parseSchema, toForm, type SchemaField } from "../../lib/run/schema";
import { t } from "./messages";
import type { Problem, Sample, Template, Tool, ToolLimits, Validation } from "./types";

/** Where unsaved work is stored, such as `localStorage`; tests pass a map. */
export interface DraftStore {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

/** The fields of a tool that the editor changes. The schema is text, so that incomplete JSON is kept. */
export interface Draft {
  name: string;
  icon: string;
  description: string;
  language: Tool["language"];
  code: string;
  parameters: string;
  capabilities: string[];
  sandboxProfile: Profile;
  limits: ToolLimits | null;
  tags: string[];
  visibility: Tool["visibility"];
  samples: Sample[];
}

/** The content of the draft store. */
interface Kept {
  v: 1;
  toolId: string | null;
  baseVersion: string;
  draft: Draft;
  at: string;
}

/** The two sides of a conflicting save. */
export interface SaveConflict {
  message: string;
  theirs: Tool;
}

const VALIDATE_MS = 300;
const KEEP_MS = 250;
const PREFIX = "helix.tools.draft.";

export const NEW_CODE = `/** Say what the tool does: whoever runs it reads this. */
export default async function (params: { name?: string }, helix: Helix) {
  return { greeting: \`Hello, \${params.name ?? "world"}\` };
}
`;

const NEW_SCHEMA = `{
  "type": "object",
  "properties": {
    "name": {
      "type": "string",
      "description": "Who to greet"
    }
  }
}`;

/** A draft with a small working tool. */
export function emptyDraft(): Draft {
  return {
    name: "",
    icon: "",
    description: "",
    language: "typescript",
    code: NEW_CODE,
    parameters: NEW_SCHEMA,
    capabilities: [],
    sandboxProfile: "standard",
    limits: null,
    tags: [],
    visibility: "private",
    samples: [],
  };
}

/** The draft that shows a stored tool. */
export function draftOf(tool: Tool): Draft {
  return {
    name: tool.name,
    icon: tool.icon ?? "",
    description: tool.description ?? "",
    language: tool.language,
    code: tool.code,
    parameters: JSON.stringify(tool.parameters ?? { type: "object" }, null, 2),
    capabilities: [...(tool.capabilities ?? [])],
    sandboxProfile: tool.sandboxProfile,
    limits: tool.limits ?? null,
    tags: [...(tool.tags ?? [])],
    visibility: tool.visibility,
    samples: [...(tool.samples ?? [])],
  };
}

/** The draft that starts from a template. */
export function draftFrom(x: Template): Draft {
  return {
    ...emptyDraft(),
    name: shipped(x.name),
    description: shipped(x.description),
    icon: x.icon,
    language: x.language,
    code: x.code,
    parameters: JSON.stringify(x.parameters ?? { type: "object" }, null, 2),
    capabilities: [...x.capabilities],
    sandboxProfile: x.sandboxProfile,
    samples: x.sampleParams === undefined ? [] : [{ name: t.example, params: x.sampleParams, ...(x.expectedOutput === null || x.expectedOutput === undefined ? {} : { expected: x.expectedOutput }) }],
  };
}

/**
 * One tool while it is being written: the draft, its validation by the backend, and saving. Unsaved work is
 * written to the draft store while typing and restored after a restart.
 */
export class ToolEditor {
  /** Incremented whenever something is opened, so that the screen can follow. */
  opened = $state(0);
  /** The stored tool under the draft; null for a new one. */
  base = $state.raw<Tool | null>(null);
  draft = $state<Draft>(emptyDraft());
  validation = $state.raw<Validation | null>(null);
  validating = $state(false);
  /** Validation failed; saving is still possible. */
  validateError = $state.raw<RpcError | null>(null);
  saving = $state(false);
  saveError = $state.raw<RpcError | null>(null);
  conflict = $state.raw<SaveConflict | null>(null);
  /** Unsaved work of an earlier visit was restored. */
  recovered = $state(false);
  fields = $state.raw<readonly SchemaField[]>([]);
  /** Why the schema cannot be shown as a form; empty if it can. */
  formBlocked = $state("");
  schemaError = $state("");
  note = $state("");
  /** The version of this side's own save that is not applied yet. */
  newerVersion = $state("");

  readonly #rpc: Rpc;
  readonly #store: DraftStore;
  #original = $state("");
  #validateTimer: ReturnType<typeof setTimeout> | undefined;
  #keepTimer: ReturnType<typeof setTimeout> | undefined;
  #abort: AbortController | null = null;
  #validated = "";

  constructor(rpc: Rpc, store: DraftStore) {
    this.#rpc = rpc;
    this.#store = store;
  }

  /** The draft differs from the stored tool. */
  readonly dirty = $derived(JSON.stringify(this.draft) !== this.#original);

  /** Errors that prevent a save: those of the backend, and those that are detected here at once. */
  readonly errors = $derived.by<Problem[]>(() => {
    const out: Problem[] = [];
    if (this.draft.name.trim() === "") out.push(problem("name", t.enterName));
    else if (!/^[\p{L}\p{N} _.-]{1,64}$/u.test(this.draft.name.trim()))
      out.push(problem("name", t.nameRule));
    if (this.schemaError !== "") out.push(problem("parameters", this.schemaError));
    for (const c of this.draft.capabilities) {
      const p = capabilityProblem(c, this.draft.sandboxProfile);
      if (p !== null) out.push(problem("capabilities", `${c}: ${p}`));
    }
    for (const e of this.validation?.errors ?? []) {
      // A field with an error in plain words does not show the backend's error too.
      if (e.field === "code" || !out.some((o) => o.field === e.field)) out.push(e);
    }
    return out;
  });

  readonly warnings = $derived<Problem[]>(this.validation?.warnings ?? []);

  /** Opens a stored tool and restores unsaved work of an earlier visit. */
  open(tool: Tool): void {
    this.#load(tool, draftOf(tool));
    const kept = this.#kept(tool.id);
    if (kept !== null && JSON.stringify(kept.draft) !== JSON.stringify(this.draft)) {
      this.draft = kept.draft;
      this.recovered = true;
      if (kept.baseVersion !== tool.version) this.base = { ...tool, version: kept.baseVersion };
      if (kept.baseVersion !== tool.version) this.newerVersion = tool.version;
    }
    this.#readSchema();
    this.#validateSoon(0);
  }

  /** Opens a new tool, from a template if one is given. Without one, unsaved new work is restored. */
  openNew(from?: Draft): void {
    this.#load(null, from ?? emptyDraft());
    if (from === undefined) {
      const kept = this.#kept(null);
      if (kept !== null && JSON.stringify(kept.draft) !== JSON.stringify(this.draft)) {
        this.draft = kept.draft;
        this.recovered = true;
      }
    }
    this.#readSchema();
    this.#validateSoon(0);
    if (from !== undefined) this.#keepNow();
  }

  #load(base: Tool | null, draft: Draft): void {
    clearTimeout(this.#keepTimer);
    this.#abort?.abort();
    this.opened++;
    this.base = base;
    this.draft = draft;
    this.#original = JSON.stringify(draft);
    this.validation = null;
    this.validateError = null;
    this.saveError = null;
    this.conflict = null;
    this.recovered = false;
    this.newerVersion = "";
    this.note = "";
    this.#validated = "";
  }

  /** Call after a change of the draft: stores it and validates it when typing pauses. */
  changed(): void {
    this.saveError = null;
    clearTimeout(this.#keepTimer);
    this.#keepTimer = setTimeout(() => this.#keepNow(), KEEP_MS);
    this.#validateSoon(VALIDATE_MS);
  }

  #keepNow(): void {
    clearTimeout(this.#keepTimer);
    const id = this.base?.id ?? null;
    if (!this.dirty && id !== null) {
      this.#store.removeItem(key(id));
      return;
    }
    const kept: Kept = { v: 1, toolId: id, baseVersion: this.base?.version ?? "", draft: $state.snapshot(this.draft), at: new Date().toISOString() };
    try {
      this.#store.setItem(key(id), JSON.stringify(kept));
    } catch {
      // The store is full: the draft exists only in memory, and leaving warns as usual.
    }
  }

  #kept(id: string | null): Kept | null {
    try {
      const text = this.#store.getItem(key(id));
      if (text === null) return null;
      const kept = JSON.parse(text) as Kept;
      return kept.v === 1 && typeof kept.draft?.code === "string" ? { ...kept, draft: { ...emptyDraft(), ...kept.draft } } : null;
    } catch {
      return null;
    }
  }

  /** Discards the unsaved work and shows the stored tool. Returns a function that undoes this. */
  discard(): () => void {
    const before = $state.snapshot(this.draft);
    const base = this.base;
    clearTimeout(this.#keepTimer);
    this.#store.removeItem(key(base?.id ?? null));
    this.#load(base, base === null ? emptyDraft() : draftOf(base));
    this.#readSchema();
    this.#validateSoon(0);
    return () => {
      if (this.base?.id !== base?.id) {
        const kept: Kept = { v: 1, toolId: base?.id ?? null, baseVersion: base?.version ?? "", draft: before, at: new Date().toISOString() };
        this.#store.setItem(key(base?.id ?? null), JSON.stringify(kept));
        return;
      }
      this.draft = before;
      this.#readSchema();
      this.changed();
    };
  }

  /** Writes pending work to the store now and stops timers, when the editor is left. */
  close(): void {
    clearTimeout(this.#validateTimer);
    if (this.dirty) this.#keepNow();
    else {
      clearTimeout(this.#keepTimer);
      this.#store.removeItem(key(this.base?.id ?? null));
    }
    this.#abort?.abort();
  }

  // — Schema: form and text —

  /** Sets the JSON text of the schema; the form is updated if it can be parsed. */
  setSchemaText(text: string): void {
    this.draft.parameters = text;
    this.#readSchema();
    this.changed();
  }

  #readSchema(): void {
    const { schema, error } = parseSchema(this.draft.parameters);
    this.schemaError = error;
    if (schema === null) return;
    const form = toForm(schema, this.fields);
    this.fields = form.fields;
    this.formBlocked = form.blocked;
  }

  /** Sets the rows of the form; the JSON text is updated. Everything that the form does not show is kept. */
  setFields(fields: readonly SchemaField[]): void {
    this.fields = fields;
    const { schema } = parseSchema(this.draft.parameters);
    if (schema === null) return;
    this.draft.parameters = JSON.stringify(fromForm(schema, fields), null, 2);
    this.schemaError = "";
    this.changed();
  }

  /** The schema as a value; null while its text is invalid. */
  readonly schema = $derived(parseSchema(this.draft.parameters).schema);

  /** Uses the schema that the backend derived from the code. */
  useSuggested(): void {
    const s = this.validation?.suggestedSchema;
    if (s !== undefined && s !== null) this.setSchemaText(JSON.stringify(s, null, 2));
  }

  // — Checking —

  #validateSoon(ms: number): void {
    clearTimeout(this.#validateTimer);
    this.#validateTimer = setTimeout(() => void this.validate(), ms);
  }

  /** Validates the draft now. A newer validation replaces an older one. */
  async validate(): Promise<Validation | null> {
    clearTimeout(this.#validateTimer);
    const d = this.draft;
    const params = {
      code: d.code,
      language: d.language,
      ...(this.schema === null ? {} : { parameters: this.schema }),
      description: d.description,
      capabilities: [...d.capabilities],
      sandboxProfile: d.sandboxProfile,
      ...(d.limits === null ? {} : { limits: $state.snapshot(d.limits) }),
    };
    const text = JSON.stringify(params);
    if (text === this.#validated && this.validation !== null) return this.validation;
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.validating = true;
    try {
      const v = await this.#rpc.call("tools.validate", params, { signal: abort.signal });
      if (this.#abort !== abort) return null;
      this.validation = v;
      this.#validated = text;
      this.validateError = null;
      return v;
    } catch (e) {
      if (this.#abort === abort) {
        this.validateError = asError(e);
        this.validation = null;
      }
      return null;
    } finally {
      if (this.#abort === abort) this.validating = false;
    }
  }

  // — Saving —

  /** Saves. Returns the stored tool, or null if it was refused; the draft is kept then. */
  async save(): Promise<Tool | null> {
    if (this.saving) return null;
    this.saveError = null;
    await this.validate();
    if (this.errors.length > 0) return null;
    this.saving = true;
    try {
      const tool = this.base === null ? await this.#create() : await this.#update(this.base);
      this.#saved(tool);
      return tool;
    } catch (e) {
      const error = asError(e);
      if (error.kind === "conflict" && this.base !== null && (await this.#readTheirs(error))) return null;
      this.saveError = error;
      return null;
    } finally {
      this.saving = false;
    }
  }

  async #create(): Promise<Tool> {
    const d = $state.snapshot(this.draft);
    const { tool } = await this.#rpc.call(
      "tools.create",
      {
        name: d.name.trim(),
        code: d.code,
        description: d.description,
        language: d.language,
        parameters: this.schema ?? { type: "object" },
        capabilities: d.capabilities,
        sandboxProfile: d.sandboxProfile,
        ...(d.limits === null ? {} : { limits: d.limits }),
        samples: d.samples,
        tags: d.tags,
        icon: d.icon,
        visibility: d.visibility,
      },
      { idempotencyKey: crypto.randomUUID() },
    );
    return tool;
  }

  async #update(base: Tool): Promise<Tool> {
    const d = $state.snapshot(this.draft);
    const patch = this.#patch(base, d);
    const { tool } = await this.#rpc.call("tools.update", {
      toolId: base.id,
      baseVersion: base.version,
      patch,
      ...(this.note.trim() === "" ? {} : { note: this.note.trim() }),
    });
    return tool;
  }

  /** The fields that differ from the stored tool. A cleared field is sent empty. */
  #patch(base: Tool, d: Draft): Record<string, unknown> {
    const was = draftOf(base);
    const patch: Record<string, unknown> = {};
    const put = (name: keyof Draft, value: unknown, before: unknown) => {
      if (JSON.stringify(value) !== JSON.stringify(before)) patch[name] = value;
    };
    put("name", d.name.trim(), was.name);
    put("icon", d.icon, was.icon);
    put("description", d.description, was.description);
    put("language", d.language, was.language);
    put("code", d.code, was.code);
    put("parameters", this.schema ?? base.parameters, base.parameters ?? { type: "object" });
    put("capabilities", d.capabilities, was.capabilities);
    put("sandboxProfile", d.sandboxProfile, was.sandboxProfile);
    put("limits", d.limits, was.limits);
    put("tags", d.tags, was.tags);
    put("visibility", d.visibility, was.visibility);
    put("samples", d.samples, was.samples);
    return patch;
  }

  #saved(tool: Tool): void {
    clearTimeout(this.#keepTimer);
    this.#store.removeItem(key(this.base?.id ?? null));
    this.#store.removeItem(key(tool.id));
    this.base = tool;
    const stored = draftOf(tool);
    this.draft.name = stored.name;
    this.#original = JSON.stringify(this.draft);
    this.conflict = null;
    this.recovered = false;
    this.newerVersion = "";
    this.note = "";
  }

  /** Returns true if the stored tool is newer than the draft's base, so that both sides can be shown. */
  async #readTheirs(error: RpcError): Promise<boolean> {
    const base = this.base;
    if (base === null) return false;
    try {
      const { tool } = await this.#rpc.call("tools.get", { toolId: base.id });
      if (tool.version === base.version) return false;
      this.conflict = { message: error.message, theirs: tool };
      this.#keepNow();
      return true;
    } catch {
      return false;
    }
  }

  /** Conflict: applies this draft to the stored version and saves. */
  async keepMine(): Promise<Tool | null> {
    const c = this.conflict;
    if (c === null) return null;
    this.base = c.theirs;
    this.conflict = null;
    this.newerVersion = "";
    return this.save();
  }

  /** Conflict: shows the stored version. Returns a function that restores the draft. */
  takeTheirs(): () => void {
    const c = this.conflict;
    if (c === null) return () => {};
    const mine = $state.snapshot(this.draft);
    this.#store.removeItem(key(c.theirs.id));
    this.#load(c.theirs, draftOf(c.theirs));
    this.#readSchema();
    this.#validateSoon(0);
    return () => {
      this.draft = mine;
      this.#readSchema();
      this.changed();
    };
  }

  /** The tool was changed elsewhere: reports it, or updates at once if nothing is unsaved. */
  async changedElsewhere(toolId: string): Promise<void> {
    if (this.base === null || this.base.id !== toolId || this.saving) return;
    try {
      const { tool } = await this.#rpc.call("tools.get", { toolId });
      if (this.base?.id !== toolId || tool.version === this.base.version || this.saving) return;
      if (this.dirty) this.newerVersion = tool.version;
      else this.open(tool);
    } catch {
      // Deleted or unreachable: saving will report it, and the draft is kept.
    }
  }
}

function key(id: string | null): string {
  return PREFIX + (id ?? "new");
}

function problem(field: string, message: string): Problem {
  return { code: field, field, message, line: 0, column: 0 };
}
