import type { EventData, Rpc } from "../../lib/rpc";
import { format, JobList, toasts } from "../../lib/ui/state";
import { t } from "./messages";

/** The maximum number of runs that are read at the start, per state. */
const most = 20;

/** Active runs of skills, including those that started before the page was opened. */
export class SkillJobs extends JobList {
  #rpc: Rpc | null = null;

  start(rpc: Rpc): void {
    this.#rpc = rpc;
    rpc.on("skills.run_event", (e) => this.#event(e));
    rpc.onReload(() => void this.read());
    void this.read();
  }

  /** Reads the runs of skills that have not ended: they continue without the page. */
  async read(): Promise<void> {
    const rpc = this.#rpc;
    if (!rpc?.can("skills.history")) return;
    try {
      const pages = await Promise.all(["queued", "running", "waiting"].map((status) => rpc.call("skills.history", { status, limit: most })));
      const runs = pages.flatMap((p) => p.executions).filter((e) => !e.parentExecutionId && e.mode === "live");
      const ids = new Set(runs.map((e) => e.executionId));
      this.retain((j) => ids.has(j.id));
      for (const e of runs) this.#show(e.executionId, e.skillName, t.jobSteps[e.status === "waiting" ? (e.waitReason ?? "") : e.status] ?? "", Date.parse(e.startedAt ?? e.createdAt));
    } catch {
      // The Skills screen shows the error; the status bar only lacks these jobs.
    }
  }

  /** A run inside another skill is part of that one. */
  #event(e: EventData<"skills.run_event">): void {
    const data = (e.data ?? {}) as { skill?: string; trigger?: string; reason?: string };
    const known = this.get(e.executionId) !== undefined;
    if (e.type === "run.finished") this.remove(e.executionId);
    else if (e.type === "run.created" && data.trigger !== "skill") this.#show(e.executionId, data.skill ?? "", "", Date.parse(e.at));
    else if (known && e.type === "run.waiting") this.#show(e.executionId, "", t.jobSteps[data.reason ?? ""] ?? t.waiting);
    else if (known && (e.type === "run.resumed" || e.type === "run.started")) this.#show(e.executionId, "", "");
  }

  #show(id: string, name: string, step: string, since?: number): void {
    const title = name === "" ? (this.get(id)?.title ?? t.running) : t.runningNamed(format.visible(name, 40));
    this.put({ id, title, step, since, target: `skills/run/${id}`, cancel: () => this.#cancel(id) });
  }

  #cancel(executionId: string): void {
    void this.#rpc?.call("skills.cancel", { executionId }).catch((err) => toasts.error(err));
  }
}

export const skillJobs = new SkillJobs();
