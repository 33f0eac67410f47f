/** Names for the shapes that this screen works with, as the backend answers them. */
import type { Item, Result } from "../../lib/rpc";

export type Skill = Item<"skills.list_wasm", "skills">;
export type Report = Result<"skills.validate_wasm">;
export type Problem = Report["errors"][number];
export type RunResult = Result<"sandbox.run">; // also what skills.execute answers for a WASM skill
export type RunLimits = RunResult["limits"];
export type LogLine = RunResult["logs"][number];
export type Execution = Item<"skills.wasm_executions", "executions">;
export type Status = Execution["status"];
