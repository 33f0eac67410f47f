import { RpcError, type Result, type Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import { findRun, RunHistory } from "./history.svelte";
import { t } from "./messages";
import type { Preview, Run, Schedule } from "./types";
import { isOpen } from "../../lib/run/states";

export type InspectorTab = "overview" | "runs";

/** One run with what it gave. */
export class RunDetail {
  runId = $state("");
  scheduleId = $state("");
  readonly run = new Load<Run>();
  readonly output = new Load<Result<"schedules.run_output">>();
  maxChars = $state(4000);
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Shows a run; what a list already knows of it is shown at once. */
  show(scheduleId: string, runId: string, known?: Run): void {
    if (runId === this.runId) {
      if (known) this.run.data = known;
      return;
    }
    this.run.cancel();
    this.output.cancel();
    this.scheduleId = scheduleId;
    this.runId = runId;
    this.run.data = known;
    this.run.error = undefined;
    this.output.data = undefined;
    this.output.error = undefined;
    this.maxChars = 4000;
    if (runId === "") return;
    if (known) void this.#readOutput();
    else void this.read();
  }

  async read(): Promise<void> {
    const { scheduleId, runId } = this;
    if (runId === "") return;
    await this.run.run(async (signal) => {
      const run = await findRun(this.#rpc, scheduleId, runId, signal);
      if (!run) throw new RpcError({ kind: "not_found", message: t.runGone });
      return run;
    });
    if (runId === this.runId) await this.#readOutput();
  }

  /** Reads more of a long output. */
  async all(): Promise<void> {
    this.maxChars = 8000;
    await this.#readOutput();
  }

  async #readOutput(): Promise<void> {
    const run = this.run.data;
    if (!run || isOpen(run.status) || run.status === "missed" || run.status === "skipped") {
      this.output.data = undefined;
      return;
    }
    await this.output.run((signal) => this.#rpc.call("schedules.run_output", { runId: run.runId, maxChars: this.maxChars }, { signal }));
  }
}

/** The chosen schedule: what it is, when it comes next, and its runs. */
export class ScheduleInspector {
  id = $state<string | null>(null);
  tab = $state<InspectorTab>("overview");
  readonly schedule = new Load<Schedule>();
  /** The next times, which the schedule itself does not carry. */
  readonly next = new Load<Preview>();
  readonly history: RunHistory;
  readonly #rpc: Rpc;
  #soon: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.history = new RunHistory(rpc);
  }

  show(id: string | null, known: Schedule | null = null): void {
    if (id === this.id) return;
    this.id = id;
    this.schedule.cancel();
    this.next.cancel();
    this.schedule.data = known ?? undefined;
    this.schedule.error = undefined;
    this.next.data = undefined;
    this.next.error = undefined;
    if (id === null) {
      this.history.stop();
      return;
    }
    void this.read();
    if (this.tab === "runs") this.history.show(id);
  }

  setTab(tab: InspectorTab): void {
    this.tab = tab;
    if (tab === "runs" && this.id !== null) this.history.show(this.id);
  }

  async read(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.schedule.run((signal) => this.#rpc.call("schedules.get", { scheduleId: id }, { signal }));
    const s = this.schedule.data;
    if (this.id !== id || !s || s.needsNewer) return;
    await this.next.run((signal) => this.#rpc.call("schedules.preview", { cadence: s.cadence, count: 5 }, { signal }));
  }

  /** Something happened to a schedule: reads again in a moment when it is the one that is shown. */
  touched(id: string | null): void {
    if (this.id === null || (id !== null && id !== this.id)) return;
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => {
      void this.read();
      if (this.tab === "runs") void this.history.reload();
    }, 80);
  }

  stop(): void {
    clearTimeout(this.#soon);
    this.history.stop();
  }
}
