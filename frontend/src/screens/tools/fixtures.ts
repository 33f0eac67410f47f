/** Records for the tests of this folder. */
export { fake, until } from "../../lib/rpc/testing";
import type { Approval, ImportItem, Row, RunResult, Tool, Validation } from "./types";

export const row = (over: Partial<Row> = {}): Row => ({
  id: "t1",
  name: "Text Counter",
  description: "Counts words.",
  version: "1.0.0",
  usageCount: 0,
  isEnabled: true,
  visibility: "private",
  icon: "",
  tags: [],
  origin: "local",
  signed: false,
  suspended: false,
  mine: true,
  updatedAt: "2026-01-01T00:00:00Z",
  ...over,
});

export const tool = (over: Partial<Tool> = {}): Tool => ({
  id: "t1",
  name: "Text Counter",
  description: "Counts words.",
  language: "typescript",
  code: "export default () => 1;",
  parameters: { type: "object" },
  capabilities: [],
  sandboxProfile: "standard",
  version: "1.0.0",
  definitionHash: "aa",
  author: "",
  signature: { state: "none" },
  samples: [],
  tags: [],
  icon: "",
  origin: "local",
  visibility: "private",
  isEnabled: true,
  suspended: false,
  syncState: false,
  mine: true,
  usageCount: 0,
  approxTokens: 12,
  createdAt: "2026-01-01T00:00:00Z",
  updatedAt: "2026-01-01T00:00:00Z",
  ...over,
});

export const validation = (over: Partial<Validation> = {}): Validation => ({
  valid: true,
  errors: [],
  warnings: [],
  detectedDangerousFunctions: [],
  entry: "default",
  definitionHash: "aa",
  ...over,
});

export const result = (over: Partial<RunResult> = {}): RunResult => ({
  success: true,
  output: 1,
  executionTimeMs: 12,
  cpuTimeMs: 3,
  memoryUsedMb: 1.5,
  executionId: "x1",
  logs: [],
  ...over,
});

export const approval = (over: Partial<Approval> = {}): Approval => ({
  id: "p1",
  kind: "capability",
  subject: { kind: "tool", id: "t1", name: "Text Counter" },
  definitionHash: "aa",
  tier: "side_effecting",
  sentence: "Connect to api.example.com",
  requested: [{ capability: "network:https", resource: "api.example.com", why: "to ask for the rate" }],
  run: { kind: "user", id: "x1", waiting: true, rerun: true },
  scopes: ["once", "run", "session", "always"],
  status: "pending",
  count: 1,
  createdAt: "2026-01-01T00:00:00Z",
  lastAt: "2026-01-01T00:00:00Z",
  expiresAt: "2026-01-08T00:00:00Z",
  history: [],
  ...over,
});

export const item = (over: Partial<ImportItem> = {}): ImportItem => ({
  name: "Text Counter",
  action: "create",
  definitionHash: "aa",
  signature: { state: "none" },
  requestedCapabilities: [],
  warnings: [],
  definition: {
    name: "Text Counter",
    description: "",
    language: "typescript",
    code: "1",
    parameters: {},
    capabilities: [],
    sandboxProfile: "standard",
  },
  version: "1.0.0",
  author: "",
  ...over,
});
