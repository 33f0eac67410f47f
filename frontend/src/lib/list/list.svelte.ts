import type { EventName, Rpc } from "../rpc";
import { Paged, type Page } from "../ui/paged.svelte";

/** What one page is read with. */
export interface PageQuery<F> {
  /** What is searched for, trimmed; "" for everything. */
  query: string;
  filters: F;
  offset: number;
  limit: number;
  signal: AbortSignal;
}

export interface ListOptions<T, F> {
  /** The id of a row, as it stands in the address. */
  id: (row: T) => string;
  /** Reads one page. */
  read: (q: PageQuery<F>) => Promise<Page<T>>;
  /** The filters at rest. A filter that has this value does not narrow the list. */
  filters?: F;
  /** Rows that do not count as the user's own, such as built-in schedules. */
  system?: (row: T) => boolean;
}

const typingMs = 200;
const eventsMs = 50;

/**
 * The state of a list screen: rows in pages, a search, filters, the selected row and rows that
 * are being deleted. It knows no DOM. `ListPane` shows it, `listCommands` moves in it, and
 * `followAddress` ties the selection to the address.
 */
export class ListState<T, F extends Record<string, string> = Record<string, never>> {
  query = $state("");
  filters = $state.raw<F>({} as F);
  selectedId = $state<string | null>(null);
  readonly page: Paged<T>;
  readonly id: (row: T) => string;
  #hidden = $state.raw<ReadonlySet<string>>(new Set());
  readonly #rest: F;
  readonly #system: (row: T) => boolean;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #events: ReturnType<typeof setTimeout> | undefined;
  #offs: (() => void)[] = [];

  constructor(o: ListOptions<T, F>) {
    this.id = o.id;
    this.#rest = this.filters = o.filters ?? ({} as F);
    this.#system = o.system ?? (() => false);
    this.page = new Paged<T>((offset, limit, signal) => o.read({ query: this.query.trim(), filters: this.filters, offset, limit, signal }));
  }

  /** Every row that is shown. */
  readonly rows = $derived.by(() => (this.#hidden.size === 0 ? this.page.items : this.page.items.filter((r) => !this.#hidden.has(this.id(r)))));
  readonly own = $derived.by(() => this.rows.filter((r) => !this.#system(r)));
  readonly system = $derived.by(() => this.rows.filter((r) => this.#system(r)));
  readonly selected = $derived.by(() => this.rows.find((r) => this.id(r) === this.selectedId) ?? null);
  /** How many there are, without those that are hidden. */
  readonly total = $derived.by(() => Math.max(0, this.page.total - (this.page.items.length - this.rows.length)));
  /** A search or a filter narrows the list. */
  readonly filtered = $derived.by(() => this.query.trim() !== "" || Object.entries(this.#rest).some(([k, v]) => this.filters[k as keyof F] !== v));
  /** The user has nothing here yet: teach how to begin instead of offering filters. */
  readonly bare = $derived.by(() => this.own.length === 0 && !this.filtered && !this.page.first && !this.page.error);

  /**
   * Reads again after a reconnect and soon after each of the events. `offs` end what else the
   * screen listens to; `stop` calls them. A second call does nothing.
   */
  start(rpc: Rpc, events: readonly EventName[], ...offs: (() => void)[]): void {
    if (this.#offs.length > 0) return;
    this.#offs = [...events.map((e) => rpc.on(e, () => this.soon())), rpc.onReload(() => void this.page.reload()), ...offs];
  }

  stop(): void {
    for (const off of this.#offs.splice(0)) off();
    clearTimeout(this.#typing);
    clearTimeout(this.#events);
  }

  /** Reads again in `ms`; several changes in a row are one read. */
  soon(ms = eventsMs): void {
    clearTimeout(this.#events);
    this.#events = setTimeout(() => void this.page.reload(), ms);
  }

  /** Searches once typing pauses. */
  search(text: string): void {
    this.query = text;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.page.restart(), typingMs);
  }

  setFilter<K extends keyof F>(key: K, value: F[K]): void {
    this.filters = { ...this.filters, [key]: value };
    void this.page.restart();
  }

  clearFilters(): void {
    clearTimeout(this.#typing);
    this.query = "";
    this.filters = this.#rest;
    void this.page.restart();
  }

  /** Replaces one row by what the backend answered, so that it changes at once. */
  put(row: T): void {
    const id = this.id(row);
    this.page.items = this.page.items.map((r) => (this.id(r) === id ? row : r));
  }

  /** Hides a row before the backend has deleted it, and selects the one after it. */
  hide(id: string): void {
    const at = this.own.findIndex((r) => this.id(r) === id);
    this.#hidden = new Set(this.#hidden).add(id);
    if (this.selectedId !== id) return;
    const next = at < 0 ? undefined : this.own[Math.min(at, this.own.length - 1)];
    this.selectedId = next === undefined ? null : this.id(next);
  }

  /** Shows a hidden row again where the backend lists it now. */
  async unhide(id: string): Promise<void> {
    await this.page.reload();
    const hidden = new Set(this.#hidden);
    hidden.delete(id);
    this.#hidden = hidden;
  }
}
