/** Why a run failed, in words: what ended it, at which limit, and the control that changes that. */
import { bytes, duration } from "../ui/format";
import type { Profile } from "./capabilities";
import { t } from "./messages";

/** The limits of a run. */
export interface RunLimits {
  wallMs: number;
  cpuMs: number;
  memoryMb: number;
  outputBytes?: number;
}

/** What a run used and its limits, all optional because a refused run has none. */
export interface RunFigures {
  /** The run was of a WASM module; otherwise of code, whose profile sets the limits. */
  module?: boolean;
  profile?: string;
  limits?: Partial<RunLimits>;
  executionTimeMs?: number;
  cpuTimeMs?: number;
  memoryUsedMb?: number;
  /** Positions in the tool's source. */
  stack?: string;
  /** Details of the error class, for example the reason for a refusal. */
  details?: unknown;
}

/** The place of the control that changes the outcome. */
export type FailureAction = "code" | "profile" | "capabilities" | "input" | "timeout" | "memory" | "module" | "enable" | "approvals" | "settings" | "retry";

/** A failure in the form that the interface shows. */
export interface Failure {
  /** What happened, in a few words. */
  title: string;
  /** The limit and the value reached, or the tool's own message. */
  text: string;
  /** What to change. */
  hint: string;
  action: FailureAction;
  /** The run ended as the person wanted. */
  calm?: boolean;
  /** Line in the tool's source, starting at 1. */
  line?: number;
  column?: number;
}

/** The maximum limits of a module; those of code are set by profiles. */
const MOST = { wallMs: 60_000, cpuMs: 5000, memoryMb: 256 };

/** The next less strict profile, or null. */
export function widerProfile(profile: string | undefined): Profile | null {
  if (profile === "strict") return "standard";
  if (profile === "standard" || profile === undefined || profile === "") return "permissive";
  return null;
}

/** The first position in the tool's own code: where the compiler stopped, or the innermost frame of a stack. */
export function failureLine(stack: string, details?: unknown): { line: number; column?: number } | null {
  const d = (details ?? {}) as { line?: unknown; column?: unknown };
  if (typeof d.line === "number" && d.line > 0) return typeof d.column === "number" && d.column > 0 ? { line: d.line, column: d.column } : { line: d.line };
  const m = /(?:\.(?:ts|js|tsx|mjs)|<tool>|<input>|tool):(\d+)(?::(\d+))?/.exec(stack) ?? /^\s*at [^\n]*?:(\d+)(?::(\d+))?\)?$/m.exec(stack);
  if (!m) return null;
  const line = Number(m[1]);
  if (line < 1) return null;
  return m[2] === undefined ? { line } : { line, column: Number(m[2]) };
}

const usedOf = (used: number | undefined, limit: number | undefined, show: (n: number) => string): string =>
  limit === undefined ? (used === undefined ? "" : show(used)) : used === undefined ? show(limit) : t.of(show(used), show(limit));

/** 1.5 MB, 64 MB. */
export const megabytes = (n: number): string => t.megabytes(n < 10 ? Math.round(n * 10) / 10 : Math.round(n));

/** The title of a kind of error, used if nothing else is known about the run. */
export const failureTitle = (kind: string): string => (t.failureKinds as Record<string, string>)[kind] ?? t.failureKinds.internal;

type Words = { title: string; hint: string };

/**
 * Describes in words why a run failed. `errorClass` is the sandbox's class, or the kind of the error that
 * refused the call; `error` is its message, shown as the tool's own words.
 */
export function describeFailure(errorClass: string | undefined, error: string | undefined, f: RunFigures = {}): Failure {
  const text = (error ?? "").trim();
  const at = f.module ? null : failureLine(f.stack ?? "", f.details);
  const words = t.failures;
  const own = f.module ? words.ofModule : words.ofCode;
  const source: FailureAction = f.module ? "module" : "code";
  const simple = (w: Words, action: FailureAction): Failure => ({ text, ...w, action });
  switch (errorClass) {
    case "compile":
      return { ...simple(f.module ? words.ofModule.compile : at === null ? words.compile : words.syntax, source), ...at };
    case "missing_export":
      return { title: words.missingExport.title, text: text || words.missingExport.text, hint: own.missingExport, action: source };
    case "thrown":
      return { ...simple({ title: own.thrown, hint: own.again }, f.module ? "input" : "code"), ...at };
    case "trap":
      return crashed(text, f, at);
    case "timeout":
    case "cpu":
    case "memory":
      return limited(errorClass, f);
    case "output":
      return simple({ title: words.output, hint: f.module ? words.ofModule.output(f.limits?.outputBytes ? bytes(f.limits.outputBytes) : "") : words.ofCode.output }, source);
    case "input":
    case "invalid":
      return simple(words.input, "input");
    case "host_denied":
      return accessDenied(simple, f, own.access);
    case "denied":
      return denied(simple, f.details);
    case "canceled":
      return { ...words.canceled, action: "retry", calm: true };
    case "unavailable":
      return simple(words.unavailable, "settings");
    case "limit":
    case "not_found":
      return simple(words[errorClass], "retry");
    default:
      return { title: words.other.title, text: text || words.other.text, hint: own.again, action: "retry", ...at };
  }
}

function crashed(text: string, f: RunFigures, at: { line: number; column?: number } | null): Failure {
  const exit = (f.details as { exitCode?: number } | null | undefined)?.exitCode;
  if (f.module && exit) return { title: t.failures.exit.title(exit), text, hint: t.failures.exit.hint, action: "input" };
  const own = f.module ? t.failures.ofModule : t.failures.ofCode;
  return { title: own.crashed, text: text || t.failures.stopped, hint: f.module ? own.again : t.failures.ofCode.recursion, action: f.module ? "module" : "code", ...at };
}

/**
 * A limit was reached. It can be raised in the form of a module, or with the profile of code; no profile has
 * more CPU time.
 */
function limited(limit: "timeout" | "cpu" | "memory", f: RunFigures): Failure {
  const { title, text } = t.failures[limit];
  const max = f.limits ?? {};
  const used = {
    timeout: usedOf(f.executionTimeMs, max.wallMs, duration),
    cpu: usedOf(f.cpuTimeMs, max.cpuMs, duration),
    memory: usedOf(f.memoryUsedMb, max.memoryMb, megabytes),
  }[limit];
  const failure = (hint: string, action: FailureAction): Failure => ({ title, text: text(used), hint, action });
  if (f.module) {
    const atMost = { timeout: (max.wallMs ?? 0) >= MOST.wallMs, cpu: (max.cpuMs ?? 0) >= MOST.cpuMs, memory: (max.memoryMb ?? 0) >= MOST.memoryMb }[limit];
    const words = t.failures.ofModule[limit];
    return failure(atMost ? words.most : words.more, limit === "memory" ? "memory" : limit === "cpu" && atMost ? "input" : "timeout");
  }
  const words = t.failures.ofCode;
  if (limit === "cpu") return failure(words.cpu, "code");
  const wider = widerProfile(f.profile);
  return failure(wider === null ? words.widest(words[limit]) : words.wider(wider, words[limit]), "profile");
}

type Simple = (words: Words, action: FailureAction) => Failure;

function denied(simple: Simple, details: unknown): Failure {
  const d = details as { reason?: string; pendingApprovalId?: string } | null | undefined;
  if (d?.reason === "disabled") return { ...simple(t.failures.disabled, "enable"), text: "" };
  return d?.pendingApprovalId ? simple(t.failures.pending, "approvals") : simple(t.failures.denied, "capabilities");
}

function accessDenied(simple: Simple, f: RunFigures, access: Words): Failure {
  const reason = (f.details as { reason?: string } | null | undefined)?.reason;
  const here: FailureAction = f.module ? "input" : "code";
  if (reason === "limit") return simple(t.failures.requests, here);
  if (reason === "address") return simple(t.failures.address, here);
  return simple(reason === "path" ? t.failures.path : access, "capabilities");
}
