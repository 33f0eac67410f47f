/** Addresses: insights, insights/<pattern>, insights/map, insights/people, insights/analyses. */
import type { Evidence, View } from "./types";

export const placeOf = (rest: readonly string[]): View => (rest[0] === "map" || rest[0] === "people" || rest[0] === "analyses" ? rest[0] : "patterns");
export const addressOf = (view: View): string => (view === "patterns" ? "insights" : `insights/${view}`);

/** The address of a text that is evidence; "" if it is not stored. */
export function evidenceAddress(e: Pick<Evidence, "id" | "kind" | "parentId">): string {
  if (e.kind === "memory") return `memory/list/memory/${e.id}`;
  return e.kind === "turn" && e.parentId ? `memory/list/turn/${e.id}/${e.parentId}` : "";
}
