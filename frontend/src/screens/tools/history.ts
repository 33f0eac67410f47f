/** The stored runs of a tool, of code or of a module. */
import type { ListState } from "../../lib/list/state";
import type { Rpc } from "../../lib/rpc";
import { describeFailure, type Failure } from "../../lib/run/failures";
import { isOpen } from "../../lib/run/states";
import { runList, type RunPage, type RunQuery } from "../../lib/run/runs";
import { moduleKey, runRoute } from "./address";
import type { Tool, UsageEntry, UsageSummary } from "./types";
import { entryOf, limitsOf, type Execution, type Module } from "./wasm/module";

type Filters = { status: string };
export type ToolRuns = ListState<UsageEntry, Filters>;

/** Which tool. */
export interface ToolRef {
  id: string;
  isModule: boolean;
}

/** Reads a page of runs; `summarize` is called with a summary of all matching runs, which modules do not have. */
export async function readRuns(rpc: Rpc, tool: ToolRef, q: Pick<RunQuery<Filters>, "filters" | "cursor" | "limit"> & { signal?: AbortSignal }, summarize?: (s: UsageSummary) => void): Promise<RunPage<UsageEntry>> {
  const { status } = q.filters;
  const page = { limit: q.limit, ...(q.cursor && { before: q.cursor }) };
  const options = q.signal ? { signal: q.signal } : {};
  if (tool.isModule) {
    const r = await rpc.call("skills.wasm_executions", { skillId: tool.id, ...page, ...(status && { status: status as Execution["status"] }) }, options);
    return { items: r.executions.map(entryOf), next: r.more ? (r.executions.at(-1)?.id ?? "") : "" };
  }
  const r = await rpc.call("tools.usage", { toolId: tool.id, ...page, ...(status && { status: status as "success" }) }, options);
  if (q.cursor === "") summarize?.(r.summary);
  return { items: r.entries, next: r.entries.length < q.limit ? "" : (r.entries.at(-1)?.timestamp ?? "") };
}

/** The list of the runs of a tool. */
export const toolRuns = (rpc: Rpc, tool: ToolRef, summarize: (s: UsageSummary) => void): ToolRuns =>
  runList<UsageEntry, Filters>({
    id: (e) => e.id,
    route: runRoute(tool.isModule ? moduleKey(tool.id) : tool.id),
    filters: { status: "" },
    read: (q) => readRuns(rpc, tool, q, summarize),
  });

/** How a stored run ended: on the wire, a canceled run of code is a failure of that class. */
export const statusOf = (e: UsageEntry): string => (e.errorClass === "canceled" ? "canceled" : e.status);

/** Why a stored run failed; null if it did not. */
export function failureOf(e: UsageEntry, of: { isModule: boolean; shown: Tool | Module | null }): Failure | null {
  if (e.status === "success" || isOpen(e.status)) return null;
  const limits = of.shown && "wasmSize" in of.shown ? limitsOf(of.shown) : undefined;
  const { executionTimeMs, cpuTimeMs, memoryUsedMb } = e;
  return describeFailure(e.errorClass, e.error, { module: of.isModule, executionTimeMs, cpuTimeMs, memoryUsedMb, ...(limits && { limits }) });
}
