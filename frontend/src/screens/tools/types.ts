/** Names for the shapes that this screen works with, as the backend answers them. */
import type { Item, Result } from "../../lib/rpc";

export type Row = Item<"tools.list", "tools">;
export type Template = Item<"tools.templates", "templates">;
export type ToolLimits = NonNullable<Tool["limits"]>;
export type Sample = Tool["samples"][number];
export type Tool = Result<"tools.get">["tool"];
export type Problem = Validation["errors"][number];
export type Validation = Result<"tools.validate">;
export type LogLine = RunResult["logs"][number];
export type RunResult = Result<"tools.execute_custom">;
export type Diff = Result<"tools.diff">;
export type Definition = ImportItem["definition"];
export type ImportItem = Item<"tools.import", "items">;
export type Share = Item<"tools.shares", "shares">;
export type SecretInfo = Item<"tools.secrets", "secrets">;
export type VersionInfo = Item<"tools.versions", "versions">;
export type UsageEntry = Item<"tools.usage", "entries">;
export type UsageSummary = Result<"tools.usage">["summary"];
export type AuditEntry = Item<"tools.audit", "entries">;
export type StateEntry = Item<"tools.state", "entries">;
export type HeldGrant = Item<"permissions.list", "grants">;
export type HeldDenial = Item<"permissions.list", "denials">;
export type Approval = Result<"approvals.get">;
export type Rights = Result<"tools.capabilities">;
export type Preview = Result<"permissions.preview">;
