/** Where code runs and what is missing around it, in plain words. */
import { lookup } from "../i18n";
import { t } from "./messages";

/** A place in plain words: a few for a badge, and a sentence. */
export interface IsolationWords {
  short: string;
  text: string;
}

/** A missing layer: what it means, and what would change it; empty when nothing can. */
export interface ReasonWords {
  text: string;
  help: string;
}

/** Where a module runs. */
export const isolationWords = (isolation: string): IsolationWords => (t.isolations as Record<string, IsolationWords>)[isolation] ?? { short: isolation || t.unknown, text: "" };

/** What a reason of weaker isolation means. A reason that this version does not know is shown as it is. */
export const reasonWords = (reason: string): ReasonWords => (t.reasons as Record<string, ReasonWords>)[reason] ?? { text: lookup({}, reason), help: "" };

/** Names of the layers that are missing around the process. */
const missing = (): Record<string, string> => ({ landlock_unavailable: "Landlock", bwrap_missing: "bubblewrap", bwrap_blocked: "bubblewrap", jobobject_failed: t.jobObject });

/** What third-party modules run without, for a line: "Modules run without bubblewrap". "" when nothing is missing. */
export function missingWords(reasons: readonly string[]): string {
  if (reasons.includes("worker_unavailable") || reasons.includes("below_min_isolation")) return t.modulesStopped;
  const names = missing();
  const without = [...new Set(reasons.map((r) => names[r]).filter((w) => w !== undefined))];
  const filesOnly = reasons.includes("landlock_partial");
  return without.length > 0 || filesOnly ? t.modulesRun(without, filesOnly) : "";
}
