import { asError, type Item, type Params, type Result, type Rpc } from "../../lib/rpc";
import { Load, format, nav, toasts, type Notify } from "../../lib/ui/state";
import { t } from "./messages";
import { actionsOf, isRoutine, nameOf, subjectOf, type Group } from "./words";

export type Entry = Item<"audit.list", "entries">;
export type EntryDetail = Result<"audit.get">;
export type Report = Result<"audit.verify">;
/** A line of the list: the heading of a day, with the number of hidden routine entries, or an entry. */
export type Row = { day: string; id: string; routine: number } | { entry: Entry; id: number };

export interface Filter {
  what: Group;
  outcome: string;
  runId: string;
  subjectId: string;
  text: string;
  /** Days in the format of date fields. */
  from: string;
  to: string;
}
const unfiltered: Filter = { what: "", outcome: "", runId: "", subjectId: "", text: "", from: "", to: "" };

const pageSize = 100;
/** A page is shown once it has this many entries. */
const enough = 40;
const typingMs = 200;

/** The state of the Activity screen: entries newest first, live, filtered; and whether the log is intact. */
export class ActivityState {
  filter = $state.raw<Filter>(unfiltered);
  entries = $state.raw<readonly Entry[]>([]);
  /** The number of matching entries that arrived and are not shown yet. */
  fresh = $state(0);
  /** The list is scrolled to the top: new rows may appear while nothing is selected. */
  atTop = $state(true);
  readonly page = new Load<true>();
  readonly detail = new Load<EntryDetail>();
  readonly report = new Load<Report>();
  verifiedAt = $state(0);
  exporting = $state(false);
  #next = $state<number | undefined>(undefined);
  readonly #rpc: Rpc;
  readonly #notify: Notify;
  #off: (() => void)[];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #typing: ReturnType<typeof setTimeout> | undefined;
  #seen = 0;

  constructor(rpc: Rpc, notify: Notify = toasts) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.#off = [
      rpc.on("audit.appended", (e) => this.#appended(e.seq, e.action)),
      rpc.onReload(() => void this.load()),
    ];
  }

  /** The key that signs this device's part of the log, for people who verify an export elsewhere. */
  async deviceKey(): Promise<string> {
    return (await this.#rpc.call("audit.device_key", {})).publicKey;
  }

  stop(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#typing);
    for (const off of this.#off) off();
  }

  /** The number of the entry in the address. */
  get selected(): number | null {
    const id = nav.screen === "activity" ? (nav.rest[0] ?? "") : "";
    return /^\d+$/.test(id) ? Number(id) : null;
  }

  readonly filtered = $derived(Object.values(this.filter).some((v) => v !== ""));

  get more(): boolean {
    return this.#next !== undefined;
  }

  /** Entries by day. Routine entries are counted, and shown only if the log itself is selected. */
  readonly rows = $derived.by((): Row[] => {
    const out: Row[] = [];
    let head: { day: string; id: string; routine: number } | undefined;
    for (const entry of this.entries) {
      const day = format.dayName(entry.timestamp);
      if (head?.day !== day) out.push((head = { day, id: `day ${day}`, routine: 0 }));
      if (isRoutine(entry.action) && this.filter.what === "") head.routine++;
      else out.push({ entry, id: entry.seq });
    }
    return out;
  });

  /** The subjects of the loaded entries, as choices of a filter. */
  readonly subjects = $derived.by((): { value: string; label: string }[] => {
    const found = new Map<string, string>();
    for (const e of this.entries) if (e.subject.id && nameOf(e) !== "") found.set(e.subject.id, subjectOf(e));
    const { subjectId } = this.filter;
    if (subjectId && !found.has(subjectId)) found.set(subjectId, subjectId.slice(0, 8));
    return [...found].map(([value, label]) => ({ value, label })).sort((a, b) => a.label.localeCompare(b.label));
  });

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

  /** Shows new entries at the top. */
  async showFresh(): Promise<void> {
    this.fresh = 0;
    const newest = this.entries[0]?.seq ?? 0;
    const added: Entry[] = [];
    let before: number | undefined;
    await this.page.run(async (signal) => {
      for (;;) {
        const r = await this.#rpc.call("audit.list", { ...this.#params(), limit: pageSize, ...(before === undefined ? {} : { before }) }, { signal });
        added.push(...r.entries.filter((e) => e.seq > newest));
        before = r.next;
        if (before === undefined || before <= newest + 1) break;
        // After this many, the list starts over from the newest.
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

  set(change: Partial<Filter>): void {
    clearTimeout(this.#typing);
    this.filter = { ...this.filter, ...change };
    void this.load();
  }

  /** Searches once typing pauses. */
  search(text: string): void {
    this.filter = { ...this.filter, text };
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => void this.load(), typingMs);
  }

  clear(): void {
    this.set(unfiltered);
  }

  /** Filters by the last days; 0 means only today. */
  setDays(days: number): void {
    const d = new Date();
    d.setDate(d.getDate() - days);
    this.set({ from: `${d.getFullYear()}-${String(d.getMonth() + 1).padStart(2, "0")}-${String(d.getDate()).padStart(2, "0")}`, to: "" });
  }

  /** Shows what the address refers to: an entry, the entries of a run, or those about one subject. */
  show([head = "", id = ""]: readonly string[]): void {
    if (head === "run" && id !== this.filter.runId) return this.set({ ...unfiltered, runId: id });
    if (head === "subject" && id !== this.filter.subjectId) return this.set({ ...unfiltered, subjectId: id });
    const seq = this.selected;
    if (seq === this.detail.data?.seq) return;
    this.detail.cancel();
    this.detail.data = this.detail.error = undefined;
    if (seq !== null) void this.detail.run((signal) => this.#rpc.call("audit.get", { seq }, { signal }));
  }

  /** Verifies the log. With `announce` the result is also shown as a message. */
  async verify(announce = false): Promise<void> {
    await this.report.run((signal) => this.#rpc.call("audit.verify", {}, { signal }));
    const { data, error } = this.report;
    if (data) this.verifiedAt = Date.now();
    if (!announce) return;
    if (error) this.#notify.error(error, t.cannotVerify(""));
    else if (data?.ok) this.#notify.ok(t.intact, t.intactHelp(data.entries, data.segments, data.unsigned));
    else if (data) this.#notify.add({ title: data.firstBadSeq ? t.brokenAt(data.firstBadSeq) : t.broken, text: data.message ?? "", tone: "danger" });
  }

  /** Acknowledges an alarm about the end of the log. */
  async accept(problem: string): Promise<void> {
    try {
      await this.#rpc.call("audit.accept", { problem });
      await this.verify();
    } catch (e) {
      this.#notify.error(e);
    }
  }

  /**
   * Writes the log to a file that `audit verify --file` can verify anywhere. Returns why the name can't be
   * used, or "".
   */
  async export(path: string): Promise<string> {
    this.exporting = true;
    try {
      const params: Params<"audit.export"> = { path };
      const { from, to } = this.#params();
      if (from) params.from = from;
      if (to) params.to = to;
      const r = await this.#rpc.call("audit.export", params);
      this.#notify.ok(t.exported(r.entries), r.path);
    } catch (e) {
      if (asError(e).kind === "conflict") return asError(e).message;
      this.#notify.error(e, t.cannotExport);
    } finally {
      this.exporting = false;
    }
    return "";
  }

  /**
   * Reads one page. The backend searches only for a limited time, so with a rare filter several reads may be
   * needed until there is enough to show.
   */
  async #read(before: number | undefined, signal: AbortSignal): Promise<Result<"audit.list">> {
    const entries: Entry[] = [];
    let next = before;
    do {
      const r = await this.#rpc.call("audit.list", { ...this.#params(), limit: pageSize, ...(next === undefined ? {} : { before: next }) }, { signal });
      entries.push(...r.entries);
      next = r.next;
    } while (next !== undefined && entries.length < enough);
    return next === undefined ? { entries } : { entries, next };
  }

  #params(): Params<"audit.list"> {
    const { what, outcome, runId, subjectId, text, from, to } = this.filter;
    const p: Params<"audit.list"> = {};
    if (what) p.actions = [...actionsOf[what]];
    if (outcome) p.outcome = outcome;
    if (runId) p.runId = runId;
    if (subjectId) p.subjectId = subjectId;
    if (text.trim()) p.text = text.trim();
    // Days are local, from start to end.
    if (from) p.from = new Date(`${from}T00:00:00`).toISOString();
    if (to) p.to = new Date(`${to}T23:59:59.999`).toISOString();
    return p;
  }

  #appended(seq: number, action: string): void {
    if (seq <= this.#seen) return;
    this.#seen = seq;
    if (isRoutine(action) && this.filter.what === "") return;
    this.fresh++;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#settle(), 250);
  }

  /** Shows new rows while nothing is selected; otherwise counts those that match. */
  async #settle(): Promise<void> {
    if (this.fresh === 0) return;
    if (this.atTop && this.selected === null) return this.showFresh();
    if (!this.filtered) return;
    const newest = this.entries[0]?.seq ?? 0;
    try {
      const r = await this.#rpc.call("audit.list", { ...this.#params(), limit: pageSize });
      this.fresh = r.entries.filter((e) => e.seq > newest && (this.filter.what !== "" || !isRoutine(e.action))).length;
    } catch {
      // The count remains an upper bound until the next event.
    }
  }
}
