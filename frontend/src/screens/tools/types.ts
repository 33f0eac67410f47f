/** Names for the shapes that this screen works with, as the backend answers them. */
import type { Item, Result } from "../../lib/rpc";

export type Row = Item<"tools.list", "tools">;

export interface Template {
  id: string;
  name: string;
  description: string;
  icon: string;
  language: Tool["language"];
  code: string;
  parameters: unknown;
  capabilities: string[];
  sandboxProfile: Tool["sandboxProfile"];
  sampleParams: unknown;
  expectedOutput: unknown;
}

export type ToolLimits = NonNullable<Tool["limits"]>;
export type Sample = Tool["samples"][number];
export type SignatureInfo = Tool["signature"];
export type Tool = Result<"tools.get">["tool"];
export type Problem = Validation["errors"][number];
export type Validation = Result<"tools.validate">;
export type LogLine = RunResult["logs"][number];
export type RunResult = Result<"tools.execute_custom">;
export type Diff = Result<"tools.diff">;

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

export type SecretInfo = Item<"tools.secrets", "secrets">;
export type VersionInfo = Item<"tools.versions", "versions">;
export type UsageEntry = Item<"tools.usage", "entries">;
export type UsageSummary = Result<"tools.usage">["summary"];

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

export type StateEntry = Item<"tools.state", "entries">;

export interface Grant {
  capability: string;
  resource: string;
  scope: string;
  expiresAt?: string;
  origin: string;
  lastUsed?: string;
  suspended: boolean;
}

export type HeldGrant = Item<"permissions.list", "grants">;
export type HeldDenial = Item<"permissions.list", "denials">;
export type DefinitionDiff = NonNullable<Approval["diff"]>;
export type Approval = Result<"approvals.get">;

export interface Rights {
  requested: string[];
  grants: Grant[];
  denied: { capability: string; resource: string; reason: string }[];
}

export type PreviewStep = Preview["steps"][number];
export type Preview = Result<"permissions.preview">;
