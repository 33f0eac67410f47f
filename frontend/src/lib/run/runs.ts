/** Lists of runs, newest first. */
import { ListState, type Route } from "../list/state";

/** One page of runs; `next` is where the page after it begins, "" for the last. */
export interface RunPage<T> {
  items: readonly T[];
  next: string;
}

export interface RunQuery<F> {
  filters: F;
  /** Where the page begins; "" for the newest runs. */
  cursor: string;
  limit: number;
  signal: AbortSignal;
}

/** A run as a row of its list. */
export interface RunRow {
  status: string;
  /** What came of it. */
  text: string;
  at: string;
  ms?: number | undefined;
  /** Who or what started it. */
  by: string;
  /** What ran, where a list holds the runs of several. */
  name?: string;
  version?: string;
  marks?: readonly string[];
}

/** The state of a list of runs that is read by cursors. The address names the run that is open. */
export function runList<T, F extends Record<string, string>>(o: { id: (run: T) => string; route: Route; filters: F; read: (q: RunQuery<F>) => Promise<RunPage<T>> }): ListState<T, F> {
  let cursor = "";
  return new ListState<T, F>({
    id: o.id,
    route: o.route,
    filters: o.filters,
    read: async ({ filters, offset, limit, signal }) => {
      const page = await o.read({ filters, limit, signal, cursor: offset === 0 ? "" : cursor });
      cursor = page.next;
      // How many there are is not known before the last page; one more keeps the list reading.
      return { items: page.items, total: offset + page.items.length + (page.next === "" ? 0 : 1) };
    },
  });
}
