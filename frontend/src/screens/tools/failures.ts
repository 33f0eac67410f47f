/** Failure texts: what ended a run, at which limit, and the control that changes it. */

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
  /** Line of the tool's source that the stack names, from 1. */
  line?: number;
  column?: number;
}

/** The profile above one, or null at the top. */
export function widerProfile(profile: string | undefined): string | null {
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

function seconds(ms: number | undefined): string {
  if (ms === undefined) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`.replace(".0 s", " s");
}

function of(used: string, limit: string): string {
  if (used && limit) return `${used} of ${limit}`;
  return limit || used;
}

function widen(f: RunFigures, what: string): string {
  const wider = widerProfile(f.profile);
  return wider === null ? `The tool already has the widest profile: ${what}.` : `Choose the ${wider} profile in the editor, or ${what}.`;
}

/**
 * Says in words why a run failed. `errorClass` is the sandbox's class; `error` is the
 * text that came with it and is shown as the tool's own words.
 */
export function describeFailure(errorClass: string | undefined, error: string | undefined, f: RunFigures = {}): Failure {
  const text = (error ?? "").trim();
  const at = failureLine(f.stack ?? "", f.details);
  const where = at === null ? {} : at.column === undefined ? { line: at.line } : { line: at.line, column: at.column };
  switch (errorClass) {
    case "compile":
      return { title: "The code doesn't compile", text, hint: "Nothing ran. Fix the line, then run it again.", action: "code", ...where };
    case "missing_export":
      return {
        title: "Nothing to run",
        text: text || "The code has no entry.",
        hint: "Write export default function (params, helix) { … }.",
        action: "code",
      };
    case "thrown":
      return { title: "The tool stopped with an error", text, hint: "The logs were kept. Fix the code or the parameters, then run again.", action: "code", ...where };
    case "trap":
      return {
        title: "The tool crashed",
        text: text || "The engine stopped the tool.",
        hint: "This is often caused by deep recursion. The logs were kept.",
        action: "code",
        ...where,
      };
    case "timeout":
      return {
        title: "The run took too long",
        text: `Time limit reached${sentence(of(seconds(f.executionTimeMs), seconds(f.wallLimitMs)))}`,
        hint: widen(f, "make it wait for less"),
        action: "profile",
      };
    case "cpu":
      return {
        title: "The run used too much processor time",
        text: `CPU limit reached${sentence(of(seconds(f.cpuTimeMs), seconds(f.cpuLimitMs)))}`,
        hint: "Every profile has the same CPU limit: do less work in one run. Waiting does not count.",
        action: "code",
      };
    case "memory":
      return {
        title: "The run used too much memory",
        text: `Memory limit reached${sentence(of(mb(f.memoryUsedMb), mb(f.memoryLimitMb)))}`,
        hint: widen(f, "work on smaller pieces"),
        action: "profile",
      };
    case "output":
      return { title: "The result can't be returned", text, hint: "A result must be plain JSON of at most 1 MiB. Return less, or a simpler value.", action: "code" };
    case "input":
      return { title: "The input isn't valid", text, hint: "Nothing ran. Fix the input.", action: "params" };
    case "host_denied":
      return refused(text, f.details);
    case "denied":
      return { title: "The run was denied", text, hint: "Nothing ran. See Permissions for what is allowed and what needs an answer.", action: "capabilities" };
    case "canceled":
      return { title: "Canceled", text: "You stopped the run. Its log was kept.", hint: "Run it again at any time.", action: "retry" };
    case "unavailable":
      return { title: "The run couldn't start", text, hint: "Nothing ran. Try again in a moment; see Settings › Sandbox for what is missing.", action: "wait" };
    case "invalid":
      return { title: "The input isn't valid", text, hint: "Nothing ran. Fix the input.", action: "params" };
    case "limit":
      return { title: "A limit was reached", text, hint: "Wait for other runs to end, then run again.", action: "wait" };
    default:
      return { title: "The run failed", text: text || "No reason was given.", hint: "The logs were kept. Run it again, or edit the tool.", action: "retry", ...where };
  }
}

function refused(text: string, details: unknown): Failure {
  const reason = (details as { reason?: string } | null | undefined)?.reason;
  if (reason === "limit") return { title: "Too many requests", text, hint: "A run may make 1,000 calls to the host and 100 fetches. Ask for less in one run.", action: "code" };
  if (reason === "address") return { title: "The address was blocked", text, hint: "Private and local addresses are always blocked.", action: "code" };
  if (reason === "path") return { title: "The path was blocked", text, hint: "Only files below an allowed folder can be read; links out of it are not followed.", action: "capabilities" };
  return { title: "The tool was denied access", text, hint: "Allow it under Permissions, or remove it from the code.", action: "capabilities" };
}

function mb(v: number | undefined): string {
  return v === undefined ? "" : `${v < 10 ? v.toFixed(1).replace(".0", "") : Math.round(v)} MB`;
}

function sentence(text: string): string {
  return text === "" ? "." : `: ${text}.`;
}
