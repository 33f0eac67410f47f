/** Where code runs and which layers of isolation are missing, in plain words. */
import { lookup } from "../i18n";
import { t } from "./messages";

/** A place in plain words: a short form for a badge, and a sentence. */
export interface IsolationWords {
  short: string;
  text: string;
}

/** A missing layer: what that means, and how to change it; empty if that is not possible. */
export interface ReasonWords {
  text: string;
  help: string;
}

/** Where a module runs. */
export const isolationWords = (isolation: string): IsolationWords => (t.isolations as Record<string, IsolationWords>)[isolation] ?? { short: isolation || t.unknown, text: "" };

/** What a reason for weaker isolation means. An unknown reason is shown unchanged. */
export const reasonWords = (reason: string): ReasonWords => (t.reasons as Record<string, ReasonWords>)[reason] ?? { text: lookup({}, reason), help: "" };

/** Names of the missing layers around the process. */
const missing = (): Record<string, string> => ({ landlock_unavailable: "Landlock", bwrap_missing: "bubblewrap", bwrap_blocked: "bubblewrap", jobobject_failed: t.jobObject });

/** What third-party modules run without, as one line: "Modules run without bubblewrap". "" if nothing is missing. */
export function missingWords(reasons: readonly string[]): string {
  if (reasons.includes("worker_unavailable") || reasons.includes("below_min_isolation")) return t.modulesStopped;
  const names = missing();
  const without = [...new Set(reasons.map((r) => names[r]).filter((w) => w !== undefined))];
  const filesOnly = reasons.includes("landlock_partial");
  return without.length > 0 || filesOnly ? t.modulesRun(without, filesOnly) : "";
}
