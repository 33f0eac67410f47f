/** WASM tools in the form of other tools. On the wire they are called skills. */
import type { RunLimits } from "../../../lib/run/failures";
import type { Item, Result, Rpc } from "../../../lib/rpc";
import type { Row, RunResult, Tool, UsageEntry } from "../types";

export type Module = Item<"skills.list_wasm", "skills">;
export type Report = Result<"skills.validate_wasm">;
export type Execution = Item<"skills.wasm_executions", "executions">;
/** The result of a module's run. */
export type ModuleResult = Result<"sandbox.run">;

const MIB = 1024 * 1024;
const PAGE = 100;

/** A module as a row of the list of tools. */
export const rowOf = (m: Module): Row => ({
  id: m.id,
  name: m.name,
  description: m.description,
  version: m.version,
  usageCount: m.runs,
  ...(m.lastRun === undefined ? {} : { lastUsed: m.lastRun }),
  ...(m.lastStatus === undefined ? {} : { lastStatus: m.lastStatus }),
  isEnabled: m.isEnabled,
  visibility: "private",
  icon: "binary",
  tags: [],
  origin: m.origin as Row["origin"],
  signed: m.signature.state === "valid_trusted",
  suspended: m.suspended,
  mine: true,
  updatedAt: m.updatedAt,
  module: m,
});

/** A shown tool, as a row of the list. */
export const rowOfTool = (tool: Tool | Module): Row => ("wasmSize" in tool ? rowOf(tool) : { ...tool, signed: tool.signature.state !== "none" });

/** The limits of a module's run; the result contains the exact ones. */
export const limitsOf = (m: Pick<Module, "timeoutMs" | "memoryMb">): RunLimits => ({ wallMs: m.timeoutMs, cpuMs: Math.min(5000, m.timeoutMs), memoryMb: m.memoryMb, outputBytes: MIB });

/** The result of a module's run in the form of a tool's. */
export const resultOf = (r: ModuleResult): RunResult => ({
  ...r,
  output: r.output ?? null,
  memoryUsedMb: r.peakMemoryBytes / MIB,
  limits: { wallMs: r.limits.wallMs, cpuMs: r.limits.cpuMs, memoryMb: r.limits.memoryBytes / MIB, outputBytes: r.limits.outputBytes },
});

/** A stored run of a module in the form of a tool's. */
export const entryOf = (e: Execution): UsageEntry => ({ ...e, params: e.input });

/** All matching modules, however many: they are few, and are listed together with the other tools. */
export async function allModules(rpc: Rpc, query: string, signal: AbortSignal): Promise<Module[]> {
  const all: Module[] = [];
  for (;;) {
    const r = await rpc.call("skills.list_wasm", { ...(query && { query }), limit: PAGE, offset: all.length }, { signal });
    all.push(...r.skills);
    if (r.skills.length === 0 || all.length >= r.total) return all;
  }
}
