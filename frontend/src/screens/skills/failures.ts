/** Failure texts of module runs: what ended the run, at which limit, and the control that changes it. */
import { bytes, duration } from "../../lib/ui/format";
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

const sentence = (text: string): string => (text === "" ? "." : `: ${text}.`);
const of = (used: number | undefined, limit: number | undefined, show: (n: number) => string): string => {
  if (limit === undefined) return used === undefined ? "" : show(used);
  return used === undefined ? show(limit) : `${show(used)} of ${show(limit)}`;
};

/**
 * Says in words why a run failed. `errorClass` is the sandbox's class or the kind of the
 * refusal; `error` is the text that came with it.
 */
export function describeFailure(errorClass: string | undefined, error: string | undefined, limits?: Partial<RunLimits>, used: Used = {}, details?: unknown): Failure {
  const text = (error ?? "").trim();
  switch (errorClass) {
    case "timeout": {
      const most = (limits?.wallMs ?? 0) >= 60_000;
      return {
        title: "The run took too long",
        text: `Time limit reached${sentence(of(used.executionTimeMs, limits?.wallMs, duration))}`,
        hint: most ? "It already has the longest time limit, 60 s. Give it less to do in one run." : "Raise the time limit of the skill, up to 60 s, or give it less to do in one run.",
        action: "timeout",
      };
    }
    case "cpu": {
      const most = (limits?.cpuMs ?? 0) >= 5000;
      return {
        title: "The run used too much processor time",
        text: `CPU limit reached${sentence(of(used.cpuTimeMs, limits?.cpuMs, duration))}`,
        hint: most
          ? "A module gets at most 5 s of processor time in a run; waiting does not count. Give it less to do in one run."
          : "Its processor time ends with its time limit. Raise that, or give it less to do in one run.",
        action: most ? "input" : "timeout",
      };
    }
    case "memory": {
      const most = (limits?.memoryBytes ?? 0) >= 256 * 1024 * 1024;
      return {
        title: "The run used too much memory",
        text: `Memory limit reached${sentence(of(used.peakMemoryBytes, limits?.memoryBytes, bytes))}`,
        hint: most ? "It already has the largest memory, 256 MB. Give it smaller pieces." : "Choose more memory for the skill: 64, 128 or 256 MB.",
        action: "memory",
      };
    }
    case "trap": {
      const exit = (details as { exitCode?: number } | null | undefined)?.exitCode;
      if (exit) return { title: `It ended with exit code ${exit}`, text, hint: "Exit code 0 is success. Check its log, or try another input.", action: "input" };
      return { title: "The module crashed", text: text || "The engine stopped the module.", hint: "Its log was kept. Try another input, or replace the module with a corrected one.", action: "module" };
    }
    case "thrown":
      return { title: "The module stopped with an error", text, hint: "Its log was kept. Try another input, or replace the module with a corrected one.", action: "input" };
    case "output":
      return {
        title: "The output can't be used",
        text,
        hint: `A module writes one JSON value${limits?.outputBytes ? ` of at most ${bytes(limits.outputBytes)}` : ""} to standard output and everything else to standard error.`,
        action: "module",
      };
    case "input":
    case "invalid":
      return { title: "The input isn't valid", text, hint: "Nothing ran. Fix the input.", action: "input" };
    case "compile":
      return { title: "The module can't be used", text, hint: "Nothing ran. Replace the module with one that passes the check.", action: "module" };
    case "missing_export":
      return { title: "Nothing to run", text, hint: "A module exports execute() and memory, or _start. Replace it with one that does.", action: "module" };
    case "host_denied":
      return refused(text, details);
    case "denied":
      return denied(text, details);
    case "canceled":
      return { title: "Canceled", text: "You stopped the run. Its log was kept.", hint: "Run it again at any time.", action: "retry", calm: true };
    case "unavailable":
      return { title: "The run couldn't start", text, hint: "Nothing ran. See Settings › Sandbox for what is missing.", action: "settings" };
    case "limit":
      return { title: "Too many runs at once", text, hint: "Wait for other runs to end, then run again.", action: "retry" };
    case "not_found":
      return { title: "The skill no longer exists", text, hint: "It was deleted, here or on another device.", action: "retry" };
    default:
      return { title: "The run failed", text: text || "No reason was given.", hint: "Its log was kept. Run it again, or try another input.", action: "retry" };
  }
}

function denied(text: string, details: unknown): Failure {
  const d = details as { reason?: string; pendingApprovalId?: string } | null | undefined;
  if (d?.reason === "disabled") return { title: "The skill is disabled", text: "", hint: "Nothing ran. Enable it, then run it again.", action: "enable" };
  if (d?.pendingApprovalId) return { title: "The run needs your answer", text, hint: "Nothing ran. Answer the request, then run it again.", action: "approvals" };
  return { title: "The run was denied", text, hint: "Nothing ran. See Permissions for what is allowed and what needs an answer.", action: "capabilities" };
}

function refused(text: string, details: unknown): Failure {
  const reason = (details as { reason?: string } | null | undefined)?.reason;
  if (reason === "limit") return { title: "Too many requests", text, hint: "A run may call the host 1,000 times and make 100 requests. Ask for less in one run.", action: "input" };
  if (reason === "address") return { title: "The address was blocked", text, hint: "Private and local addresses are always blocked.", action: "input" };
  if (reason === "path") return { title: "The path was blocked", text, hint: "Only files below an allowed folder can be read; links out of it are not followed.", action: "capabilities" };
  return { title: "The module was denied access", text, hint: "Declare it in the tool's capabilities, then allow it when it runs.", action: "capabilities" };
}
