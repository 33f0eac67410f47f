import { RpcError, asError } from "../rpc/errors";

export interface Page<T> {
  items: readonly T[];
  total: number;
}

/**
 * A list that is read in pages by offset. `reload` reads as much as is shown again, so that nothing jumps;
 * `more` reads the next page. Each resolves when the list is as new as was asked for: a read that another one
 * replaced ends with it.
 */
export class Paged<T> {
  items = $state.raw<readonly T[]>([]);
  total = $state(0);
  error = $state.raw<RpcError | undefined>(undefined);
  busy = $state(false);
  /** False until the first answer or error. */
  loaded = $state(false);
  #abort: AbortController | undefined;
  #latest: Promise<void> = Promise.resolve();

  constructor(
    private readonly read: (offset: number, limit: number, signal: AbortSignal) => Promise<Page<T>>,
    private readonly size = 100,
  ) {}

  get first(): boolean {
    return !this.loaded && !this.error;
  }

  reload(): Promise<void> {
    return this.#run(async (signal) => {
      const wanted = Math.max(this.size, this.items.length);
      let all: T[] = [];
      let total = 0;
      do {
        const page = await this.read(all.length, this.size, signal);
        total = page.total;
        all = all.concat(page.items);
        if (page.items.length === 0) break;
      } while (all.length < wanted && all.length < total);
      return { items: all, total };
    });
  }

  /** Clears the list and reads from the start, after a filter changed. */
  restart(): Promise<void> {
    this.items = [];
    this.loaded = false;
    return this.reload();
  }

  more(): Promise<void> {
    if (this.busy || this.items.length >= this.total) return Promise.resolve();
    return this.#run(async (signal) => {
      const page = await this.read(this.items.length, this.size, signal);
      return { items: [...this.items, ...page.items], total: page.items.length === 0 ? this.items.length : page.total };
    });
  }

  async #run(read: (signal: AbortSignal) => Promise<Page<T>>): Promise<void> {
    this.#latest = this.#settle(read);
    for (let last; last !== this.#latest; ) await (last = this.#latest);
  }

  async #settle(read: (signal: AbortSignal) => Promise<Page<T>>): Promise<void> {
    this.#abort?.abort();
    const abort = new AbortController();
    this.#abort = abort;
    this.busy = true;
    try {
      const page = await read(abort.signal);
      if (this.#abort !== abort) return;
      this.items = page.items;
      this.total = page.total;
      this.error = undefined;
      this.loaded = true;
    } catch (e) {
      if (this.#abort !== abort) return;
      const err = asError(e);
      if (err.kind !== "canceled") {
        this.error = err;
        this.loaded = true;
      }
    } finally {
      if (this.#abort === abort) {
        this.#abort = undefined;
        this.busy = false;
      }
    }
  }
}
