import { RpcError, asError } from "../rpc/errors";

/**
 * Something that is read from the backend: data, an error, or not yet there.
 * A new `run` cancels the one before, so that answers never overtake each other;
 * while it reads again the former data stays visible.
 */
export class Load<T> {
  data = $state.raw<T | undefined>(undefined);
  error = $state.raw<RpcError | undefined>(undefined);
  busy = $state(false);
  #abort: AbortController | undefined;

  /** True before the first answer: show a skeleton. */
  get first(): boolean {
    return this.data === undefined && this.error === undefined;
  }

  /** Reads; resolves when this read is settled. Never rejects: look at `error`. */
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

  /** Stops a read that is under way. */
  cancel(): void {
    this.#abort?.abort();
    this.#abort = undefined;
    this.busy = false;
  }
  /** Forgets everything: what is shown turns to something else. */
  clear(): void {
    this.cancel();
    this.data = undefined;
    this.error = undefined;
  }
}
