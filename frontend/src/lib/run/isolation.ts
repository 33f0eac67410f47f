/** Where code runs and what is missing around it, in plain words. */

/** A place in plain words. */
export interface IsolationWords {
  /** A few words, for a badge. */
  short: string;
  /** A sentence. */
  text: string;
}

const isolations: Record<string, IsolationWords> = {
  inprocess: { short: "Inside Helix", text: "It runs inside Helix on a metered engine: without files, without network, and with only the memory that it was given." },
  process: { short: "Own process", text: "It runs in a separate process that is given nothing and ends with the run." },
  "process+landlock": { short: "Process, Landlock", text: "It runs in a separate process, locked with Landlock: the system itself refuses it every file and every connection." },
  "process+landlock+bwrap": { short: "Process, Landlock, bubblewrap", text: "It runs in a separate process, locked with Landlock, inside an empty bubblewrap container." },
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
  landlock_unavailable: { text: "Landlock is missing, so the system itself does not refuse files and connections.", help: "A Linux kernel from 5.13 on with Landlock switched on has it." },
  landlock_partial: { text: "Landlock refuses files here, but not connections.", help: "A Linux kernel from 6.7 on refuses connections too." },
  bwrap_missing: { text: "bubblewrap is not installed, so there is no empty container around the process.", help: "Install the package bubblewrap, then restart Helix." },
  bwrap_blocked: { text: "bubblewrap is installed, but the system does not let it make a container.", help: "Allow user namespaces for it, then restart Helix." },
  jobobject_failed: { text: "Windows refused a job object, so only the engine limits the memory of the process.", help: "Start Helix by itself rather than from another program that holds it in a job." },
  engine_unavailable: { text: "The engine is not ready.", help: "Run make engines, then restart Helix." },
  worker_unavailable: { text: "The separate process cannot be started.", help: "Put the helix program back where it was installed, then restart Helix." },
  below_min_isolation: { text: "This computer isolates less than the setting asks for, so modules of others do not run.", help: "Add the missing layers, or choose a weaker isolation below." },
  off: { text: "It is switched off.", help: "" },
  not_built: { text: "This version of Helix does not have it.", help: "" },
};

/** What a reason of weaker isolation means. A reason nobody knows is shown as it is. */
export const reasonWords = (reason: string): ReasonWords => reasons[reason] ?? { text: reason.replaceAll("_", " "), help: "" };

/** Layers that are missing around the process. */
const missing: Record<string, string> = { landlock_unavailable: "Landlock", bwrap_missing: "bubblewrap", bwrap_blocked: "bubblewrap", jobobject_failed: "a job object" };
/** Reasons why nothing of others runs at all. */
const stopped: readonly string[] = ["worker_unavailable", "below_min_isolation"];

/** What modules of others run without, for a line: "Modules run without bubblewrap". "" when nothing is missing. */
export function missingWords(reasons: readonly string[]): string {
  if (reasons.some((r) => stopped.includes(r))) return "Modules of others do not run";
  const without = [...new Set(reasons.map((r) => missing[r]).filter((w) => w !== undefined))];
  const parts = [...(without.length > 0 ? [`without ${without.join(" and ")}`] : []), ...(reasons.includes("landlock_partial") ? ["with Landlock for files only"] : [])];
  return parts.length > 0 ? `Modules run ${parts.join(", ")}` : "";
}
