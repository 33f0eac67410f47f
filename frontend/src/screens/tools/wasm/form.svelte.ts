import { asError, type RpcError } from "../../../lib/rpc/errors";
import type { Params, Rpc } from "../../../lib/rpc";
import { parseSchema } from "../../../lib/run/schema";
import { t } from "./messages";
import type { Module, Report } from "./module";
import { fileProblem, headProblem, uploadModule, type ModuleFile } from "./upload";
import { nameFromFile } from "./words";

/** Limits of the time limit, in seconds. */
export const MIN_TIMEOUT = 0.1;
export const MAX_TIMEOUT = 60;
export const MEMORY_TIERS = [64, 128, 256] as const;

const TYPING_MS = 300;

export type Busy = "" | "reading" | "uploading" | "checking" | "saving";

/**
 * The sheet that installs a module or edits a WASM tool: the file, its analysis by the backend, and the
 * user's choices. Nothing is stored before `save`.
 */
export class ModuleForm {
  open = $state(false);
  /** The edited tool; null for a new one. */
  base = $state.raw<Module | null>(null);
  fileName = $state("");
  size = $state(0);
  name = $state("");
  description = $state("");
  version = $state("1.0.0");
  /** The time limit in seconds, as typed. */
  timeout = $state("5");
  memoryMb = $state(128);
  capabilities = $state.raw<readonly string[]>([]);
  schema = $state("");
  /** The user states that they built the module. */
  own = $state(false);
  report = $state.raw<Report | null>(null);
  busy = $state<Busy>("");
  /** When the check started, epoch ms. A large module takes some seconds. */
  since = $state(0);
  /** Of the upload, 0..1. */
  progress = $state(0);
  /** The file cannot be used. */
  fileError = $state("");
  error = $state.raw<RpcError | null>(null);
  /** The tool was changed elsewhere while it was edited here. */
  stale = $state.raw<Module | null>(null);

  #blob = $state("");
  #turn = 0;
  #abort: AbortController | null = null;
  #typing: ReturnType<typeof setTimeout> | undefined;
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly editing = $derived(this.base !== null);
  /** There is a module to install, or the tool has one. */
  readonly hasModule = $derived(this.#blob !== "" || this.base !== null);
  readonly replaces = $derived(this.base !== null && this.#blob !== "");
  readonly nameError = $derived.by(() => {
    const n = this.name.trim();
    if (n === "") return t.errors.name;
    if (n.length > 64) return t.errors.nameLong;
    return /^[\p{L}\p{N} _.-]+$/u.test(n) ? "" : t.errors.nameSigns;
  });
  readonly timeoutError = $derived.by(() => {
    const n = Number(this.timeout);
    return this.timeout.trim() !== "" && n >= MIN_TIMEOUT && n <= MAX_TIMEOUT ? "" : t.errors.timeout;
  });
  readonly versionError = $derived.by(() => (/^\d+\.\d+\.\d+([-+][\w.+-]+)?$/.test(this.version.trim()) ? "" : t.errors.version));
  readonly schemaError = $derived.by(() => (this.schema.trim() === "" ? "" : parseSchema(this.schema).error));
  /** There is a module that the backend could not inspect. */
  readonly unchecked = $derived(this.#blob !== "" && this.report === null);
  readonly ready = $derived(this.hasModule && !this.unchecked && this.busy === "" && this.nameError === "" && this.timeoutError === "" && this.versionError === "" && this.schemaError === "" && this.report?.valid !== false);
  /** Why it cannot be saved, for the button; "" if it can. */
  readonly blocked = $derived.by(() => {
    if (!this.hasModule) return t.errors.chooseModule;
    if (this.busy !== "" && this.busy !== "saving") return t.inspecting;
    if (this.unchecked) return t.errors.unchecked;
    if (this.report?.valid === false) return t.errors.unusable;
    const wrong = this.nameError || this.timeoutError || this.versionError || this.schemaError;
    return wrong === "" ? "" : t.errors.fields;
  });
  /** Where it will run: a module that the user built runs inside Helix. */
  readonly isolation = $derived(this.own ? "inprocess" : (this.report?.isolation ?? this.base?.isolation ?? ""));
  readonly reasons = $derived.by(() => (this.own ? [] : (this.report?.reasons ?? this.base?.reasons ?? [])));

  /** Opens the sheet for a new module. */
  begin(): void {
    this.reset();
    this.open = true;
  }

  /** Opens the sheet for a tool. */
  edit(skill: Module): void {
    this.reset();
    this.base = skill;
    this.name = skill.name;
    this.description = skill.description;
    this.version = skill.version;
    this.timeout = String(skill.timeoutMs / 1000);
    this.memoryMb = skill.memoryMb;
    this.capabilities = [...skill.capabilities];
    this.schema = plain(skill.inputSchema) ? "" : JSON.stringify(skill.inputSchema, null, 2);
    this.own = skill.origin === "local";
    this.open = true;
  }

  /** Handles dropped or chosen files: exactly one module. */
  async choose(files: readonly ModuleFile[]): Promise<void> {
    this.open = true;
    if (files.length > 1) {
      this.fileError = t.errors.oneModule;
      return;
    }
    const file = files[0];
    if (file === undefined) return;
    const turn = this.#next();
    this.fileName = file.name;
    this.size = file.size;
    this.#blob = "";
    this.report = null;
    this.error = null;
    this.fileError = fileProblem(file);
    if (this.fileError !== "") return;
    const abort = new AbortController();
    this.#abort = abort;
    try {
      this.busy = "reading";
      const bytes = new Uint8Array(await file.arrayBuffer());
      if (turn !== this.#turn) return;
      this.fileError = headProblem(bytes, file.name);
      if (this.fileError !== "") return;
      this.busy = "uploading";
      this.progress = 0;
      const blob = await uploadModule(this.#rpc, bytes, abort.signal, (p) => turn === this.#turn && (this.progress = p));
      if (turn !== this.#turn) return;
      this.#blob = blob;
      if (this.base === null && this.name.trim() === "") this.name = nameFromFile(file.name);
      await this.#check(turn);
    } catch (e) {
      if (turn === this.#turn && asError(e).kind !== "canceled") this.error = asError(e);
    } finally {
      if (turn === this.#turn) this.busy = "";
    }
  }

  setCapabilities(list: readonly string[]): void {
    this.capabilities = list;
    this.#soon();
  }

  setMemory(mb: number): void {
    this.memoryMb = mb;
    this.#soon();
  }

  setSchema(text: string): void {
    this.schema = text;
    this.#soon();
  }

  /** The choices changed, so the report is updated in a moment. */
  #soon(): void {
    clearTimeout(this.#typing);
    if (this.#blob === "") return;
    this.#typing = setTimeout(() => void this.recheck(), TYPING_MS);
  }

  /** Updates the report. */
  async recheck(): Promise<void> {
    if (this.#blob === "" || this.schemaError !== "") return;
    const turn = this.#next();
    try {
      await this.#check(turn);
    } catch (e) {
      if (turn === this.#turn && asError(e).kind !== "canceled") this.error = asError(e);
    } finally {
      if (turn === this.#turn) this.busy = "";
    }
  }

  async #check(turn: number): Promise<void> {
    const abort = new AbortController();
    this.#abort = abort;
    this.busy = "checking";
    this.since = Date.now();
    const schema = this.#schema();
    const report = await this.#rpc.call(
      "skills.validate_wasm",
      { blobSha256: this.#blob, capabilities: [...this.capabilities], memoryMb: this.memoryMb, ...(schema === null ? {} : { inputSchema: schema }) },
      { signal: abort.signal },
    );
    if (turn !== this.#turn) return;
    this.report = report;
    this.error = null;
  }

  get #timeoutMs(): number {
    return Math.round(Number(this.timeout) * 1000);
  }

  #schema(): unknown {
    if (this.schema.trim() === "") return {};
    return parseSchema(this.schema).schema;
  }

  /** Installs the module, or saves the tool. Returns it, or null if it was refused. */
  async save(): Promise<{ skill: Module; suspended: number } | null> {
    if (!this.ready) return null;
    const base = this.base;
    const turn = this.#next();
    this.busy = "saving";
    this.error = null;
    try {
      const r = base === null ? await this.#install() : await this.#update(base);
      this.reset();
      return r;
    } catch (e) {
      if (turn !== this.#turn) return null;
      const error = asError(e);
      this.error = error;
      if (error.kind === "conflict" && base !== null) await this.#readAgain(base.id);
      const found = error.details as { report?: Report } | Report | undefined;
      const report = found && "report" in found ? found.report : found && "valid" in found ? found : undefined;
      if (report) this.report = report;
      return null;
    } finally {
      if (turn === this.#turn) this.busy = "";
    }
  }

  async #install(): Promise<{ skill: Module; suspended: number }> {
    const params: Params<"skills.create_wasm"> = {
      name: this.name.trim(),
      description: this.description.trim(),
      blobSha256: this.#blob,
      version: this.version.trim(),
      timeoutMs: this.#timeoutMs,
      memoryMb: this.memoryMb,
      capabilities: [...this.capabilities],
      inputSchema: this.#schema(),
      ...(this.own ? { origin: "local" as const } : {}),
    };
    const { skill } = await this.#rpc.call("skills.create_wasm", params, { idempotencyKey: crypto.randomUUID() });
    return { skill, suspended: 0 };
  }

  async #update(base: Module): Promise<{ skill: Module; suspended: number }> {
    const patch = this.#patch(base);
    const r = await this.#rpc.call("skills.update_wasm", { skillId: base.id, patch, baseVersion: base.version });
    return { skill: r.skill, suspended: r.suspendedGrants.length };
  }

  /** Only the differences. */
  #patch(base: Module): Params<"skills.update_wasm">["patch"] {
    const schema = this.#schema();
    return {
      ...(this.name.trim() === base.name ? {} : { name: this.name.trim() }),
      ...(this.description.trim() === base.description ? {} : { description: this.description.trim() }),
      ...(this.version.trim() === base.version ? {} : { version: this.version.trim() }),
      ...(this.#timeoutMs === base.timeoutMs ? {} : { timeoutMs: this.#timeoutMs }),
      ...(this.memoryMb === base.memoryMb ? {} : { memoryMb: this.memoryMb }),
      ...(same(this.capabilities, base.capabilities) ? {} : { capabilities: [...this.capabilities] }),
      ...(same(schema, base.inputSchema) || (plain(schema) && plain(base.inputSchema)) ? {} : { inputSchema: schema }),
      ...(this.#blob === "" ? {} : { blobSha256: this.#blob }),
    };
  }

  /** The tool was changed elsewhere: the input is kept, and saving again applies it to the new version. */
  async #readAgain(id: string): Promise<void> {
    try {
      const { skill } = await this.#rpc.call("skills.get_wasm", { skillId: id });
      if (skill.version !== this.base?.version) {
        this.stale = skill;
        if (this.version.trim() === this.base?.version) this.version = skill.version;
        this.base = skill;
      }
    } catch (e) {
      this.error = asError(e);
    }
  }

  /** Whether closing would lose something. */
  get dirty(): boolean {
    if (!this.open) return false;
    return this.base === null ? this.#blob !== "" : Object.keys(this.#patch(this.base)).length > 0;
  }

  #next(): number {
    this.#abort?.abort();
    this.#abort = null;
    clearTimeout(this.#typing);
    return ++this.#turn;
  }

  /** Closes the sheet and discards its input. */
  reset(): void {
    this.#next();
    this.open = false;
    this.base = null;
    this.fileName = "";
    this.size = 0;
    this.name = "";
    this.description = "";
    this.version = "1.0.0";
    this.timeout = "5";
    this.memoryMb = 128;
    this.capabilities = [];
    this.schema = "";
    this.own = false;
    this.report = null;
    this.busy = "";
    this.progress = 0;
    this.fileError = "";
    this.error = null;
    this.stale = null;
    this.#blob = "";
  }
}

/** A schema that accepts anything. */
export function plain(schema: unknown): boolean {
  return schema === null || schema === undefined || (typeof schema === "object" && Object.keys(schema).length === 0);
}

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);
