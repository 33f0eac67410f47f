import type { Rpc } from "../../lib/rpc";
import { JobList, toasts } from "../../lib/ui/state";
import { t } from "./messages";

const ended = ["success", "failure", "timeout", "canceled"];

/** Runs of tools that are running now. */
export class ToolJobs extends JobList {
  start(rpc: Rpc): void {
    rpc.on("tools.execution", (e) => {
      if (ended.includes(e.state)) return this.remove(e.executionId);
      const cancel = (): void => void rpc.call("tools.cancel", { executionId: e.executionId }).catch((err) => toasts.error(err));
      this.put({ id: e.executionId, title: t.runningTool, step: e.state === "waiting" ? t.waitsForApproval : "", target: `tools/${e.toolId}`, cancel });
    });
  }
}

export const toolJobs = new ToolJobs();
