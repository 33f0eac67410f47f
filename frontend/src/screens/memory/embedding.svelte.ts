import type { EventData, Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import type { EmbeddingStatus } from "./types";

/** The progress of semantic search: how many texts have a vector, how many wait, and why it is unavailable. */
export class Embedding {
  readonly status = new Load<EmbeddingStatus>();
  changing = $state(false);
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly waiting = $derived((this.status.data?.queued ?? 0) + (this.status.data?.stale ?? 0));
  readonly all = $derived((this.status.data?.ready ?? 0) + this.waiting);
  /** 0 to 1. */
  readonly done = $derived(this.all === 0 ? 1 : (this.status.data?.ready ?? 0) / this.all);
  readonly unfinished = $derived(this.status.data?.available === true && this.waiting > 0);
  readonly missing = $derived(this.status.data !== undefined && !this.status.data.available);
  readonly failed = $derived(this.status.data?.failed ?? 0);

  read(): Promise<void> {
    return this.status.run((signal) => this.#rpc.call("memory.embedding_status", {}, { signal }));
  }

  /** Applies an event. After the last one the whole status is read. */
  progress(e: EventData<"memory.embedding_progress">): void {
    const now = this.status.data;
    if (now === undefined || e.queued === 0) {
      void this.read();
      return;
    }
    const eta = e.ratePerSec > 0 ? e.queued / e.ratePerSec : 0;
    this.status.data = { ...now, ready: e.ready, queued: e.queued, stale: 0, ratePerSec: e.ratePerSec, etaSeconds: eta };
  }

  async pause(on: boolean): Promise<void> {
    await this.#change({ pause: on });
  }

  /** Retries the texts that failed. */
  async retry(): Promise<void> {
    await this.#change({ failed: true });
  }

  async #change(params: { pause?: boolean; failed?: boolean }): Promise<void> {
    this.changing = true;
    try {
      this.status.data = await this.#rpc.call("memory.reembed", params);
    } finally {
      this.changing = false;
    }
  }
}
