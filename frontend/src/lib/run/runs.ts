/** Lists of runs, newest first. */
import { ListState, type Route } from "../list/state";

/** One page of runs; `next` is the start of the next page, "" for the last. */
export interface RunPage<T> {
  items: readonly T[];
  next: string;
}

export interface RunQuery<F> {
  filters: F;
  /** The start of the page; "" for the newest runs. */
  cursor: string;
  limit: number;
  signal: AbortSignal;
}

/** A run as a row of its list. */
export interface RunRow {
  status: string;
  /** The result. */
  text: string;
  at: string;
  ms?: number | undefined;
  /** Who or what started it. */
  by: string;
  /** What was run, in a list with the runs of several. */
  name?: string;
  version?: string;
  marks?: readonly string[];
}

/** The state of a list of runs with cursors. The address identifies the open run. */
export function runList<T, F extends Record<string, string>>(o: { id: (run: T) => string; route: Route; filters: F; read: (q: RunQuery<F>) => Promise<RunPage<T>> }): ListState<T, F> {
  let cursor = "";
  return new ListState<T, F>({
    id: o.id,
    route: o.route,
    filters: o.filters,
    read: async ({ filters, offset, limit, signal }) => {
      const page = await o.read({ filters, limit, signal, cursor: offset === 0 ? "" : cursor });
      cursor = page.next;
      // The number of runs is unknown before the last page; one more makes the list continue reading.
      return { items: page.items, total: offset + page.items.length + (page.next === "" ? 0 : 1) };
    },
  });
}
