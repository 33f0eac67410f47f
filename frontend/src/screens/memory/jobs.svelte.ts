import type { Rpc } from "../../lib/rpc";
import { stateWord } from "../../lib/run/states";
import { format, JobList, toasts } from "../../lib/ui/state";
import { t } from "./messages";
import { percent } from "./words";

/** The job that embeds texts for semantic search. */
const embedding = "memory.embedding";
/** After this time without progress, the state is read to find out whether it paused; there is no event for that. */
const quietMs = 5000;
const most = 20;

/** Imports of memories and the progress of semantic search. */
export class MemoryJobs extends JobList {
  #rpc: Rpc | null = null;
  #quiet: ReturnType<typeof setTimeout> | undefined;
  #ended = 0; // number of imports that ended

  start(rpc: Rpc): void {
    this.#rpc = rpc;
    rpc.on("memory.import_progress", (e) => this.#import(e));
    rpc.on("memory.import_done", (e) => {
      this.#ended++;
      this.#import(e);
    });
    rpc.on("memory.embedding_progress", (e) => {
      this.#embedding(e.ready, e.queued, false);
      clearTimeout(this.#quiet);
      if (e.queued > 0) this.#quiet = setTimeout(() => void this.read(), quietMs);
    });
    rpc.onReload(() => void this.read());
    void this.read();
  }

  stop(): void {
    clearTimeout(this.#quiet);
  }

  /** Reads imports that started earlier, and the progress of semantic search. */
  async read(): Promise<void> {
    const rpc = this.#rpc;
    if (!rpc?.can("memory.imports")) return;
    try {
      const ended = this.#ended;
      const [{ jobs }, e] = await Promise.all([rpc.call("memory.imports", { limit: most }), rpc.call("memory.embedding_status", {})]);
      // A result from before an import ended would show it as running.
      if (ended !== this.#ended) return await this.read();
      this.retain((j) => j.id === embedding);
      for (const j of jobs) this.#import(j);
      this.#embedding(e.ready, e.queued + e.stale, e.paused || !e.available);
    } catch {
      // The Memory screen shows the error; the status bar only lacks these jobs.
    }
  }

  #import(e: { jobId: string; path: string; status: string; progress: number; startedAt?: string }): void {
    if (e.status !== "running" && e.status !== "pending") return this.remove(e.jobId);
    const name = format.visible(e.path.split(/[\\/]/).filter(Boolean).pop() ?? "", 40);
    const cancel = (): void => void this.#rpc?.call("memory.import_cancel", { jobId: e.jobId }).catch((err) => toasts.error(err));
    this.put({ id: e.jobId, title: t.importing(name), step: e.status === "pending" ? stateWord(e.status) : "", progress: e.progress, since: e.startedAt ? Date.parse(e.startedAt) : undefined, target: "memory", cancel });
  }

  #embedding(ready: number, waiting: number, paused: boolean): void {
    if (waiting === 0 || paused) return this.remove(embedding);
    const progress = ready / (ready + waiting);
    this.put({ id: embedding, title: t.semantic, step: percent(progress), progress, target: "memory" });
  }
}

export const memoryJobs = new MemoryJobs();
