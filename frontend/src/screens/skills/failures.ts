/** Failure texts of module runs: what ended the run, at which limit, and the control that changes it. */
import { bytes, duration } from "../../lib/ui/format";
import { t } from "./messages";
import type { RunLimits } from "./types";

/** Where the control that changes the outcome lives. */
export type FailureAction = "input" | "timeout" | "memory" | "capabilities" | "module" | "enable" | "approvals" | "settings" | "retry";

/** A failure as the interface shows it. */
export interface Failure {
  /** What happened, a few words. */
  title: string;
  /** The limit and the value reached, or the module's own words. */
  text: string;
  /** What to change. */
  hint: string;
  action: FailureAction;
  /** It ended as the person wanted. */
  calm?: boolean;
}

/** What a run used, as far as it is known. */
export interface Used {
  executionTimeMs?: number;
  cpuTimeMs?: number;
  peakMemoryBytes?: number;
  outputBytes?: number;
}

const of = (used: number | undefined, limit: number | undefined, show: (n: number) => string): string =>
  limit === undefined ? (used === undefined ? "" : show(used)) : used === undefined ? show(limit) : t.of(show(used), show(limit));

/**
 * Says in words why a run failed. `errorClass` is the sandbox's class or the kind of the
 * refusal; `error` is the text that came with it.
 */
export function describeFailure(errorClass: string | undefined, error: string | undefined, limits?: Partial<RunLimits>, used: Used = {}, details?: unknown): Failure {
  const text = (error ?? "").trim();
  const f = t.failures;
  const simple = (words: { title: string; hint: string }, action: FailureAction): Failure => ({ text, ...words, action });
  switch (errorClass) {
    case "timeout":
      return reached(f.timeout, of(used.executionTimeMs, limits?.wallMs, duration), (limits?.wallMs ?? 0) >= 60_000, "timeout");
    case "cpu": {
      const most = (limits?.cpuMs ?? 0) >= 5000;
      return reached(f.cpu, of(used.cpuTimeMs, limits?.cpuMs, duration), most, most ? "input" : "timeout");
    }
    case "memory":
      return reached(f.memory, of(used.peakMemoryBytes, limits?.memoryBytes, bytes), (limits?.memoryBytes ?? 0) >= 256 * 1024 * 1024, "memory");
    case "trap": {
      const exit = (details as { exitCode?: number } | null | undefined)?.exitCode;
      if (exit) return { title: f.exit.title(exit), text, hint: f.exit.hint, action: "input" };
      return { ...f.crashed, text: text || f.crashed.text, action: "module" };
    }
    case "thrown":
      return simple(f.thrown, "input");
    case "output":
      return { title: f.output.title, text, hint: f.output.hint(limits?.outputBytes ? bytes(limits.outputBytes) : ""), action: "module" };
    case "input":
    case "invalid":
      return simple(f.input, "input");
    case "compile":
    case "missing_export":
      return simple(f[errorClass], "module");
    case "host_denied":
      return refused(simple, details);
    case "denied":
      return denied(simple, details);
    case "canceled":
      return { ...f.canceled, action: "retry", calm: true };
    case "unavailable":
      return simple(f.unavailable, "settings");
    case "limit":
    case "not_found":
      return simple(f[errorClass], "retry");
    default:
      return { ...f.other, text: text || f.other.text, action: "retry" };
  }
}

type Simple = (words: { title: string; hint: string }, action: FailureAction) => Failure;

function reached(words: { title: string; text: (used: string) => string; hint: string; most: string }, used: string, most: boolean, action: FailureAction): Failure {
  return { title: words.title, text: words.text(used), hint: most ? words.most : words.hint, action };
}

function denied(simple: Simple, details: unknown): Failure {
  const d = details as { reason?: string; pendingApprovalId?: string } | null | undefined;
  if (d?.reason === "disabled") return { ...simple(t.failures.disabled, "enable"), text: "" };
  return d?.pendingApprovalId ? simple(t.failures.pending, "approvals") : simple(t.failures.denied, "capabilities");
}

function refused(simple: Simple, details: unknown): Failure {
  const reason = (details as { reason?: string } | null | undefined)?.reason;
  if (reason === "limit") return simple(t.failures.requests, "input");
  if (reason === "address") return simple(t.failures.address, "input");
  return simple(reason === "path" ? t.failures.path : t.failures.access, "capabilities");
}
