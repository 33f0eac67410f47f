import { RpcError, type Result, type Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import { findRun, scheduleRuns, type ScheduleRuns } from "./history";
import { t } from "./messages";
import type { Preview, Run, Schedule } from "./types";
import { isOpen } from "../../lib/run/states";

export type InspectorTab = "overview" | "runs";

/** One run with its output. */
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

  /** Shows a run; its data in a list is shown at once. */
  show(scheduleId: string, runId: string, known?: Run): void {
    if (runId === this.runId) {
      if (known) this.run.data = known;
      return;
    }
    this.run.clear();
    this.output.clear();
    this.scheduleId = scheduleId;
    this.runId = runId;
    this.run.data = known;
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

/** The selected schedule: its details, its next times, and its runs. */
export class ScheduleInspector {
  id = $state<string | null>(null);
  tab = $state<InspectorTab>("overview");
  readonly schedule = new Load<Schedule>();
  /** The next times, which are not part of the schedule itself. */
  readonly next = new Load<Preview>();
  history = $state.raw<ScheduleRuns | null>(null);
  readonly #rpc: Rpc;
  #soon: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  show(id: string | null, known: Schedule | null = null): void {
    if (id === this.id) return;
    this.id = id;
    this.schedule.clear();
    this.next.clear();
    this.schedule.data = known ?? undefined;
    this.history?.stop();
    this.history = id === null ? null : scheduleRuns(this.#rpc, id);
    if (id === null) return;
    void this.read();
    if (this.tab === "runs") void this.history?.page.reload();
  }

  setTab(tab: InspectorTab): void {
    this.tab = tab;
    if (tab === "runs" && this.history?.page.first) void this.history.page.reload();
  }

  async read(): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.schedule.run((signal) => this.#rpc.call("schedules.get", { scheduleId: id }, { signal }));
    const s = this.schedule.data;
    if (this.id !== id || !s || s.needsNewer) return;
    await this.next.run((signal) => this.#rpc.call("schedules.preview", { cadence: s.cadence, count: 5 }, { signal }));
  }

  /** A schedule changed: reads again in a moment if it is the shown one. */
  touched(id: string | null): void {
    if (this.id === null || (id !== null && id !== this.id)) return;
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => {
      void this.read();
      if (this.tab === "runs") void this.history?.page.reload();
    }, 80);
  }

  stop(): void {
    clearTimeout(this.#soon);
    this.history?.stop();
  }
}
