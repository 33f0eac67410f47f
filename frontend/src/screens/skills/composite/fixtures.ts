/** Records for the tests of this folder. */
import type { Execution, Meta, RunEvent, Step, Version } from "./types";
export { fake, until } from "../../../lib/rpc/testing";

export const step = (stepId: string, over: Partial<Step> = {}): Step => ({ stepId, toolType: "custom", toolName: stepId, ...over });

export const meta = (over: Partial<Meta> = {}): Meta => ({
  skillId: "s1",
  name: "Digest",
  description: "Reads and sums up.",
  version: "1.0.1",
  versionId: "v2",
  definitionHash: "00".repeat(32),
  tags: [],
  icon: "",
  isEnabled: true,
  valid: true,
  visibility: "private",
  mine: true,
  steps: [step("fetch"), step("sum")],
  overallTimeoutMs: 600_000,
  stepCount: 2,
  executionCount: 0,
  createdAt: "2026-01-01T00:00:00Z",
  updatedAt: "2026-01-01T00:00:00Z",
  ...over,
});

export const execution = (over: Partial<Execution> = {}): Execution => ({
  executionId: "e1",
  skillId: "s1",
  userId: "u1",
  skillName: "Digest",
  version: "1.0.1",
  versionId: "v2",
  definitionHash: "",
  mode: "live",
  trigger: "user",
  skill: { steps: [step("fetch"), step("sum")] },
  waits: [],
  pinned: false,
  lastSeq: 0,
  createdAt: "2026-01-01T00:00:00Z",
  success: false,
  status: "running",
  stepResults: [],
  finalOutput: null,
  executionContext: {},
  executionTimeMs: 0,
  stepsCompleted: 0,
  totalSteps: 2,
  stepsFailed: 0,
  stepsSkipped: 0,
  input: {},
  ...over,
});

export const version = (over: Partial<Version> = {}): Version => ({
  versionId: "v1",
  skillId: "s1",
  version: "1.0.0",
  definitionHash: "",
  note: "",
  origin: "edit",
  current: false,
  createdAt: "2026-01-01T00:00:00Z",
  ...over,
});

/** A writer of events with automatic numbers and times, ten milliseconds apart. */
export function writer(executionId = "e1") {
  let seq = 0;
  return (type: string, more: Partial<RunEvent> & { after?: number } = {}): RunEvent => {
    seq++;
    const { after, ...rest } = more;
    return { executionId, seq, type, at: new Date(1_767_225_600_000 + seq * 10 + (after ?? 0)).toISOString(), data: {}, ...rest };
  };
}
