import { ListState, route } from "../../lib/list/state";
import type { Params, Rpc } from "../../lib/rpc";
import type { Schedule } from "./types";

/** The user's schedules, and the built-in ones below them. */
export function scheduleList(rpc: Rpc): ListState<Schedule, { status: string; kind: string }> {
  return new ListState({
    id: (s) => s.scheduleId,
    route: route("schedules", ["calendar", "history"]),
    filters: { status: "any", kind: "" },
    system: (s) => s.system,
    read: async ({ query, filters, offset, limit, signal }) => {
      const params: Params<"schedules.list"> = { limit, offset };
      if (query !== "") params.query = query;
      if (filters.status !== "any") params.status = filters.status;
      if (filters.kind !== "") params.kind = filters.kind;
      const r = await rpc.call("schedules.list", params, { signal });
      return { items: r.schedules, total: r.total };
    },
  });
}
