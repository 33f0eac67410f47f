/** The shapes that this screen works with, as the backend answers them. */

export interface Row {
  id: string;
  name: string;
  description: string;
  version: string;
  usageCount: number;
  lastUsed?: string;
  lastStatus?: string;
  isEnabled: boolean;
  visibility: string;
  icon: string;
  tags: string[];
  origin: string;
  signed: boolean;
  suspended: boolean;
  mine: boolean;
  shareId?: string;
}

export interface Template {
  id: string;
  name: string;
  description: string;
  icon: string;
  language: string;
  code: string;
  parameters: unknown;
  capabilities: string[];
  sandboxProfile: string;
  sampleParams: unknown;
  expectedOutput: unknown;
}

export interface ToolLimits {
  wallMs?: number;
  cpuMs?: number;
  memoryMb?: number;
  outputBytes?: number;
  hostCalls?: number;
}

export interface Sample {
  name: string;
  params: unknown;
  expected?: unknown;
}

export interface SignatureInfo {
  state: string;
  fingerprint?: string;
  publicKey?: string;
  signer?: string;
  signedAt?: string;
}

export interface Tool {
  id: string;
  name: string;
  description: string;
  language: string;
  code: string;
  parameters: unknown;
  capabilities: string[];
  sandboxProfile: string;
  limits?: ToolLimits;
  version: string;
  definitionHash: string;
  author: string;
  signature: SignatureInfo;
  samples: Sample[];
  tags: string[];
  icon: string;
  origin: string;
  cloneSourceId?: string;
  visibility: string;
  isEnabled: boolean;
  suspended: boolean;
  syncState: boolean;
  mine: boolean;
  usageCount: number;
  lastUsed?: string;
  createdAt: string;
  updatedAt: string;
}

export interface Problem {
  code: string;
  field: string;
  message: string;
  line: number;
  column: number;
  path?: string;
}

export interface Validation {
  valid: boolean;
  errors: Problem[];
  warnings: Problem[];
  detectedDangerousFunctions: string[];
  entry?: string;
  suggestedSchema?: unknown;
  definitionHash: string;
}

export interface LogLine {
  at: string;
  level: string;
  message: string;
  fields?: unknown;
}

export interface RunResult {
  success: boolean;
  output: unknown;
  error?: string;
  errorClass?: string;
  errorStack?: string;
  errorDetails?: unknown;
  executionTimeMs: number;
  auditLog: { timestamp: string; ts: number; action: string; details: unknown }[];
  executionId: string;
  cpuTimeMs: number;
  memoryUsedMb: number;
  logs: LogLine[];
  pendingApprovalId?: string;
  warnings?: string[];
  draft?: boolean;
}

export interface Diff {
  fields: { name: string; from: unknown; to: unknown }[];
  code: string;
  capabilities: { added: string[]; removed: string[] };
}

export interface Definition {
  name: string;
  description: string;
  language: string;
  code: string;
  parameters: unknown;
  capabilities: string[];
  sandboxProfile: string;
  limits?: ToolLimits;
}

export interface ImportItem {
  name: string;
  action: string;
  newName?: string;
  definitionHash: string;
  signature: SignatureInfo;
  requestedCapabilities: string[];
  warnings: string[];
  diff?: Diff;
  definition: Definition;
  version: string;
  author: string;
}

export interface Share {
  shareId: string;
  toolId: string;
  url: string;
  access: string;
  version: string;
  definitionHash: string;
  opens: number;
  createdAt: string;
  expiresAt?: string;
  revokedAt?: string;
  state: string;
}

export interface SecretInfo {
  name: string;
  hosts: string[];
  toolIds: string[];
  updatedAt: string;
}

export interface VersionInfo {
  version: string;
  definitionHash: string;
  note: string;
  author: string;
  createdAt: string;
  current: boolean;
}

export interface UsageEntry {
  id: string;
  toolId: string;
  toolName: string;
  params: unknown;
  output: unknown;
  status: string;
  error?: string;
  errorClass?: string;
  executionTimeMs: number;
  cpuTimeMs: number;
  memoryUsedMb: number;
  hostCalls: number;
  version: string;
  definitionHash: string;
  caller: string;
  parentId?: string;
  timestamp: string;
}

export interface UsageSummary {
  runs: number;
  success: number;
  failure: number;
  timeout: number;
  p50Ms: number;
  p95Ms: number;
}

export interface AuditEntry {
  seq: number;
  timestamp: string;
  ts: number;
  action: string;
  outcome: string;
  toolId: string;
  runId?: string;
  details: unknown;
  hash: string;
  signed: boolean;
}

export interface StateEntry {
  key: string;
  sizeBytes: number;
  updatedAt: string;
  preview: string;
}

export interface Grant {
  capability: string;
  resource: string;
  scope: string;
  expiresAt?: string;
  origin: string;
  lastUsed?: string;
  suspended: boolean;
}

export interface HeldGrant {
  id: string;
  capability: string;
  resource: string;
  sentence: string;
  scope: string;
  origin: string;
  state: string;
  createdAt: string;
  expiresAt?: string;
  lastUsedAt?: string;
}

export interface HeldDenial {
  id: string;
  capability: string;
  resource: string;
  sentence: string;
  reason: string;
}

export interface DefinitionDiff {
  from: string;
  to: string;
  changes: { path: string; kind: string; before?: unknown; after?: unknown }[];
  capabilities: { added: string[]; removed: string[] };
}

export interface Approval {
  id: string;
  kind: string;
  subject: { kind: string; id: string; name?: string };
  definitionHash: string;
  tier: string;
  sentence: string;
  requested: { capability: string; resource: string; why?: string }[];
  run: { kind: string; id?: string; waiting: boolean; rerun: boolean };
  scopes: string[];
  status: string;
  count: number;
  createdAt: string;
  diff?: DefinitionDiff;
}

export interface Rights {
  requested: string[];
  grants: Grant[];
  denied: { capability: string; resource: string; reason: string }[];
}

export interface PreviewStep {
  stepId: string;
  subject: { kind: string; id: string; name?: string };
  tier: string;
  capabilities: { capability: string; resource: string; state: string; by?: string }[];
}

export interface Preview {
  steps: PreviewStep[];
  union: { capability: string; resource: string; state: string }[];
  hosts: string[];
  secrets: string[];
  tier: string;
  willAsk: { capability: string; resource: string; why?: string }[];
  unattended: string;
  unresolved: string[];
}
