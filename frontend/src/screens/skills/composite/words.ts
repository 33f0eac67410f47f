/** Words about composite skills, their steps and their runs. */

const statuses: Record<string, string> = {
  pending: "Not started",
  queued: "Queued",
  running: "Running",
  retrying: "Retrying",
  waiting: "Waiting",
  completed: "Completed",
  failed: "Failed",
  cancelled: "Canceled",
  skipped: "Skipped",
  unmocked: "No result to use",
};

/** How a run or a step stands. */
export const statusWord = (status: string): string => statuses[status] ?? status;

/** It will not change any more. */
export const isOver = (status: string): boolean => status === "completed" || status === "failed" || status === "cancelled" || status === "unmocked";

const kinds: Record<string, string> = {
  custom: "Tool",
  builtin: "Built in",
  mcp: "MCP tool",
  skill: "Skill",
  wasm: "WASM tool",
  branch: "Branch",
  map: "For each",
  approval: "Approval",
  transform: "Transform",
  item: "Item",
};

/** What kind of step it is. */
export const kindWord = (kind: string): string => kinds[kind] ?? kind;

const triggers: Record<string, string> = { user: "you", rpc: "a program", cli: "the terminal", voice: "your voice", schedule: "a schedule", agent: "the agent", skill: "a skill" };

/** Who started a run. */
export const triggerWord = (trigger: string): string => triggers[trigger] ?? trigger;

const tiers: Record<string, string> = { readOnly: "only reads", sideEffecting: "changes something", privileged: "privileged" };

/** How much a call may do. */
export const tierWord = (tier: string): string => tiers[tier] ?? tier;

const reasons: Record<string, string> = {
  condition: "Its condition was false.",
  branch: "Another branch ran.",
  error: "It failed, and the skill continued without it.",
  reused: "Reused from an earlier run.",
};

/** Why a step was skipped. */
export const reasonText = (reason: string): string => reasons[reason] ?? reason;

const waits: Record<string, string> = { approval: "for your approval", unknown_outcome: "for your answer", permission: "for a permission", timer: "for its time", quarantined: "for your decision" };

/** What a run waits for. */
export const waitWord = (reason: string | undefined): string => (reason === undefined ? "" : (waits[reason] ?? ""));

const origins: Record<string, string> = { edit: "Edited", import: "Imported", rollback: "Rolled back", sync: "From another device", agent: "By an agent", template: "From a template" };

/** How a version came to be. */
export const versionOrigin = (origin: string): string => origins[origin] ?? origin;

const sources: Record<string, string> = { mock: "a mock", recorded: "an earlier run", real: "a real call that only reads", schema: "generated from its schema" };

/** Where a dry run took a step's result from. */
export const sourceWord = (source: string): string => sources[source] ?? source;

const errorKinds: Record<string, string> = {
  invalid: "Wrong input",
  denied: "Not allowed",
  not_found: "Not found",
  conflict: "Conflict",
  timeout: "Took too long",
  limit: "Limit reached",
  unavailable: "Not available",
  canceled: "Canceled",
  internal: "Failed",
};

/** What kind of failure it was. */
export const errorTitle = (kind: string): string => errorKinds[kind] ?? "Failed";

/** A value as JSON text with lines. Undefined is nothing. */
export const pretty = (v: unknown): string => (v === undefined ? "" : (JSON.stringify(v, null, 2) ?? ""));
