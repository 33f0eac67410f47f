/** Names for the backend's types that this screen uses. */
import type { Item, Result } from "../../lib/rpc";

export type Pattern = Item<"memory.list_patterns", "patterns">;
export type Detail = Result<"memory.get_pattern">;
export type Evidence = NonNullable<Detail["evidenceDetail"]>[number];
export type Job = Result<"memory.synthesis_status">;
export type Recommendation = Item<"memory.list_recommendations", "recommendations">;
export type ClusterMap = Result<"memory.cluster_map">;
export type Schedule = Item<"schedules.list", "schedules">;
export type Analysis = "full_synthesis" | "emotional_patterns" | "relational_memory" | "prospective_self" | "narrative_coherence";
export const analyses: readonly Analysis[] = ["full_synthesis", "emotional_patterns", "relational_memory", "prospective_self", "narrative_coherence"];
export type Person = Item<"memory.list_people", "people">;
export type People = Result<"memory.list_people">;
export type View = "patterns" | "map" | "people" | "analyses";
