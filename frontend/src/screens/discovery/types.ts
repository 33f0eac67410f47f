import type { Item, Result } from "../../lib/rpc";

export type Row = Item<"discovery.list", "tools">;
export type Tool = Result<"discovery.get">;
export type Credential = Tool["credentials"][number];
export type Operation = Item<"discovery.operations", "operations">;
export type Inspection = Result<"discovery.inspect_openapi">;
export type Preview = Result<"discovery.import_openapi">;
export type Execution = Item<"discovery.executions", "executions">;

export type Candidate = Item<"discovery.search", "results">;
export type Request = Item<"discovery.queue", "requests">;
/** A candidate of a request, which an import then ends. */
export interface Origin {
  requestId: string;
  ref: string;
}

export const tabs = ["operations", "runs", "rights"] as const;
export type Tab = (typeof tabs)[number];
export const views = ["tools", "find", "requests", "log"] as const;
export type View = (typeof views)[number];
