/** Names for the backend's types that this screen uses. */
import type { Item, Result } from "../../lib/rpc";
import type { RunLimits } from "../../lib/run/failures";
import type { Execution, Module, ModuleResult } from "./wasm/module";

/** A row of the list; `module` is set if it is a WASM tool. */
export type Row = Item<"tools.list", "tools"> & { module?: Module };
export type Template = Item<"tools.templates", "templates">;
export type ToolLimits = NonNullable<Tool["limits"]>;
export type Sample = Tool["samples"][number];
export type Tool = Result<"tools.get">["tool"];
export type Problem = Validation["errors"][number];
export type Validation = Result<"tools.validate">;
export type LogLine = RunResult["logs"][number];
/** The result of a run; for a module also where it ran. */
export type RunResult = Omit<Result<"tools.execute_custom">, "auditLog"> & Partial<Pick<ModuleResult, "tier" | "isolation" | "reasons" | "outputBytes">> & { limits?: RunLimits };
export type Diff = Result<"tools.diff">;
export type Definition = ImportItem["definition"];
export type ImportItem = Item<"tools.import", "items">;
export type SecretInfo = Item<"tools.secrets", "secrets">;
export type VersionInfo = Item<"tools.versions", "versions">;
/** A stored run of a tool; for a module also where it ran. */
export type UsageEntry = Omit<Item<"tools.usage", "entries">, "toolId" | "toolName" | "definitionHash" | "status"> & Partial<Pick<Execution, "tier" | "isolation">> & { status: string };
export type UsageSummary = Result<"tools.usage">["summary"];
export type AuditEntry = Item<"tools.audit", "entries">;
export type StateEntry = Item<"tools.state", "entries">;
export type Approval = Result<"approvals.get">;
export type Rights = Result<"tools.capabilities">;
