/** Failure texts: what ended a run, at which limit, and the control that changes it. */
import { duration } from "../../lib/ui/format";
import type { Profile } from "../../lib/run/capabilities";
import { t } from "./messages";
import { profileInfo } from "./profiles";

/** The limits and figures of one run, all optional because a refused run has none. */
export interface RunFigures {
  executionTimeMs?: number;
  cpuTimeMs?: number;
  memoryUsedMb?: number;
  wallLimitMs?: number;
  cpuLimitMs?: number;
  memoryLimitMb?: number;
  profile?: string;
  /** Positions in the tool's own text. */
  stack?: string;
  /** What the error class adds, for example the reason of a refusal. */
  details?: unknown;
}

/** Where the control that changes the outcome lives. */
export type FailureAction = "code" | "profile" | "capabilities" | "params" | "approvals" | "retry" | "wait";

/** A failure as the interface shows it. */
export interface Failure {
  /** What happened, a few words. */
  title: string;
  /** The limit and the value reached, or the tool's own error. */
  text: string;
  /** What to change. */
  hint: string;
  action: FailureAction;
  /** It ended as the person wanted. */
  calm?: boolean;
  /** Line of the tool's source that the stack names, from 1. */
  line?: number;
  column?: number;
}

/** The profile above one, or null at the top. */
export function widerProfile(profile: string | undefined): Profile | null {
  if (profile === "strict") return "standard";
  if (profile === "standard" || profile === undefined || profile === "") return "permissive";
  return null;
}

/** The first position in the tool's own lines: where the compiler stopped, or the innermost frame of a stack. */
export function failureLine(stack: string, details?: unknown): { line: number; column?: number } | null {
  const d = (details ?? {}) as { line?: unknown; column?: unknown };
  if (typeof d.line === "number" && d.line > 0) return typeof d.column === "number" && d.column > 0 ? { line: d.line, column: d.column } : { line: d.line };
  const m = /(?:\.(?:ts|js|tsx|mjs)|<tool>|<input>|tool):(\d+)(?::(\d+))?/.exec(stack) ?? /^\s*at [^\n]*?:(\d+)(?::(\d+))?\)?$/m.exec(stack);
  if (!m) return null;
  const line = Number(m[1]);
  if (line < 1) return null;
  return m[2] === undefined ? { line } : { line, column: Number(m[2]) };
}

const of = (used: number | undefined, limit: number | undefined, show: (n: number) => string): string =>
  limit === undefined ? (used === undefined ? "" : show(used)) : used === undefined ? show(limit) : t.of(show(used), show(limit));

const megabytes = (n: number): string => t.megabytes(n < 10 ? Math.round(n * 10) / 10 : Math.round(n));

/**
 * Says in words why a run failed. `errorClass` is the sandbox's class; `error` is the
 * text that came with it and is shown as the tool's own words.
 */
export function describeFailure(errorClass: string | undefined, error: string | undefined, f: RunFigures = {}): Failure {
  const text = (error ?? "").trim();
  const at = failureLine(f.stack ?? "", f.details);
  const words = t.failures;
  const simple = (w: { title: string; hint: string }, action: FailureAction): Failure => ({ text, ...w, action });
  const limit = (w: { title: string; text: (used: string) => string }, used: string, instead: string): Failure => {
    const wider = widerProfile(f.profile);
    return { title: w.title, text: w.text(used), hint: wider === null ? words.widest(instead) : words.wider(profileInfo(wider).label, instead), action: "profile" };
  };
  switch (errorClass) {
    case "compile":
      return { ...simple(at === null ? words.compile : words.syntax, "code"), ...at };
    case "missing_export":
      return { ...words.missingExport, text: text || words.missingExport.text, action: "code" };
    case "thrown":
      return { ...simple(words.thrown, "code"), ...at };
    case "trap":
      return { ...words.crashed, text: text || words.crashed.text, action: "code", ...at };
    case "timeout":
      return limit(words.timeout, of(f.executionTimeMs, f.wallLimitMs, duration), words.waitLess);
    case "cpu":
      return { title: words.cpu.title, text: words.cpu.text(of(f.cpuTimeMs, f.cpuLimitMs, duration)), hint: words.cpu.hint, action: "code" };
    case "memory":
      return limit(words.memory, of(f.memoryUsedMb, f.memoryLimitMb, megabytes), words.smallerPieces);
    case "output":
      return simple(words.output, "code");
    case "input":
    case "invalid":
      return simple(words.input, "params");
    case "host_denied":
      return refused(simple, f.details);
    case "denied":
      return simple(words.denied, "capabilities");
    case "canceled":
      return { ...words.canceled, action: "retry", calm: true };
    case "unavailable":
      return simple(words.unavailable, "wait");
    case "limit":
      return simple(words.limit, "wait");
    default:
      return { ...words.other, text: text || words.other.text, action: "retry", ...at };
  }
}

function refused(simple: (w: { title: string; hint: string }, action: FailureAction) => Failure, details: unknown): Failure {
  const reason = (details as { reason?: string } | null | undefined)?.reason;
  if (reason === "limit") return simple(t.failures.requests, "code");
  if (reason === "address") return simple(t.failures.address, "code");
  return simple(reason === "path" ? t.failures.path : t.failures.access, "capabilities");
}
