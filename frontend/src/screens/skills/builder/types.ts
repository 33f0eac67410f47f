import type { Item, Result } from "../../../lib/rpc";

/** One step of a skill, in the canonical form. */
export type Step = Item<"skills.get_metadata", "steps">;
/** One arm of a branch. */
export type Case = NonNullable<Step["cases"]>[number];
/** A callable for steps on this installation. */
export type Entry = Item<"skills.catalog", "entries">;
/** An error or a warning about a definition. */
export type Problem = Item<"skills.validate_composite", "errors">;
/** A stored skill. */
export type Meta = Result<"skills.get_metadata">;
export type Validation = Result<"skills.validate_composite">;
export type Evaluation = Result<"skills.evaluate">;
/** A run in the list of runs used for mapping. */
export type Run = Item<"skills.history", "executions">;

/** The edited definition as JSON. Unknown fields are kept unchanged. */
export interface Skill {
  skillId?: string;
  name: string;
  description?: string;
  tags?: string[];
  icon?: string;
  isEnabled?: boolean;
  visibility?: string;
  inputSchema?: unknown;
  outputMapping?: unknown;
  notification?: { when?: string; title?: unknown; body?: unknown; level?: string };
  overallTimeoutMs?: number;
  steps: Step[];
  [key: string]: unknown;
}

/** The kinds that call something. */
export const CALLS: readonly string[] = ["custom", "builtin", "mcp", "skill", "wasm"];
