import { asError, type Rpc, type RpcError } from "../../lib/rpc";
import { t } from "./messages";
import type { Memory, UpdateParams } from "./types";

/** The fields that can be edited in the inspector. Tags have their own dialog. */
export interface Draft {
  content: string;
  type: string;
  /** 0: none. */
  layer: number;
  /** In the format of a date-time field, in local time; "" for none. */
  at: string;
}

const two = (n: number): string => String(n).padStart(2, "0");

/** A time in the format of a date-time field, in local time. */
export function toField(at: string | undefined): string {
  if (!at) return "";
  const d = new Date(at);
  return Number.isFinite(d.getTime()) ? `${String(d.getFullYear()).padStart(4, "0")}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}` : "";
}

/** The time in a date-time field; null if it is empty, undefined if it is invalid. */
export function fromField(field: string): string | null | undefined {
  if (field.trim() === "") return null;
  const d = new Date(field);
  return Number.isFinite(d.getTime()) ? d.toISOString() : undefined;
}

const maxContent = 64 * 1024;

/** Why a text can't be stored, or "". */
export function contentProblem(text: string): string {
  if (text.trim() === "") return t.writeFirst;
  if (new TextEncoder().encode(text).length > maxContent) return t.tooLong;
  return "";
}

const draftOf = (m: Memory): Draft => ({ content: m.content, type: m.type, layer: m.layer ?? 0, at: toField(m.occurredAt) });

/**
 * Editing a memory in the inspector. The draft is kept until it is saved or discarded, even while something
 * else is shown.
 */
export class Edit {
  /** The memory when editing began; null while nothing is edited. */
  base = $state.raw<Memory | null>(null);
  draft = $state<Draft>({ content: "", type: "episodic", layer: 0, at: "" });
  saving = $state(false);
  error = $state.raw<RpcError | null>(null);
  /** The stored memory, if it was changed elsewhere meanwhile. */
  theirs = $state.raw<Memory | null>(null);
  readonly #rpc: Rpc;
  #kept = new Map<string, { base: Memory; draft: Draft }>();

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly open = $derived(this.base !== null);
  readonly textProblem = $derived(this.base === null ? "" : contentProblem(this.draft.content));
  readonly dateProblem = $derived(this.base !== null && fromField(this.draft.at) === undefined ? t.dateIncomplete : "");
  readonly problem = $derived(this.textProblem || this.dateProblem);
  readonly dirty = $derived.by(() => {
    if (this.base === null) return false;
    const was = draftOf(this.base);
    const d = this.draft;
    return d.content !== was.content || d.type !== was.type || d.layer !== was.layer || d.at !== was.at;
  });

  /** Whether there is an unsaved draft of this memory. */
  has(id: string): boolean {
    return this.#kept.has(id);
  }

  /** Starts editing, or continues with the draft. */
  begin(m: Memory): void {
    if (this.base?.id === m.id) return;
    this.leave();
    const kept = this.#kept.get(m.id);
    this.base = kept?.base ?? m;
    this.draft = kept ? { ...kept.draft } : draftOf(m);
    this.#kept.delete(m.id);
  }

  /** Closes the editor and keeps the draft. */
  leave(): void {
    if (this.base !== null && this.dirty) this.#kept.set(this.base.id, { base: this.base, draft: { ...this.draft } });
    this.#close();
  }

  /** Discards the draft; returns a function that restores it, or null if there was none. */
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

  /** Saves. Returns the memory before and after, or null; then `error` or `theirs` is set. */
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

  /** Gets the stored version: from the error, or by reading it. */
  async #conflict(base: Memory, err: RpcError): Promise<void> {
    const now = err.details as Partial<Memory> | null | undefined;
    try {
      this.theirs = now?.id === base.id && typeof now.content === "string" ? (now as Memory) : await this.#rpc.call("memory.get", { id: base.id });
    } catch {
      this.error = err;
    }
  }

  /** Saves the draft over the stored version. */
  async keepMine(): Promise<{ before: Memory; after: Memory } | null> {
    if (this.theirs === null) return null;
    this.base = this.theirs;
    this.theirs = null;
    return this.save();
  }

  /** Keeps the stored version; returns a function that restores the draft. */
  takeTheirs(): (() => void) | null {
    if (this.theirs === null) return null;
    this.base = this.theirs;
    return this.discard();
  }
}
