import { isOpen } from "../../../lib/run/states";
import { asError, type RpcError } from "../../../lib/rpc/errors";
import type { Rpc } from "../../../lib/rpc";
import { Load } from "../../../lib/ui/state";
import { Journal, view, type Row } from "./journal";
import type { ExecuteResult, Execution, RunEvent, Wait } from "./types";


/** Events per read, and the minimum interval between updates of the rows while events stream in. */
const PAGE = 1000;
const SHOW_MS = 60;
/** Events after which the run is read again, because they change more than the rows. */
const TELLING = new Set(["run.waiting", "run.resumed", "run.finished", "approval.requested", "approval.answered"]);

/**
 * One followed run. Events arrive as notifications; missing numbers are read, so that nothing is lost however
 * many were dropped. It reads and listens until `close`.
 */
export class RunFeed {
  readonly id: string;
  /** The run with its results, its questions and its definition. */
  readonly run = new Load<Execution>();
  /** Incremented when the rows have changed. */
  tick = $state(0);
  /** Rows whose fold state differs from the default. */
  toggled = $state.raw<ReadonlySet<string>>(new Set());
  /** Key of the row whose details are shown. */
  chosen = $state<string | null>(null);
  canceling = $state(false);
  /** The step path of an answer that is being sent. */
  answering = $state("");
  /** Why the last action on the run was refused. */
  error = $state.raw<RpcError | null>(null);
  /** The events are not on this device: the rows are built from the results. */
  coarse = $state(false);

  #journal = new Journal();
  #lastSeq = 0;
  /** The highest event number known. */
  #heard = 0;
  #ahead = new Map<number, RunEvent>();
  #reading = false;
  #soon: ReturnType<typeof setTimeout> | undefined;
  #again: ReturnType<typeof setTimeout> | undefined;
  #offs: (() => void)[] = [];
  readonly #rpc: Rpc | null;

  constructor(rpc: Rpc | null, id: string) {
    this.#rpc = rpc;
    this.id = id;
  }

  /** A dry run, which has no events: its rows are built from its result. */
  static ofResult(result: ExecuteResult, over: Partial<Execution> = {}): RunFeed {
    const feed = new RunFeed(null, result.executionId);
    feed.run.data = { ...blank, ...result, ...over };
    feed.#journal = Journal.fromResults(result, feed.run.data.skill);
    feed.coarse = true;
    feed.tick++;
    return feed;
  }

  // Plain getters: derived state belongs to the component that created it, and a run outlives that.
  get status(): string {
    void this.tick;
    const told = this.run.data?.status ?? "queued";
    // The journal may be ahead of the run that was read, but never after its end.
    return !isOpen(told) || this.coarse || this.#lastSeq === 0 ? told : this.#journal.status;
  }
  get over(): boolean {
    return !isOpen(this.status);
  }
  get waits(): readonly Wait[] {
    return this.over ? [] : (this.run.data?.waits ?? []);
  }
  /** The visible rows at this tick. */
  get rows(): readonly Row[] {
    void this.tick;
    return this.#journal.visible(this.toggled).map(view);
  }
  /** The row whose details are shown. */
  get detail(): Row | undefined {
    void this.tick;
    const row = this.chosen === null ? undefined : this.#journal.byKey(this.chosen);
    return row && view(row);
  }
  get startedAt(): number {
    void this.tick;
    return this.#journal.startedAt;
  }
  get finishedAt(): number {
    void this.tick;
    return this.#journal.finishedAt;
  }

  get journal(): Journal {
    void this.tick;
    return this.#journal;
  }
  get lastSeq(): number {
    return this.#lastSeq;
  }

  /** Starts listening and reads the events so far. */
  async open(): Promise<void> {
    const rpc = this.#rpc;
    if (rpc === null || this.#offs.length > 0) return;
    this.#offs = [
      rpc.on("skills.run_event", (e) => {
        if (e.executionId === this.id) this.#take(e);
        // A skill inside this one asks or is answered: its questions are reported by this run.
        else if (TELLING.has(e.type) && !this.over && this.run.data !== undefined) this.#readSoon();
      }),
      rpc.onReload(() => void this.refresh()),
    ];
    await this.refresh();
  }

  close(): void {
    for (const off of this.#offs.splice(0)) off();
    clearTimeout(this.#soon);
    clearTimeout(this.#again);
    this.#soon = undefined;
  }

  /** Reads the run, and the missing events. */
  async refresh(): Promise<void> {
    await this.#readRun();
    const last = this.run.data?.lastSeq ?? 0;
    this.#heard = Math.max(this.#heard, last);
    await this.#catchUp();
  }

  async #readRun(): Promise<void> {
    const rpc = this.#rpc;
    if (rpc === null) return;
    await this.run.run((signal) => rpc.call("skills.get_execution", { executionId: this.id }, { signal }));
    const run = this.run.data;
    if (!run) return;
    if (this.#lastSeq === 0 && this.#journal.size === 0) this.#journal = new Journal(run.skill);
    if (this.coarse) this.#fromResults(run);
    this.#settle();
    this.#show();
  }

  /** Applies the run's own state of its steps, if it is as recent as the events. */
  #settle(): void {
    const run = this.run.data;
    if (run && !this.coarse && this.#lastSeq > 0 && run.lastSeq === this.#lastSeq) this.#journal.settle(run.stepResults);
  }

  #fromResults(run: Execution): void {
    this.coarse = true;
    this.#journal = Journal.fromResults(run, run.skill);
  }

  #take(e: RunEvent): void {
    this.#heard = Math.max(this.#heard, e.seq);
    if (e.seq <= this.#lastSeq || this.coarse) return;
    // Events that are too large for a notification are read, like lost ones.
    if ((e.data as { truncated?: unknown } | null)?.truncated !== true) this.#ahead.set(e.seq, e);
    this.#applyAhead();
    if (this.#lastSeq < this.#heard) void this.#catchUp();
  }

  #applyAhead(): void {
    // Before the definition is known, the rows would be in the wrong order.
    if (this.run.data === undefined) return;
    for (let next = this.#ahead.get(this.#lastSeq + 1); next; next = this.#ahead.get(this.#lastSeq + 1)) {
      this.#ahead.delete(next.seq);
      this.#apply(next);
    }
  }

  #apply(e: RunEvent): void {
    this.#lastSeq = e.seq;
    this.#journal.apply(e);
    this.#show();
    if (TELLING.has(e.type)) this.#readSoon();
  }

  #readSoon(): void {
    clearTimeout(this.#again);
    this.#again = setTimeout(() => void this.#readRun(), 30);
  }

  /** Reads events until none are missing. */
  async #catchUp(): Promise<void> {
    const rpc = this.#rpc;
    if (rpc === null || this.#reading || this.coarse || this.run.data === undefined) return;
    this.#reading = true;
    try {
      this.#applyAhead();
      while (this.#lastSeq < this.#heard) {
        const { events, lastSeq } = await rpc.call("skills.events", { executionId: this.id, afterSeq: this.#lastSeq, limit: PAGE });
        this.#heard = Math.max(this.#heard, lastSeq);
        const before = this.#lastSeq;
        for (const e of events) if (e.seq === this.#lastSeq + 1) this.#apply(e);
        this.#applyAhead();
        if (this.#lastSeq === before) {
          // They are not on this device: the run was synced, or its journal was cleared.
          if (before === 0 && this.run.data) this.#fromResults(this.run.data);
          break;
        }
      }
      for (const seq of [...this.#ahead.keys()]) if (seq <= this.#lastSeq) this.#ahead.delete(seq);
    } catch (e) {
      this.run.error = asError(e);
    } finally {
      this.#reading = false;
      this.#settle();
      this.#show();
    }
  }

  #show(): void {
    if (this.#soon !== undefined) return;
    this.#soon = setTimeout(() => {
      this.#soon = undefined;
      this.tick++;
    }, SHOW_MS);
  }

  /** Updates the visible rows. */
  flush(): void {
    clearTimeout(this.#soon);
    this.#soon = undefined;
    this.tick++;
  }

  /** Folds or unfolds a row. */
  toggle(key: string): void {
    const next = new Set(this.toggled);
    if (!next.delete(key)) next.add(key);
    this.toggled = next;
  }

  choose(key: string | null): void {
    this.chosen = key;
  }

  async cancel(): Promise<void> {
    if (this.#rpc === null || this.over || this.canceling) return;
    this.canceling = true;
    this.error = null;
    try {
      await this.#rpc.call("skills.cancel", { executionId: this.id });
      await this.refresh();
    } catch (e) {
      this.error = asError(e);
    } finally {
      this.canceling = false;
    }
  }

  /** Answers a question of the run. */
  async answer(wait: Wait, decision: string, more: { data?: unknown; output?: unknown } = {}): Promise<boolean> {
    if (this.#rpc === null || this.answering !== "") return false;
    this.answering = `${wait.stepPath}@${wait.iteration ?? ""}`;
    this.error = null;
    try {
      const run = await this.#rpc.call("skills.answer", { executionId: this.id, stepPath: wait.stepPath, ...(wait.iteration ? { iteration: wait.iteration } : {}), decision, ...more });
      this.run.data = run;
      await this.refresh();
      return true;
    } catch (e) {
      this.error = asError(e);
      if (this.error.kind === "conflict") await this.refresh();
      return false;
    } finally {
      this.answering = "";
    }
  }
}

const blank: Execution = {
  skillName: "",
  version: "",
  definitionHash: "",
  mode: "dry",
  trigger: "user",
  waits: [],
  pinned: false,
  lastSeq: 0,
  createdAt: "",
  success: false,
  userId: "",
  executionId: "",
  status: "completed",
  stepResults: [],
  finalOutput: null,
  executionContext: {},
  executionTimeMs: 0,
  stepsCompleted: 0,
  totalSteps: 0,
  stepsFailed: 0,
  stepsSkipped: 0,
  input: {},
};
