/** Schedules in the command palette: "Run schedule: …" and "Open schedule: …". */
import type { Rpc } from "../../lib/rpc";
import { common } from "../../lib/i18n/common";
import { when } from "../../lib/run/when";
import { toasts } from "../../lib/ui/state";
import type { Command } from "../../lib/ui/commands.svelte";
import { t } from "./messages";

/**
 * Schedules whose name matches the query, each with its commands. Words such as "run schedule" are not part
 * of the search.
 */
export async function paletteSchedules(rpc: Rpc, query: string, go: (target: string) => void): Promise<Command[]> {
  const q = query
    .trim()
    .replace(/^(run|open)?\s*(schedule|cron):?\s*/i, "")
    .replace(/^(run|open)\s+/i, "")
    .trim();
  if (q === "" && !/^(run|open|schedule|cron)/i.test(query.trim())) return [];
  const { schedules } = await rpc.call("schedules.list", { ...(q === "" ? {} : { query: q }), limit: 8, offset: 0 });
  return schedules.flatMap((s) => [
    { id: `schedules.open.${s.scheduleId}`, title: common.onThing(t.openSchedule, s.name), group: t.list.title, words: when(s), run: () => go(`schedules/${s.scheduleId}`) },
    ...(s.needsNewer
      ? []
      : [
          {
            id: `schedules.run.${s.scheduleId}`,
            title: common.onThing(t.runSchedule, s.name),
            group: t.list.title,
            words: when(s),
            run: () =>
              void rpc.call("schedules.run_now", { scheduleId: s.scheduleId }).then(
                (r) => go(`schedules/${s.scheduleId}/runs/${r.runId}`),
                (e: unknown) => toasts.error(e, t.cannotStart(s.name)),
              ),
          },
        ]),
  ]);
}
