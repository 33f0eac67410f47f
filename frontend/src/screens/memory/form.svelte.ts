import { asError, type Rpc, type RpcError } from "../../lib/rpc";
import { contentProblem, fromField } from "./edit.svelte";
import type { AddParams, Memory } from "./types";
import { tagsOf } from "./words";

/** Writing a memory or a note. What is typed stays until it is stored or cleared. */
export class AddForm {
  open = $state(false);
  content = $state("");
  note = $state(false);
  type = $state("episodic");
  layer = $state(0);
  tags = $state("");
  at = $state("");
  saving = $state(false);
  /** Problems are shown once somebody tried to store it. */
  tried = $state(false);
  error = $state.raw<RpcError | null>(null);
  /** The same text was there already: that memory. */
  known = $state.raw<Memory | null>(null);
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly problem = $derived(contentProblem(this.content));
  readonly timeProblem = $derived(fromField(this.at) === undefined ? "The date is incomplete" : "");
  readonly tagProblem = $derived.by(() => {
    const tags = tagsOf(this.tags);
    if (tags.length > 16) return "At most 16 tags";
    const long = tags.find((t) => [...t].length > 64);
    return long ? `A tag has at most 64 characters: ${long.slice(0, 20)}…` : "";
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
    this.error = this.known = null;
  }

  /** Stores it. Answers the memory, or null; then the form says why and keeps everything. */
  async save(): Promise<{ memory: Memory; known: boolean } | null> {
    this.tried = true;
    this.error = null;
    this.known = null;
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
