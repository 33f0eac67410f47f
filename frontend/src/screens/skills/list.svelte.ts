import { ListState, route } from "../../lib/list/state";
import type { Rpc } from "../../lib/rpc";
import type { Skill } from "./types";

/** The user's WASM tools. */
export function wasmList(rpc: Rpc): ListState<Skill, { state: string }> {
  return new ListState({
    id: (s) => s.id,
    route: route("skills/wasm"),
    filters: { state: "any" },
    read: async ({ query, filters, offset, limit, signal }) => {
      const r = await rpc.call("skills.list_wasm", { ...(query && { query }), ...(filters.state !== "any" && { enabled: filters.state === "enabled" }), limit, offset }, { signal });
      return { items: r.skills, total: r.total };
    },
  });
}
