import { asError, type Rpc, type RpcError } from "../../lib/rpc";
import { contentProblem, fromField } from "./edit.svelte";
import { t } from "./messages";
import type { AddParams, Memory } from "./types";
import { tagsOf } from "./words";

/** The sheet for a new memory or note. Its text is kept until it is saved or cleared. */
export class AddForm {
  open = $state(false);
  content = $state("");
  note = $state(false);
  type = $state("episodic");
  layer = $state(0);
  tags = $state("");
  at = $state("");
  saving = $state(false);
  /** Problems are shown after the first attempt to save. */
  tried = $state(false);
  error = $state.raw<RpcError | null>(null);
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly problem = $derived(contentProblem(this.content));
  readonly timeProblem = $derived(fromField(this.at) === undefined ? t.dateIncomplete : "");
  readonly tagProblem = $derived.by(() => {
    const tags = tagsOf(this.tags);
    if (tags.length > 16) return t.tooManyTags;
    return tags.some((tag) => [...tag].length > 64) ? t.tagTooLong : "";
  });
  readonly dirty = $derived(this.content.trim() !== "" || this.tags.trim() !== "" || this.at !== "");

  begin(note = false): void {
    if (!this.dirty) this.note = note;
    this.tried = false;
    this.open = true;
  }

  clear(): void {
    this.content = this.tags = this.at = "";
    this.type = "episodic";
    this.layer = 0;
    this.tried = false;
    this.error = null;
  }

  /**
   * Saves it. Returns the memory and whether it already existed, or null; then the form shows why and keeps
   * everything.
   */
  async save(): Promise<{ memory: Memory; known: boolean } | null> {
    this.tried = true;
    this.error = null;
    if (this.saving || this.problem !== "" || this.timeProblem !== "" || this.tagProblem !== "") return null;
    const params: AddParams = { content: this.content, type: this.type, tags: tagsOf(this.tags), source: this.note ? "note" : "manual" };
    if (this.layer > 0) params.layer = this.layer;
    const at = fromField(this.at);
    if (at) params.occurredAt = at;
    this.saving = true;
    try {
      const r = await this.#rpc.call("memory.add", params);
      if (!r.item) return null;
      this.open = false;
      this.clear();
      return { memory: r.item, known: r.deduplicated };
    } catch (e) {
      this.error = asError(e);
      return null;
    } finally {
      this.saving = false;
    }
  }
}
