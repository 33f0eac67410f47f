import { asError, type RpcError } from "../../lib/rpc/errors";
import type { EventData, Rpc } from "../../lib/rpc";
import { goesOn } from "./run.svelte";
import type { Row, Template } from "./types";

/** The three lists of the screen. */
export type Tab = "mine" | "marketplace" | "templates";
/** What the list is narrowed to. */
export type StateFilter = "any" | "enabled" | "disabled" | "suspended" | "private" | "public";
export type Sort = "recent" | "name" | "usage";

/** How the newest run of a tool ended, or that one is going on. */
export type LastRun = "running" | "success" | "failure" | "timeout";

/** Rows that one call reads; the backend's cap. */
export const PAGE = 100;
const TYPING_MS = 150;
const EVENTS_MS = 60;

/**
 * The list of tools: what it shows, in which order, and which row is chosen. Rows are read
 * in pages as they come into view, so ten thousand tools cost as much as a hundred.
 */
export class ToolList {
  tab = $state<Tab>("mine");
  query = $state("");
  tags = $state.raw<readonly string[]>([]);
  status = $state<StateFilter>("any");
  sort = $state<Sort>("recent");

  /** Places as the backend counts them; undefined where the page was not read yet. */
  #all = $state.raw<readonly (Row | undefined)[]>([]);
  /** Rows that are being deleted. */
  #hidden = $state.raw<ReadonlySet<string>>(new Set());
  /** One place for each tool that is shown; undefined where the page was not read yet. */
  readonly rows = $derived(this.#hidden.size === 0 ? this.#all : this.#all.filter((r) => r === undefined || !this.#hidden.has(r.id)));
  /** A hub is connected, so that tools of others are listed too. */
  hub = $state(false);
  market = $state.raw<readonly Row[]>([]);
  templates = $state.raw<readonly Template[]>([]);
  counts = $state.raw<Record<Tab, number | null>>({ mine: null, marketplace: null, templates: null });
  /** Runs that are going on: the run's id by the tool's. */
  running = $state.raw<ReadonlyMap<string, string>>(new Map());
  /** Tags of the rows seen so far, for the filter. */
  knownTags = $state.raw<readonly string[]>([]);

  loading = $state(true);
  error = $state.raw<RpcError | null>(null);
  /** The chosen row of the current tab, by id. */
  selectedId = $state<string | null>(null);

  readonly filtered = $derived(this.query.trim() !== "" || this.tags.length > 0 || this.status !== "any");

  readonly #rpc: Rpc;
  readonly #reading = new Set<number>();
  #turn = 0;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #pending: ReturnType<typeof setTimeout> | undefined;
  #marketTotal = 0;
  #stale = new Set<number>();
  #range: readonly [number, number] = [0, 0];
  readonly #offs: (() => void)[] = [];

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Listens to the backend and reads everything once. Call `stop` to end it. */
  start(): void {
    if (this.#offs.length > 0) return;
    this.#offs.push(
      this.#rpc.on("tools.changed", () => this.#soon()),
      this.#rpc.on("tools.suspended", () => this.#soon()),
      this.#rpc.on("tools.execution", (e) => this.#ran(e)),
      this.#rpc.onReload(() => this.#soon()),
    );
    void this.reload();
    void this.#readTemplates();
    void this.#readMarket();
  }

  stop(): void {
    for (const off of this.#offs.splice(0)) off();
    clearTimeout(this.#typing);
    clearTimeout(this.#pending);
  }

  /** Reads the current tab again. Rows stay visible meanwhile. */
  async reload(): Promise<void> {
    if (this.tab === "marketplace") return this.#readMarket();
    if (this.tab === "templates") return this.#readTemplates();
    const turn = ++this.#turn;
    this.#reading.clear();
    this.loading = true;
    try {
      const page = await this.#page(0);
      if (turn !== this.#turn) return;
      // Rows of further pages stay as they are until they are read again.
      this.#stale = new Set(Array.from({ length: Math.ceil(page.total / PAGE) }, (_, i) => i).slice(1));
      this.#place(page.total, 0, page.tools);
      this.error = null;
      if (!this.filtered) this.counts = { ...this.counts, mine: page.total };
      else void this.#countAll();
      this.ensure(...this.#range);
    } catch (e) {
      if (turn === this.#turn) this.error = asError(e);
    } finally {
      if (turn === this.#turn) this.loading = false;
    }
  }

  /** Makes sure that the rows from `first` to `last` are read. */
  ensure(first: number, last: number): void {
    if (this.tab !== "mine") return;
    this.#range = [first, last];
    for (let p = Math.floor(Math.max(0, first) / PAGE); p <= Math.floor((last + this.#hidden.size) / PAGE); p++) {
      const at = p * PAGE;
      if (at >= this.#all.length || this.#reading.has(p)) continue;
      if (this.#all[at] !== undefined && !this.#stale.has(p)) continue;
      void this.#readPage(p);
    }
  }

  async #readPage(p: number): Promise<void> {
    const turn = this.#turn;
    this.#reading.add(p);
    try {
      const page = await this.#page(p * PAGE);
      if (turn !== this.#turn) return;
      this.#stale.delete(p);
      this.#place(page.total, p * PAGE, page.tools);
    } catch (e) {
      if (turn === this.#turn) this.error = asError(e);
    } finally {
      if (turn === this.#turn) this.#reading.delete(p);
    }
  }

  #page(offset: number) {
    return this.#rpc.call("tools.list", { ...this.#filter(), sort: this.sort, limit: PAGE, offset });
  }

  #filter() {
    const q = this.query.trim();
    return {
      ...(q === "" ? {} : { query: q }),
      ...(this.tags.length === 0 ? {} : { tags: [...this.tags] }),
      ...(this.status === "enabled" ? { enabled: true } : this.status === "disabled" ? { enabled: false } : {}),
      ...(this.status === "suspended" ? { suspended: true } : {}),
      ...(this.status === "private" || this.status === "public" ? { visibility: this.status } : {}),
    };
  }

  #place(total: number, at: number, page: readonly Row[]): void {
    const out = this.#all.slice(0, total);
    while (out.length < total) out.push(undefined);
    page.forEach((row, i) => (out[at + i] = row));
    this.#all = out;
    const tags = new Set(this.knownTags);
    for (const row of page) for (const t of row.tags) tags.add(t);
    if (tags.size !== this.knownTags.length) this.knownTags = [...tags].sort((a, b) => a.localeCompare(b));
  }

  /** How many there are without a filter, for the tab. */
  async #countAll(): Promise<void> {
    const turn = this.#turn;
    try {
      const { total } = await this.#rpc.call("tools.list", { limit: 1, offset: 0 });
      if (turn === this.#turn) this.counts = { ...this.counts, mine: total };
    } catch {
      // The number of the tab stays as it was; the list itself reports errors.
    }
  }

  async #readMarket(): Promise<void> {
    const mine = this.tab === "marketplace";
    if (mine) this.loading = true;
    try {
      const { tools, total, hub } = await this.#rpc.call("tools.search", {
        query: this.tab === "marketplace" ? this.query.trim() : "",
        limit: 100,
        offset: 0,
        ...(this.tags.length === 0 || !mine ? {} : { tags: [...this.tags] }),
      });
      this.market = tools;
      this.hub = hub;
      this.#marketTotal = total;
      if (!mine || !this.filtered) this.counts = { ...this.counts, marketplace: total };
      if (mine) this.error = null;
    } catch (e) {
      if (mine) this.error = asError(e);
    } finally {
      if (mine) this.loading = false;
    }
  }

  /** Reads the shared tools after those that are shown. */
  async moreMarket(): Promise<void> {
    if (this.tab !== "marketplace" || this.loading || this.market.length >= this.#marketTotal) return;
    this.loading = true;
    try {
      const { tools } = await this.#rpc.call("tools.search", { query: this.query.trim(), limit: 100, offset: this.market.length });
      this.market = [...this.market, ...tools];
    } catch (e) {
      this.error = asError(e);
    } finally {
      this.loading = false;
    }
  }

  async #readTemplates(): Promise<void> {
    const mine = this.tab === "templates";
    if (mine) this.loading = true;
    try {
      const { templates } = await this.#rpc.call("tools.templates", {});
      this.templates = templates;
      this.counts = { ...this.counts, templates: templates.length };
      if (mine) this.error = null;
    } catch (e) {
      if (mine) this.error = asError(e);
    } finally {
      if (mine) this.loading = false;
    }
  }

  /** Templates that match what is searched for. */
  readonly shownTemplates = $derived.by(() => {
    const q = this.query.trim().toLowerCase();
    if (q === "") return this.templates;
    return this.templates.filter((t) => t.name.toLowerCase().includes(q) || t.description.toLowerCase().includes(q));
  });

  /** The mark of a row: a run that is going on now, else how the last one ended. */
  lastRun(row: Row): LastRun | null {
    return this.running.has(row.id) ? "running" : ((row.lastStatus as LastRun | undefined) ?? null);
  }

  #ran(e: EventData<"tools.execution">): void {
    if (!e.toolId) return;
    const on = goesOn(e.state);
    const known = this.running.get(e.toolId);
    if (on ? known === e.executionId : known === undefined) return;
    const map = new Map(this.running);
    if (on) map.set(e.toolId, e.executionId);
    else map.delete(e.toolId);
    this.running = map;
    if (!on) this.#soon();
  }

  /** Several events in a row cause one read. */
  #soon(): void {
    clearTimeout(this.#pending);
    this.#pending = setTimeout(() => {
      void this.reload();
      if (this.tab !== "marketplace") void this.#readMarket();
    }, EVENTS_MS);
  }

  setTab(tab: Tab): void {
    if (this.tab === tab) return;
    this.tab = tab;
    this.selectedId = null;
    this.error = null;
    void this.reload();
  }

  /** Narrows the list to a text; reads once typing pauses. */
  search(query: string): void {
    this.query = query;
    clearTimeout(this.#typing);
    if (this.tab === "templates") return;
    this.#typing = setTimeout(() => void this.reload(), TYPING_MS);
  }

  setStatus(status: StateFilter): void {
    this.status = status;
    void this.reload();
  }

  setSort(sort: Sort): void {
    this.sort = sort;
    void this.reload();
  }

  toggleTag(tag: string): void {
    this.tags = this.tags.includes(tag) ? this.tags.filter((t) => t !== tag) : [...this.tags, tag];
    void this.reload();
  }

  clearFilters(): void {
    this.query = "";
    this.tags = [];
    this.status = "any";
    void this.reload();
  }

  /** The ids of the current tab in order; null where a row was not read yet. */
  #ids(): (string | null)[] {
    if (this.tab === "mine") return this.rows.map((r) => r?.id ?? null);
    if (this.tab === "marketplace") return this.market.map((r) => r.id);
    return this.shownTemplates.map((t) => t.id);
  }

  /** Place of the chosen row, -1 without one. */
  readonly index = $derived.by(() => {
    const id = this.selectedId;
    if (id === null) return -1;
    if (this.tab === "mine") return this.rows.findIndex((r) => r?.id === id);
    if (this.tab === "marketplace") return this.market.findIndex((r) => r.id === id);
    return this.shownTemplates.findIndex((t) => t.id === id);
  });

  /** The chosen row of My Tools. */
  readonly selected = $derived(this.tab === "mine" && this.index >= 0 ? (this.rows[this.index] ?? null) : null);

  select(id: string | null): void {
    this.selectedId = id;
  }

  /** Chooses the row `delta` places further; answers its place, or -1 when there is none. */
  move(delta: number): number {
    const ids = this.#ids();
    if (ids.length === 0) return -1;
    const from = this.index;
    const to = from < 0 ? (delta > 0 ? 0 : ids.length - 1) : Math.max(0, Math.min(ids.length - 1, from + delta));
    this.ensure(to, to);
    const id = ids[to];
    if (id !== null && id !== undefined) this.selectedId = id;
    return to;
  }

  /** Takes a row out at once, before the backend has answered; the row after it is chosen. */
  hide(id: string): void {
    const at = this.rows.findIndex((r) => r?.id === id);
    this.#hidden = new Set(this.#hidden).add(id);
    if (at < 0) return;
    if (this.counts.mine !== null) this.counts = { ...this.counts, mine: Math.max(0, this.counts.mine - 1) };
    if (this.selectedId === id) this.selectedId = this.rows[Math.min(at, this.rows.length - 1)]?.id ?? null;
  }

  /** Lets a hidden row be seen again and reads where it belongs. */
  async unhide(id: string): Promise<void> {
    await this.reload();
    const hidden = new Set(this.#hidden);
    hidden.delete(id);
    this.#hidden = hidden;
  }
}
