import type { Rpc } from "../../lib/rpc";
import { JobList, toasts } from "../../lib/ui/state";
import { isOpen, stateWord } from "../../lib/run/states";
import { t } from "./messages";

/** Runs of tools that are running now. */
export class ToolJobs extends JobList {
  start(rpc: Rpc): void {
    rpc.on("tools.execution", (e) => {
      if (!isOpen(e.state)) return this.remove(e.executionId);
      const cancel = (): void => void rpc.call("tools.cancel", { executionId: e.executionId }).catch((err) => toasts.error(err));
      this.put({ id: e.executionId, title: t.runningTool, step: e.state === "waiting" ? t.waitsForApproval : "", target: `tools/${e.toolId}`, cancel });
    });
    rpc.on("skills.execution_changed", (e) => {
      if (!isOpen(e.status)) return this.remove(e.executionId);
      const cancel = (): void => void rpc.call("skills.cancel", { executionId: e.executionId }).catch((err) => toasts.error(err));
      const step = e.waiting === "approval" ? t.waitsForApproval : e.waiting === "queued" ? stateWord("queued") : "";
      this.put({ id: e.executionId, title: t.runningTool, step, target: `tools/wasm/${e.skillId}/run`, cancel });
    });
  }
}

export const toolJobs = new ToolJobs();
