import { asError, type RpcError } from "../rpc/errors";
import { t } from "./messages";

/** The outcome of a call, in the words of any backend method that makes one. */
export interface CallOutcome {
  success: boolean;
  output?: unknown;
  error?: string;
  errorClass?: string;
  warnings?: readonly string[];
  pendingApprovalId?: string;
}

const tickMs = 100;

/** One call from a form: its elapsed time, canceling, and its outcome. `RunResult` shows it. */
export class CallRun {
  phase = $state<"idle" | "running" | "done">("idle");
  result = $state.raw<CallOutcome | null>(null);
  /** The call itself was refused, so nothing ran. */
  refusal = $state.raw<RpcError | null>(null);
  elapsedMs = $state(0);
  readonly logs: readonly { level: string; message: string }[] = [];
  #abort: AbortController | null = null;

  get active(): boolean {
    return this.phase === "running";
  }
  get failure(): { title: string; text: string; hint: string } | null {
    if (this.refusal) return { title: t.callRefused, text: this.refusal.message, hint: "" };
    return this.result && !this.result.success ? { title: t.callFailed, text: this.result.error ?? "", hint: "" } : null;
  }
  get pendingApprovalId(): string {
    const details = this.refusal?.details as { approvalId?: unknown; pendingApprovalId?: unknown } | undefined;
    const id = this.result?.pendingApprovalId ?? details?.approvalId ?? details?.pendingApprovalId;
    return typeof id === "string" ? id : "";
  }
  /** How it ended, as the status of a run. */
  get status(): string {
    if (!this.failure) return "success";
    return this.refusal?.kind === "canceled" || this.result?.errorClass === "canceled" ? "canceled" : "failure";
  }

  /** Makes the call. An active call is not replaced: cancel it first. */
  async start(call: (signal: AbortSignal) => Promise<CallOutcome>): Promise<void> {
    if (this.active) return;
    this.clear();
    const abort = (this.#abort = new AbortController());
    const began = Date.now();
    const tick = setInterval(() => (this.elapsedMs = Date.now() - began), tickMs);
    this.phase = "running";
    try {
      const result = await call(abort.signal);
      if (this.#abort === abort) this.result = result;
    } catch (e) {
      if (this.#abort === abort) this.refusal = asError(e);
    } finally {
      clearInterval(tick);
      if (this.#abort === abort) {
        this.elapsedMs = Date.now() - began;
        this.phase = "done";
      }
    }
  }

  cancel(): void {
    this.#abort?.abort();
  }

  /** Forgets the call, before another is prepared. */
  clear(): void {
    this.#abort?.abort();
    this.#abort = null;
    this.phase = "idle";
    this.result = null;
    this.refusal = null;
    this.elapsedMs = 0;
  }
}
