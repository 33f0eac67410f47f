import { asError, type Rpc, type RpcError } from "../../lib/rpc";
import type { Memory, UpdateParams } from "./types";

/** What can be changed in place. Tags have their own place. */
export interface Draft {
  content: string;
  type: string;
  /** 0: none. */
  layer: number;
  /** As a date-time field writes it, local; "": not known. */
  at: string;
}

const two = (n: number): string => String(n).padStart(2, "0");

/** A time as a date-time field writes it, in local time. */
export function toField(at: string | undefined): string {
  if (!at) return "";
  const d = new Date(at);
  return Number.isFinite(d.getTime()) ? `${String(d.getFullYear()).padStart(4, "0")}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}` : "";
}

/** A date-time field as a time; null when it is empty, undefined when it is none. */
export function fromField(field: string): string | null | undefined {
  if (field.trim() === "") return null;
  const d = new Date(field);
  return Number.isFinite(d.getTime()) ? d.toISOString() : undefined;
}

export const MAX_CONTENT = 64 * 1024;

/** Why a text cannot be stored, or "". */
export function contentProblem(text: string): string {
  if (text.trim() === "") return "Write something first";
  if (new TextEncoder().encode(text).length > MAX_CONTENT) return "Longer than 64 KiB: import it as a document";
  return "";
}

const draftOf = (m: Memory): Draft => ({ content: m.content, type: m.type, layer: m.layer ?? 0, at: toField(m.occurredAt) });

/** Changing a memory in its place. What is typed stays until it is saved or thrown away, also when something else is looked at. */
export class Edit {
  /** The memory that is being changed, as it was when that began. */
  base = $state.raw<Memory | null>(null);
  draft = $state<Draft>({ content: "", type: "episodic", layer: 0, at: "" });
  saving = $state(false);
  error = $state.raw<RpcError | null>(null);
  /** It was changed elsewhere meanwhile: how it is now. */
  theirs = $state.raw<Memory | null>(null);
  readonly #rpc: Rpc;
  #kept = new Map<string, { base: Memory; draft: Draft }>();

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly open = $derived(this.base !== null);
  readonly textProblem = $derived(this.base === null ? "" : contentProblem(this.draft.content));
  readonly dateProblem = $derived(this.base !== null && fromField(this.draft.at) === undefined ? "The date is incomplete" : "");
  readonly problem = $derived(this.textProblem || this.dateProblem);
  readonly dirty = $derived.by(() => {
    if (this.base === null) return false;
    const was = draftOf(this.base);
    const d = this.draft;
    return d.content !== was.content || d.type !== was.type || d.layer !== was.layer || d.at !== was.at;
  });

  /** Whether there is a draft of this memory that was left. */
  has(id: string): boolean {
    return this.#kept.has(id);
  }

  /** Begins, or goes on where it was left. */
  begin(m: Memory): void {
    if (this.base?.id === m.id) return;
    this.leave();
    const kept = this.#kept.get(m.id);
    this.base = kept?.base ?? m;
    this.draft = kept ? { ...kept.draft } : draftOf(m);
    this.#kept.delete(m.id);
  }

  /** Closes it and keeps what was typed. */
  leave(): void {
    if (this.base !== null && this.dirty) this.#kept.set(this.base.id, { base: this.base, draft: { ...this.draft } });
    this.#close();
  }

  /** Throws away what was typed; answers how to bring it back, or null when there was nothing. */
  discard(): (() => void) | null {
    const { base } = this;
    if (base === null) return null;
    const draft = this.dirty ? { ...this.draft } : null;
    this.#kept.delete(base.id);
    this.#close();
    if (draft === null) return null;
    return () => {
      this.#kept.set(base.id, { base, draft });
      this.begin(base);
    };
  }

  #close(): void {
    this.base = null;
    this.theirs = null;
    this.error = null;
  }

  /** Saves. Answers the memory before and after, or null; then `error` or `theirs` says why. */
  async save(): Promise<{ before: Memory; after: Memory } | null> {
    const { base } = this;
    if (base === null || this.saving || this.problem !== "") return null;
    if (!this.dirty) {
      this.#close();
      return null;
    }
    const was = draftOf(base);
    const d = this.draft;
    const params: UpdateParams = { id: base.id, version: base.version };
    if (d.content !== was.content) params.content = d.content;
    if (d.type !== was.type) params.type = d.type;
    if (d.layer !== was.layer) params.layer = d.layer;
    if (d.at !== was.at) params.occurredAt = fromField(d.at);
    this.saving = true;
    this.error = null;
    try {
      const after = await this.#rpc.call("memory.update", params);
      if (this.base === base) this.#close();
      this.#kept.delete(base.id);
      return { before: base, after };
    } catch (e) {
      const err = asError(e);
      if (err.kind === "conflict") await this.#conflict(base, err);
      else this.error = err;
      return null;
    } finally {
      this.saving = false;
    }
  }

  /** The version that is stored now: the error has it, else it is read. */
  async #conflict(base: Memory, err: RpcError): Promise<void> {
    const now = err.details as Partial<Memory> | null | undefined;
    try {
      this.theirs = now?.id === base.id && typeof now.content === "string" ? (now as Memory) : await this.#rpc.call("memory.get", { id: base.id });
    } catch {
      this.error = err;
    }
  }

  /** Goes on with the draft on top of what is stored now. */
  async keepMine(): Promise<{ before: Memory; after: Memory } | null> {
    if (this.theirs === null) return null;
    this.base = this.theirs;
    this.theirs = null;
    return this.save();
  }

  /** Takes what is stored now; answers how to bring the draft back. */
  takeTheirs(): (() => void) | null {
    if (this.theirs === null) return null;
    this.base = this.theirs;
    return this.discard();
  }
}
