/** Where code runs and what is missing around it, in plain words. */

/** A place in plain words. */
export interface IsolationWords {
  /** A few words, for a badge. */
  short: string;
  /** A sentence. */
  text: string;
}

const isolations: Record<string, IsolationWords> = {
  inprocess: { short: "Inside Helix", text: "Runs inside Helix on a metered engine, with no files, no network and limited memory." },
  process: { short: "Own process", text: "Runs in a separate process with no access, which ends with the run." },
  "process+landlock": { short: "Process, Landlock", text: "Runs in a separate process restricted by Landlock: the system blocks all files and connections." },
  "process+landlock+bwrap": { short: "Process, Landlock, bubblewrap", text: "Runs in a separate process restricted by Landlock, inside an empty bubblewrap container." },
};

/** Where a module runs. */
export const isolationWords = (isolation: string): IsolationWords => isolations[isolation] ?? { short: isolation || "Unknown", text: "" };

/** A missing layer: what it means and what to do about it. */
export interface ReasonWords {
  text: string;
  /** What would change it; empty when nothing can. */
  help: string;
}

const reasons: Record<string, ReasonWords> = {
  landlock_unavailable: { text: "Landlock is missing, so the system doesn't block files and connections.", help: "It needs Linux 5.13 or later with Landlock enabled." },
  landlock_partial: { text: "Landlock blocks files here, but not connections.", help: "Linux 6.7 or later blocks connections too." },
  bwrap_missing: { text: "bubblewrap is not installed, so there is no empty container around the process.", help: "Install the package bubblewrap, then restart Helix." },
  bwrap_blocked: { text: "bubblewrap is installed, but the system doesn't allow it to create a container.", help: "Allow user namespaces for it, then restart Helix." },
  jobobject_failed: { text: "Windows refused a job object, so only the engine limits the memory of the process.", help: "Start Helix directly rather than from a program that runs it in a job." },
  engine_unavailable: { text: "The engine is not ready.", help: "Run make engines, then restart Helix." },
  worker_unavailable: { text: "The separate process can't be started.", help: "Reinstall the helix program, then restart Helix." },
  below_min_isolation: { text: "This computer's isolation is weaker than the setting requires, so third-party modules don't run.", help: "Add the missing layers, or choose a weaker isolation below." },
  off: { text: "It is turned off.", help: "" },
  not_built: { text: "Not available in this version of Helix.", help: "" },
};

/** What a reason of weaker isolation means. A reason nobody knows is shown as it is. */
export const reasonWords = (reason: string): ReasonWords => reasons[reason] ?? { text: reason.replaceAll("_", " "), help: "" };

/** Layers that are missing around the process. */
const missing: Record<string, string> = { landlock_unavailable: "Landlock", bwrap_missing: "bubblewrap", bwrap_blocked: "bubblewrap", jobobject_failed: "a job object" };
/** Reasons why nothing of others runs at all. */
const stopped: readonly string[] = ["worker_unavailable", "below_min_isolation"];

/** What modules of others run without, for a line: "Modules run without bubblewrap". "" when nothing is missing. */
export function missingWords(reasons: readonly string[]): string {
  if (reasons.some((r) => stopped.includes(r))) return "Third-party modules don't run";
  const without = [...new Set(reasons.map((r) => missing[r]).filter((w) => w !== undefined))];
  const parts = [...(without.length > 0 ? [`without ${without.join(" and ")}`] : []), ...(reasons.includes("landlock_partial") ? ["with Landlock for files only"] : [])];
  return parts.length > 0 ? `Modules run ${parts.join(", ")}` : "";
}
