/** The runs of one skill, newest first. */
import type { ListState } from "../../../lib/list/state";
import type { Rpc } from "../../../lib/rpc";
import { runList } from "../../../lib/run/runs";
import { nav } from "../../../lib/ui/nav.svelte";
import type { Execution } from "./types";

type Filters = { status: string; trigger: string; period: string };
export type SkillRuns = ListState<Execution, Filters>;

const days: Readonly<Record<string, number>> = { day: 1, week: 7, month: 30 };

/** The list of the runs of a skill. `sized` is called with the total size of the history in bytes. */
export const skillRuns = (rpc: Rpc, skillId: string, sized: (bytes: number) => void, now: () => number = Date.now): SkillRuns =>
  runList<Execution, Filters>({
    id: (e) => e.executionId,
    // A run is opened in the timeline.
    route: {
      selected: () => (nav.rest[0] === skillId ? (nav.rest[2] ?? null) : undefined),
      to: (id) => `skills/${skillId}/${id === null ? "history" : `timeline/${id}`}`,
    },
    filters: { status: "", trigger: "", period: "" },
    read: async ({ filters: { status, trigger, period }, cursor, limit, signal }) => {
      const from = days[period] === undefined ? "" : new Date(now() - days[period] * 86_400_000).toISOString();
      const r = await rpc.call("skills.history", { skillId, limit, ...(cursor && { cursor }), ...(status && { status }), ...(trigger && { trigger }), ...(from && { from }) }, { signal });
      sized(r.bytes);
      return { items: r.executions, next: r.nextCursor ?? "" };
    },
  });

/** Pins a run, which protects it from removal, or unpins it; the list is updated at once. */
export async function pinRun(rpc: Rpc, runs: SkillRuns | null, run: Execution, pinned: boolean): Promise<void> {
  runs?.put({ ...run, pinned });
  try {
    await rpc.call("skills.pin", { executionId: run.executionId, pinned });
  } catch (e) {
    runs?.put({ ...run, pinned: !pinned });
    throw e;
  }
}

/** Removes runs that have ended from the list at once; returns a function that shows them again. */
export function dropRuns(runs: SkillRuns, before: string | null): () => void {
  const kept = runs.page.items;
  const limit = before === null ? Number.POSITIVE_INFINITY : Date.parse(before);
  runs.page.items = kept.filter((e) => e.pinned || !e.finishedAt || Date.parse(e.createdAt) >= limit);
  return () => (runs.page.items = kept);
}
