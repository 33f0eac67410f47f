import { asError, type RpcError } from "../../lib/rpc/errors";
import type { EventData, Rpc } from "../../lib/rpc";
import { describeFailure, type Failure } from "./failures";
import type { LogLine, RunLimits, RunResult, Skill } from "./types";

export type RunPhase = "idle" | "running" | "queued" | "waiting" | "done";

/** Log lines that are kept; the backend caps a run's logs at 64 KiB anyway. */
const MAX_LOGS = 2000;
const TICK_MS = 100;

/** The limits that a run of a skill has; the answer of a run tells them exactly. */
export function limitsOf(skill: Pick<Skill, "timeoutMs" | "memoryMb">): RunLimits {
  return {
    wallMs: skill.timeoutMs,
    cpuMs: Math.min(5000, skill.timeoutMs),
    memoryBytes: skill.memoryMb * 1024 * 1024,
    inputBytes: 4 * 1024 * 1024,
    outputBytes: 1024 * 1024,
    logBytes: 64 * 1024,
    hostCalls: 1000,
  };
}

/**
 * One run of a skill, from its start to its result: live logs, elapsed time against the
 * limits, waiting for an answer, cancelling, and the failure in words.
 */
export class SkillRun {
  phase = $state<RunPhase>("idle");
  skill = $state.raw<Skill | null>(null);
  logs = $state.raw<readonly LogLine[]>([]);
  result = $state.raw<RunResult | null>(null);
  /** The call itself was refused, so nothing ran. */
  refusal = $state.raw<RpcError | null>(null);
  failure = $state.raw<Failure | null>(null);
  executionId = $state("");
  elapsedMs = $state(0);
  canceling = $state(false);
  /** An approval that the run waits for, or that it left behind. */
  pendingApprovalId = $state("");
  limits = $state.raw<RunLimits>(limitsOf({ timeoutMs: 5000, memoryMb: 128 }));
  /** The input as it is typed; kept while another skill is looked at. */
  input = $state("");
  params = $state.raw<Record<string, unknown> | null>(null);

  // A getter: what is derived would belong to the component that first asks for the run, and go stale with it.
  get active(): boolean {
    return this.phase === "running" || this.phase === "waiting" || this.phase === "queued";
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

  /** Starts a run. One that is going on is not replaced: cancel it first. */
  async start(skill: Skill, input: unknown): Promise<RunResult | null> {
    if (this.active) return null;
    this.#forget();
    const turn = ++this.#turn;
    this.phase = "running";
    this.skill = skill;
    this.limits = limitsOf(skill);
    this.#count();
    this.#off = this.#rpc.on("skills.execution_changed", (e) => this.#event(e));
    const abort = new AbortController();
    this.#abort = abort;
    try {
      const result = (await this.#rpc.call("skills.execute", { skillId: skill.id, ...(input === undefined ? {} : { input }), interactive: true }, { signal: abort.signal })) as RunResult;
      if (turn !== this.#turn) return null;
      this.#finish(result);
      return result;
    } catch (e) {
      if (turn === this.#turn) this.#refuse(asError(e));
      return null;
    } finally {
      if (turn === this.#turn) this.#end();
    }
  }

  /** Counts the time of the run; waiting for a person or a place is not part of it. */
  #count(): void {
    let last = this.#now();
    this.#tick = setInterval(() => {
      const now = this.#now();
      if (this.phase === "running") this.elapsedMs += now - last;
      last = now;
    }, TICK_MS);
  }

  #event(e: EventData<"skills.execution_changed">): void {
    if (e.skillId !== this.skill?.id) return;
    if (this.executionId === "") {
      if (e.status !== "running") return;
      this.executionId = e.executionId;
    }
    if (e.executionId !== this.executionId || e.seq <= this.#seen) return;
    this.#seen = e.seq;
    if (e.log) this.logs = [...(this.logs.length >= MAX_LOGS ? this.logs.slice(1) : this.logs), e.log];
    if (e.status !== "running" || !this.active) return;
    this.phase = e.waiting === "approval" ? "waiting" : e.waiting === "queued" ? "queued" : "running";
  }

  #finish(r: RunResult): void {
    this.result = r;
    this.executionId = r.executionId;
    this.pendingApprovalId = r.pendingApprovalId ?? "";
    this.limits = r.limits;
    // The answer holds every line; events may have been dropped on a slow connection.
    if (r.logs.length >= this.logs.length) this.logs = r.logs;
    this.elapsedMs = r.executionTimeMs;
    if (!r.success) this.failure = describeFailure(r.errorClass, r.error, r.limits, r, r.errorDetails);
  }

  #refuse(error: RpcError): void {
    this.refusal = error;
    const details = error.details as { pendingApprovalId?: string } | undefined;
    this.pendingApprovalId = details?.pendingApprovalId ?? "";
    this.failure = describeFailure(error.kind, error.message, this.limits, {}, error.details);
  }

  #end(): void {
    clearInterval(this.#tick);
    this.#off?.();
    this.#off = null;
    this.#abort = null;
    this.canceling = false;
    this.phase = "done";
  }

  /** Asks the backend to stop the run; the call then ends with what it has. */
  async cancel(): Promise<void> {
    if (!this.active || this.canceling) return;
    this.canceling = true;
    if (this.executionId === "") {
      this.#abort?.abort();
      return;
    }
    try {
      const { canceled } = await this.#rpc.call("skills.cancel", { executionId: this.executionId });
      if (!canceled) this.#abort?.abort();
    } catch {
      this.#abort?.abort();
    }
  }

  /** The run waits for a person: a prompt was made for it. */
  waitFor(approvalId: string): void {
    if (!this.active) return;
    this.phase = "waiting";
    this.pendingApprovalId = approvalId;
  }

  /** The prompt was answered. */
  resumed(): void {
    if (this.phase === "waiting") this.phase = "running";
  }

  #forget(): void {
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
