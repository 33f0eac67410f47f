import { isOpen } from "../../../lib/run/states";
import { asError, type RpcError } from "../../../lib/rpc/errors";
import type { Rpc } from "../../../lib/rpc";
import { Load } from "../../../lib/ui/state";
import { Journal, view, type Row } from "./journal";
import type { ExecuteResult, Execution, RunEvent, Wait } from "./types";


/** Events in a read, and how often at most the rows are made again while events stream in. */
const PAGE = 1000;
const SHOW_MS = 60;
/** Events that change more than the rows: the run is read again after them. */
const TELLING = new Set(["run.waiting", "run.resumed", "run.finished", "approval.requested", "approval.answered"]);

/**
 * One run as it is watched. Events come by themselves; a number that is missing is read, so
 * that nothing is left out however many were dropped on the way. Reading and listening go on
 * until `close`.
 */
export class RunFeed {
  readonly id: string;
  /** The run with its results, its questions and its definition. */
  readonly run = new Load<Execution>();
  /** Rises when the rows have changed. */
  tick = $state(0);
  /** Rows that are folded differently than by themselves. */
  toggled = $state.raw<ReadonlySet<string>>(new Set());
  /** Key of the row whose details are shown. */
  chosen = $state<string | null>(null);
  canceling = $state(false);
  /** An answer that is on its way: the path of its step. */
  answering = $state("");
  /** Why the last act on the run was refused. */
  error = $state.raw<RpcError | null>(null);
  /** The events are not on this device: the rows come from the results. */
  coarse = $state(false);

  #journal = new Journal();
  #lastSeq = 0;
  /** The highest number that was heard of. */
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

  /** A dry run, which has no events: its rows are made from its answer. */
  static ofResult(result: ExecuteResult, over: Partial<Execution> = {}): RunFeed {
    const feed = new RunFeed(null, result.executionId);
    feed.run.data = { ...blank, ...result, ...over };
    feed.#journal = Journal.fromResults(result, feed.run.data.skill);
    feed.coarse = true;
    feed.tick++;
    return feed;
  }

  // Plain getters: what is derived belongs to whoever made it, and a run outlives the component
  // that looked at it first.
  get status(): string {
    void this.tick;
    const told = this.run.data?.status ?? "queued";
    // The journal is ahead of what was read, never behind its end.
    return !isOpen(told) || this.coarse || this.#lastSeq === 0 ? told : this.#journal.status;
  }
  get over(): boolean {
    return !isOpen(this.status);
  }
  get waits(): readonly Wait[] {
    return this.over ? [] : (this.run.data?.waits ?? []);
  }
  /** The rows that are shown, as they are at this tick. */
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

  /** Starts to listen and reads what has happened so far. */
  async open(): Promise<void> {
    const rpc = this.#rpc;
    if (rpc === null || this.#offs.length > 0) return;
    this.#offs = [
      rpc.on("skills.run_event", (e) => {
        if (e.executionId === this.id) this.#take(e);
        // A skill inside this one asks or is answered: its questions are told by this run.
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

  /** Reads the run, and the events that are missing. */
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

  /** The run's own words about its steps, where they are as new as the events. */
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
    // What is too large to be told is read, as what was lost is.
    if ((e.data as { truncated?: unknown } | null)?.truncated !== true) this.#ahead.set(e.seq, e);
    this.#applyAhead();
    if (this.#lastSeq < this.#heard) void this.#catchUp();
  }

  #applyAhead(): void {
    // Before the definition is known the rows would be in a wrong order.
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

  /** Reads events until none is missing. */
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
          // They are not on this device: the run came by sync, or its journal was cleared.
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

  /** Shows the rows as they are now. */
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
