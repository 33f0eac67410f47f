import { asError, RpcError } from "../../lib/rpc/errors";
import type { Rpc } from "../../lib/rpc";
import { describeFailure, type Failure, type RunFigures, type RunLimits } from "../../lib/run/failures";
import { isOpen } from "../../lib/run/states";
import { readRuns } from "./history";
import { limitsFor } from "./profiles";
import type { LogLine, RunResult, Tool, ToolLimits } from "./types";
import { resultOf, type ModuleResult } from "./wasm/module";

/** What to run: a stored tool, a module, or the unsaved text of a tool. */
export interface RunTarget {
  toolId?: string;
  isModule?: boolean;
  name: string;
  version?: string;
  /** For code: the profile that sets its limits. */
  profile?: string;
  limits: RunLimits;
  draft?: {
    code: string;
    language: Tool["language"];
    parameters: unknown;
    capabilities: string[];
    sandboxProfile: Tool["sandboxProfile"];
    limits?: ToolLimits;
  };
}

export type RunPhase = "idle" | "queued" | "running" | "waiting" | "done";

/** A progress event of a run, of code or of a module. */
interface Progress {
  executionId: string;
  toolId: string;
  seq: number;
  state: string;
  log?: LogLine;
}

/** The number of log lines kept; the backend limits a run's logs to 64 KiB anyway. */
const MAX_LOGS = 2000;
const TICK_MS = 100;
/** The tool id in events about a draft. */
export const NO_TOOL = "00000000-0000-0000-0000-000000000000";

/**
 * One run, from its start to its result: live logs, elapsed time compared with the limits, waiting for an
 * answer to a permission prompt, canceling, and the failure in words.
 */
export class ToolRun {
  phase = $state<RunPhase>("idle");
  target = $state.raw<RunTarget | null>(null);
  params = $state.raw<unknown>({});
  logs = $state.raw<readonly LogLine[]>([]);
  result = $state.raw<RunResult | null>(null);
  /** The call itself was refused, so nothing ran. */
  refusal = $state.raw<RpcError | null>(null);
  failure = $state.raw<Failure | null>(null);
  executionId = $state("");
  elapsedMs = $state(0);
  canceling = $state(false);
  /** The approval that the run waits for or left behind. */
  pendingApprovalId = $state("");
  limits = $state.raw<RunLimits>(limitsFor("standard"));

  // Getters: derived state would belong to the component that first uses the run, and become stale with it.
  get active(): boolean {
    return isOpen(this.phase);
  }
  get isDraft(): boolean {
    return this.target?.draft !== undefined;
  }

  readonly #rpc: Rpc;
  readonly #now: () => number;
  #abort: AbortController | null = null;
  #tick: ReturnType<typeof setInterval> | undefined;
  #seen = -1;
  #turn = 0;
  #off: (() => void) | null = null;

  constructor(rpc: Rpc, now: () => number = Date.now) {
    this.#rpc = rpc;
    this.#now = now;
  }

  /** Starts a run. An active run is not replaced: cancel it first. */
  async start(target: RunTarget, params: unknown): Promise<RunResult | null> {
    if (this.active) return null;
    const turn = ++this.#turn;
    this.clear();
    this.#turn = turn;
    this.phase = "running";
    this.target = target;
    this.params = params;
    this.limits = target.limits;
    this.#count();
    this.#off = this.#listen(target, (e) => this.#event(e));
    const abort = new AbortController();
    this.#abort = abort;
    try {
      const result = await this.#call(target, params, abort.signal);
      if (turn !== this.#turn) return null;
      this.#finish(result);
      return result;
    } catch (e) {
      if (turn !== this.#turn) return null;
      this.#refuse(asError(e));
      return null;
    } finally {
      if (turn === this.#turn) this.#end();
    }
  }

  /** Measures the time of the run; waiting for a person does not count. */
  #count(): void {
    let last = this.#now();
    this.elapsedMs = 0;
    this.#tick = setInterval(() => {
      const now = this.#now();
      if (this.phase === "running") this.elapsedMs += now - last;
      last = now;
    }, TICK_MS);
  }

  async #call(target: RunTarget, params: unknown, signal: AbortSignal): Promise<RunResult> {
    if (!target.isModule) return this.#rpc.call("tools.execute_custom", this.#request(target, params), { signal });
    const input = { skillId: target.toolId ?? "", ...(params === undefined ? {} : { input: params }), interactive: true };
    return resultOf((await this.#rpc.call("skills.execute", input, { signal })) as ModuleResult);
  }

  /** Listens to the runs of the target's kind. Returns a function that stops it. */
  #listen(target: RunTarget, hear: (e: Progress) => void): () => void {
    if (!target.isModule) return this.#rpc.on("tools.execution", hear);
    return this.#rpc.on("skills.execution_changed", ({ skillId, status, waiting, ...e }) =>
      hear({ ...e, toolId: skillId, state: status !== "running" ? status : waiting === "approval" ? "waiting" : waiting === "queued" ? "queued" : "running" }),
    );
  }

  #request(target: RunTarget, params: unknown) {
    if (target.draft === undefined) {
      return { ...(target.toolId === undefined ? {} : { toolId: target.toolId }), params, interactive: true, ...(target.version === undefined ? {} : { version: target.version }) };
    }
    const { code, language, ...draft } = target.draft;
    return { code, language, params, interactive: true, metadata: { name: target.name }, draft };
  }

  #event(e: Progress): void {
    // A draft has no id of its own: its events have the zero id.
    if (e.toolId !== (this.isDraft ? NO_TOOL : this.target?.toolId)) return;
    if (this.executionId === "") {
      if (!isOpen(e.state)) return;
      this.executionId = e.executionId;
    }
    if (e.executionId !== this.executionId || e.seq <= this.#seen) return;
    this.#seen = e.seq;
    if (e.log) this.#log(e.log);
    if (isOpen(e.state) && this.active) this.phase = e.state as RunPhase;
  }

  #log(line: LogLine): void {
    const logs = this.logs.length >= MAX_LOGS ? this.logs.slice(1) : this.logs;
    this.logs = [...logs, line];
  }

  #finish(result: RunResult): void {
    this.result = result;
    this.executionId = result.executionId;
    this.pendingApprovalId = result.pendingApprovalId ?? "";
    // The result contains every line; events may have been dropped on a slow connection.
    if (result.logs.length >= this.logs.length) this.logs = result.logs;
    this.elapsedMs = result.executionTimeMs;
    this.limits = result.limits ?? this.limits;
    const { errorStack: stack, errorDetails: details, executionTimeMs, cpuTimeMs, memoryUsedMb } = result;
    if (!result.success) this.#fail(result.errorClass, result.error, { executionTimeMs, cpuTimeMs, memoryUsedMb, details, ...(stack === undefined ? {} : { stack }) });
  }

  #refuse(error: RpcError): void {
    this.refusal = error;
    const details = error.details as { pendingApprovalId?: string; executionId?: string } | undefined;
    this.pendingApprovalId = details?.pendingApprovalId ?? "";
    if (details?.executionId) this.executionId = details.executionId;
    this.#fail(error.kind, error.message, { details: error.details });
  }

  #fail(errorClass: string | undefined, error: string | undefined, figures: RunFigures): void {
    this.failure = describeFailure(errorClass, error, { ...figures, limits: this.limits, module: this.target?.isModule === true, profile: this.target?.profile ?? "standard" });
  }

  #end(): void {
    clearInterval(this.#tick);
    this.#off?.();
    this.#off = null;
    this.#abort = null;
    this.canceling = false;
    this.phase = "done";
  }

  /** Requests a cancel; the call then ends with a partial result. */
  async cancel(): Promise<void> {
    if (!this.active || this.canceling) return;
    this.canceling = true;
    if (this.executionId === "") {
      this.#abort?.abort();
      return;
    }
    try {
      const { canceled } = await this.#rpc.call(this.target?.isModule ? "skills.cancel" : "tools.cancel", { executionId: this.executionId });
      if (!canceled) this.#abort?.abort();
    } catch {
      this.#abort?.abort();
    }
  }

  /** The run waits for a person: there is a prompt for it. */
  waitFor(approvalId: string): void {
    if (!this.active) return;
    this.phase = "waiting";
    this.pendingApprovalId = approvalId;
  }

  /** The prompt was answered. */
  resumed(): void {
    if (this.phase === "waiting") this.phase = "running";
  }

  /** Shows a run that was started elsewhere, for example by answering an approval. */
  async follow(executionId: string): Promise<void> {
    const target = this.target;
    const toolId = target?.toolId;
    if (this.active || target === null || toolId === undefined) return;
    const params = this.params;
    this.clear();
    const turn = this.#turn;
    this.params = params;
    this.phase = "running";
    this.executionId = executionId;
    this.#count();
    const read = async (): Promise<void> => {
      const { items } = await readRuns(this.#rpc, { id: toolId, isModule: target.isModule === true }, { filters: { status: "" }, cursor: "", limit: 20 });
      const e = items.find((x) => x.id === executionId);
      if (e === undefined || turn !== this.#turn || !this.active) return;
      this.#finish({
        success: e.status === "success",
        output: e.output,
        ...(e.error === undefined ? {} : { error: e.error }),
        ...(e.errorClass === undefined ? {} : { errorClass: e.errorClass }),
        executionTimeMs: e.executionTimeMs,
        cpuTimeMs: e.cpuTimeMs,
        memoryUsedMb: e.memoryUsedMb,
        executionId,
        logs: [...this.logs],
      });
      this.#end();
    };
    this.#off = this.#listen(target, (e) => {
      this.#event(e);
      if (e.executionId === executionId && !isOpen(e.state)) void read().catch(() => {});
    });
    // It may have ended before this listener was added.
    await read().catch(() => {});
  }

  /** Runs the same thing again. */
  async again(): Promise<RunResult | null> {
    const target = this.target;
    return target === null ? null : this.start(target, this.params);
  }

  /** Clears the last run. Does not affect a run that is active in the backend. */
  clear(): void {
    this.#turn++;
    clearInterval(this.#tick);
    this.#off?.();
    this.#off = null;
    this.phase = "idle";
    this.logs = [];
    this.result = null;
    this.refusal = null;
    this.failure = null;
    this.executionId = "";
    this.elapsedMs = 0;
    this.canceling = false;
    this.pendingApprovalId = "";
    this.#seen = -1;
  }
}
