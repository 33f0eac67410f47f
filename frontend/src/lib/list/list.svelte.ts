import type { EventName, Rpc } from "../rpc";
import { nav } from "../ui/nav.svelte";
import { Paged, type Page } from "../ui/paged.svelte";
import { toasts, type Notify } from "../ui/toasts.svelte";
import type { Route } from "./route";

/** The request for one page. */
export interface PageQuery<F> {
  /** The search text, trimmed; "" for everything. */
  query: string;
  filters: F;
  offset: number;
  limit: number;
  signal: AbortSignal;
}

export interface ListOptions<T, F> {
  /** The id of a row, as in the address. */
  id: (row: T) => string;
  /** Reads one page. */
  read: (q: PageQuery<F>) => Promise<Page<T>>;
  /** How the address identifies the selected row. */
  route: Route;
  /** The default filters. A filter with its default value does not narrow the list. */
  filters?: F;
  /** Rows that do not count as the user's own, such as built-in schedules. */
  system?: (row: T) => boolean;
}

/** How a row is deleted and restored, and the messages about it. */
export interface Deletion {
  act: () => Promise<unknown>;
  restore: () => Promise<unknown>;
  /** "Deleted Morning report" */
  done: string;
  /** Additional text for the user. */
  text?: string;
  /** It is now in the Trash. */
  trash?: boolean;
  /** "Couldn't delete Morning report" */
  failed: string;
}

const typingMs = 200;
const eventsMs = 50;

/**
 * The state of a list screen: rows in pages, a search, filters, the selected row and rows that
 * are being deleted. It knows no DOM; `ListScreen` shows it.
 */
export class ListState<T, F extends Record<string, string> = Record<string, never>> {
  query = $state("");
  filters = $state.raw<F>({} as F);
  readonly page: Paged<T>;
  readonly id: (row: T) => string;
  #hidden = $state.raw<ReadonlySet<string>>(new Set());
  readonly #route: Route;
  readonly #defaults: F;
  readonly #system: (row: T) => boolean;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #events: ReturnType<typeof setTimeout> | undefined;
  #offs: (() => void)[] = [];

  constructor(o: ListOptions<T, F>) {
    this.id = o.id;
    this.#route = o.route;
    this.#defaults = this.filters = o.filters ?? ({} as F);
    this.#system = o.system ?? (() => false);
    this.page = new Paged<T>((offset, limit, signal) => o.read({ query: this.query.trim(), filters: this.filters, offset, limit, signal }));
  }

  /** All rows that are shown. */
  readonly rows = $derived.by(() => (this.#hidden.size === 0 ? this.page.items : this.page.items.filter((r) => !this.#hidden.has(this.id(r)))));
  readonly own = $derived.by(() => this.rows.filter((r) => !this.#system(r)));
  readonly system = $derived.by(() => this.rows.filter((r) => this.#system(r)));
  /** The number of rows, without hidden ones. */
  readonly total = $derived.by(() => Math.max(0, this.page.total - (this.page.items.length - this.rows.length)));
  /** A search or a filter narrows the list. */
  readonly filtered = $derived.by(() => this.query.trim() !== "" || Object.entries(this.#defaults).some(([k, v]) => this.filters[k as keyof F] !== v));
  /** The user has none yet: show how to start instead of filters. */
  readonly bare = $derived.by(() => this.own.length === 0 && !this.filtered && !this.page.first && !this.page.error);

  /** The id in the address, null for none. The row need not be in the list. */
  get selectedId(): string | null {
    return this.#route.selected() ?? null;
  }
  /** The selected row, if it is in the list. */
  get selected(): T | null {
    const id = this.selectedId;
    return id === null ? null : (this.rows.find((r) => this.id(r) === id) ?? null);
  }

  /**
   * Selects a row by its address. Does nothing while the address belongs to another screen, so that it never
   * navigates away from there.
   */
  select(id: string | null, how: "push" | "replace" = "push"): void {
    if (this.#route.selected() !== undefined) nav.select(this.#route.to(id), how);
  }

  /**
   * Reads again after a reconnect and soon after each of the events. `offs` are called by `stop` and end the
   * screen's other listeners. A second call does nothing.
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

  /** Reads again in `ms`; several consecutive changes cause one read. */
  soon(ms = eventsMs): void {
    clearTimeout(this.#events);
    this.#events = setTimeout(() => void this.page.reload(), ms);
  }

  /** Searches when typing pauses. */
  search(text: string): void {
    this.query = text;
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.page.restart(), typingMs);
  }

  setFilter<K extends keyof F>(key: K, value: F[K]): void {
    this.filters = { ...this.filters, [key]: value };
    void this.page.restart();
  }

  /** The values of a filter that accepts several. */
  values(key: keyof F): string[] {
    return (this.filters[key] as string).split("\n").filter(Boolean);
  }

  /** Adds a value to a filter that accepts several, or removes it. */
  toggleFilter(key: keyof F, value: string): void {
    const now = this.values(key);
    this.setFilter(key, (now.includes(value) ? now.filter((v) => v !== value) : [...now, value]).join("\n") as F[keyof F]);
  }

  clearFilters(): void {
    clearTimeout(this.#typing);
    this.query = "";
    this.filters = this.#defaults;
    void this.page.restart();
  }

  /** Replaces a row by the backend's answer, so that it changes at once. */
  put(row: T): void {
    const id = this.id(row);
    this.page.items = this.page.items.map((r) => (this.id(r) === id ? row : r));
  }

  /** Hides a row before the backend has deleted it. If it was selected, the next row is selected. */
  hide(id: string): void {
    const at = this.own.findIndex((r) => this.id(r) === id);
    const rest = this.own.filter((r) => this.id(r) !== id);
    this.#hidden = new Set(this.#hidden).add(id);
    if (this.selectedId !== id) return;
    const next = at < 0 ? undefined : rest[Math.min(at, rest.length - 1)];
    this.select(next === undefined ? null : this.id(next), "replace");
  }

  /** Shows hidden rows again at their current positions in the backend's list. */
  async unhide(...ids: readonly string[]): Promise<void> {
    await this.page.reload();
    const hidden = new Set(this.#hidden);
    for (const id of ids) hidden.delete(id);
    this.#hidden = hidden;
  }

  /**
   * Deletes a row at once and offers Undo for 10 s. If the backend refuses, the row reappears with the error.
   * Returns true if it was deleted.
   */
  remove(id: string, d: Deletion, notify: Pick<Notify, "error" | "undo" | "during"> = toasts): Promise<boolean> {
    const remove = (): Promise<boolean> => this.#remove(id, d, notify);
    return notify.during ? notify.during(remove) : remove();
  }

  async #remove(id: string, d: Deletion, notify: Pick<Notify, "error" | "undo">): Promise<boolean> {
    const selected = this.selectedId === id;
    this.hide(id);
    try {
      await d.act();
    } catch (e) {
      await this.unhide(id);
      if (selected) this.select(id, "replace");
      notify.error(e, d.failed);
      return false;
    }
    void this.unhide(id);
    notify.undo(
      d.done,
      async () => {
        await d.restore();
        await this.page.reload();
        this.select(id);
      },
      d.text,
      d.trash,
    );
    return true;
  }
}
