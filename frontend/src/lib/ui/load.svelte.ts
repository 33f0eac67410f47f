import { RpcError, asError } from "../rpc/errors";

/**
 * Data read from the backend: data, an error, or not loaded yet. A new `run` cancels the previous one, so
 * that results never overtake each other; during a new read the old data stays visible.
 */
export class Load<T> {
  data = $state.raw<T | undefined>(undefined);
  error = $state.raw<RpcError | undefined>(undefined);
  busy = $state(false);
  #abort: AbortController | undefined;

  /** True before the first result: show a skeleton. */
  get first(): boolean {
    return this.data === undefined && this.error === undefined;
  }

  /** Reads; resolves when this read is settled. Never rejects: check `error`. */
  async run(read: (signal: AbortSignal) => Promise<T>): Promise<void> {
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.busy = true;
    try {
      const data = await read(abort.signal);
      if (this.#abort !== abort) return;
      this.data = data;
      this.error = undefined;
    } catch (e) {
      if (this.#abort !== abort) return;
      const err = asError(e);
      if (err.kind !== "canceled") this.error = err;
    } finally {
      if (this.#abort === abort) {
        this.busy = false;
        this.#abort = undefined;
      }
    }
  }

  /** Cancels a read in progress. */
  cancel(): void {
    this.#abort?.abort();
    this.#abort = undefined;
    this.busy = false;
  }
  /** Resets everything, before something else is shown. */
  clear(): void {
    this.cancel();
    this.data = undefined;
    this.error = undefined;
  }
}
