import { asError, type Item, type Params, type Result, type Rpc } from "../../lib/rpc";
import { Load, format, toasts } from "../../lib/ui/state";
import { actionGroups } from "./words";

export type Entry = Item<"audit.list", "entries">;
export type EntryDetail = Result<"audit.get">;
export type Report = Result<"audit.verify">;
export type Row = { day: string; id: string } | { entry: Entry; id: number };

const pageSize = 100;
/** A page is shown once it holds this many entries. */
const enough = 40;

/** What the Activity screen shows: entries newest first, live, filtered; and whether the chain is whole. */
export class ActivityState {
  what = $state("");
  outcome = $state("");
  runId = $state("");
  subjectId = $state("");
  text = $state("");
  from = $state("");
  to = $state("");
  entries = $state.raw<readonly Entry[]>([]);
  /** How many matching entries arrived and are not shown yet. */
  fresh = $state(0);
  selected = $state<number | null>(null);
  /** The view is at its top and nothing is being read: new rows may come in by themselves. */
  atTop = $state(true);
  readonly page = new Load<true>();
  readonly detail = new Load<EntryDetail>();
  readonly report = new Load<Report>();
  verifiedAt = $state(0);
  exporting = $state(false);
  #next = $state<number | undefined>(undefined);
  #rpc: Rpc;
  #off: (() => void)[];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #seen = 0;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.#off = [
      rpc.on("audit.appended", (e) => this.#appended(e.seq)),
      rpc.onReload(() => void this.load()),
    ];
  }

  /** The key that signs this device's part of the log, for people who verify an export elsewhere. */
  async deviceKey(): Promise<string> {
    return (await this.#rpc.call("audit.device_key", {})).publicKey;
  }

  stop(): void {
    clearTimeout(this.#timer);
    for (const off of this.#off) off();
  }

  get filtered(): boolean {
    return this.what !== "" || this.outcome !== "" || this.runId !== "" || this.subjectId !== "" || this.text !== "" || this.from !== "" || this.to !== "";
  }

  get more(): boolean {
    return this.#next !== undefined;
  }

  /** Entries with a heading before the first of each day. */
  get rows(): Row[] {
    const out: Row[] = [];
    let last = "";
    for (const entry of this.entries) {
      const day = format.dayName(entry.timestamp);
      if (day !== last) out.push({ day, id: `day ${day}` });
      last = day;
      out.push({ entry, id: entry.seq });
    }
    return out;
  }

  /** Subjects that appear in what is loaded, for the filter "who". */
  get subjects(): { id: string; name: string }[] {
    const map = new Map<string, string>();
    for (const e of this.entries) if (e.subject.id) map.set(e.subject.id, e.subject.name || `${e.subject.kind} ${e.subject.id.slice(0, 8)}`);
    if (this.subjectId && !map.has(this.subjectId)) map.set(this.subjectId, this.subjectId.slice(0, 8));
    return [...map].map(([id, name]) => ({ id, name })).sort((a, b) => a.name.localeCompare(b.name));
  }

  /** Reads from the newest entry. */
  async load(): Promise<void> {
    this.fresh = 0;
    clearTimeout(this.#timer);
    await this.page.run(async (signal) => {
      const r = await this.#read(undefined, signal);
      this.entries = r.entries;
      this.#next = r.next;
      this.#seen = Math.max(this.#seen, r.entries[0]?.seq ?? 0);
      return true;
    });
  }

  /** Reads older entries. */
  async loadMore(): Promise<void> {
    const before = this.#next;
    if (before === undefined || this.page.busy) return;
    await this.page.run(async (signal) => {
      const r = await this.#read(before, signal);
      this.entries = [...this.entries, ...r.entries];
      this.#next = r.next;
      return true;
    });
  }

  /** Shows what arrived, on top. */
  async showFresh(): Promise<void> {
    this.fresh = 0;
    const newest = this.entries[0]?.seq ?? 0;
    const added: Entry[] = [];
    let before: number | undefined;
    await this.page.run(async (signal) => {
      for (;;) {
        const r = await this.#rpc.call("audit.list", { ...this.#filter(), limit: pageSize, ...(before === undefined ? {} : { before }) }, { signal });
        added.push(...r.entries.filter((e) => e.seq > newest));
        before = r.next;
        if (before === undefined || before <= newest + 1) break;
        // So much arrived that reading all of it is no use: start over from the top.
        if (added.length >= 500) {
          this.entries = added;
          this.#next = before;
          return true;
        }
      }
      if (added.length > 0) this.entries = [...added, ...this.entries];
      return true;
    });
  }

  clear(): void {
    this.what = this.outcome = this.runId = this.subjectId = this.text = this.from = this.to = "";
    void this.load();
  }

  /** Jumps to the entries of one run. */
  showRun(runId: string): void {
    if (this.runId === runId) return;
    this.what = this.outcome = this.subjectId = this.text = this.from = this.to = "";
    this.runId = runId;
    void this.load();
  }

  select(seq: number | null): void {
    if (this.selected === seq) return;
    this.selected = seq;
    this.detail.cancel();
    this.detail.data = undefined;
    this.detail.error = undefined;
    if (seq !== null) void this.detail.run((signal) => this.#rpc.call("audit.get", { seq }, { signal }));
  }

  async verify(): Promise<void> {
    await this.report.run((signal) => this.#rpc.call("audit.verify", {}, { signal }));
    if (this.report.data) this.verifiedAt = Date.now();
  }

  /** Takes notice of an alarm about the end of the log. */
  async accept(problem: string): Promise<void> {
    try {
      await this.#rpc.call("audit.accept", { problem });
      await this.verify();
    } catch (e) {
      toasts.error(e);
    }
  }

  /**
   * Writes the log to a file that `audit verify --file` can check anywhere. A name that is
   * taken is answered with a text, so that another is asked for.
   */
  async export(path: string): Promise<string> {
    this.exporting = true;
    try {
      const params: Params<"audit.export"> = { path };
      if (this.from) params.from = this.#filter().from!;
      if (this.to) params.to = this.#filter().to!;
      const r = await this.#rpc.call("audit.export", params);
      toasts.ok(`Exported ${format.plural(r.entries, "entry", "entries")}`, r.path);
    } catch (e) {
      if (asError(e).kind === "conflict") return asError(e).message;
      toasts.error(e, "Couldn't export the log");
    } finally {
      this.exporting = false;
    }
    return "";
  }

  /**
   * One page. The backend looks only as far as it can in a short time, so a rare
   * filter may need several answers until there is enough to show.
   */
  async #read(before: number | undefined, signal: AbortSignal): Promise<Result<"audit.list">> {
    const entries: Entry[] = [];
    let next = before;
    do {
      const r = await this.#rpc.call("audit.list", { ...this.#filter(), limit: pageSize, ...(next === undefined ? {} : { before: next }) }, { signal });
      entries.push(...r.entries);
      next = r.next;
    } while (next !== undefined && entries.length < enough);
    return next === undefined ? { entries } : { entries, next };
  }

  #filter(): Params<"audit.list"> {
    const p: Params<"audit.list"> = {};
    const actions = actionGroups.find((g) => g.value === this.what)?.actions ?? [];
    if (actions.length > 0) p.actions = [...actions];
    if (this.outcome) p.outcome = this.outcome;
    if (this.runId) p.runId = this.runId;
    if (this.subjectId) p.subjectId = this.subjectId;
    if (this.text.trim()) p.text = this.text.trim();
    // Days are the user's own: from their start to their end, local time.
    if (this.from) p.from = new Date(`${this.from}T00:00:00`).toISOString();
    if (this.to) p.to = new Date(`${this.to}T23:59:59.999`).toISOString();
    return p;
  }

  #appended(seq: number): void {
    if (seq <= this.#seen) return;
    this.#seen = seq;
    this.fresh++;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#settle(), 250);
  }

  /** Lets new rows in when nothing is being read; otherwise counts those that match. */
  async #settle(): Promise<void> {
    if (this.fresh === 0) return;
    if (this.atTop && this.selected === null) return this.showFresh();
    if (!this.filtered) return;
    const newest = this.entries[0]?.seq ?? 0;
    try {
      const r = await this.#rpc.call("audit.list", { ...this.#filter(), limit: pageSize });
      this.fresh = r.entries.filter((e) => e.seq > newest).length;
    } catch {
      // The count stays an upper bound until the next event.
    }
  }
}
