/** Names for the backend's types that this screen uses. */
import type { Item, Result } from "../../lib/rpc";

export type Overview = Result<"psychology.overview">;
export type Layer = Result<"psychology.get_layer">;
export type Entry = Layer["entries"][number];
export type Kind = Layer["kinds"][number];
export type Forecast = Result<"psychology.forecast">;
export type Cause = Forecast["cause"];
export type DecayRun = Result<"psychology.decay_run">;
export type Fading = Item<"psychology.fading", "items">;
export type People = Result<"psychology.trust_map">;
export type ViewEntry = Item<"psychology.goals", "entries">;
export type Soul = Result<"psychology.get_soul">;
export type Settings = Result<"psychology.get_settings">;
export type Pattern = Item<"memory.list_patterns", "patterns">;
export const views = ["overview", "layers", "fading", "patterns", "soul", "settings"] as const;
export type View = (typeof views)[number];
/** The location on this screen. */
export interface Place {
  view: View;
  /** The layer that the view lists. */
  layer: number;
  /** The selected memory or entry, or "". */
  id: string;
}
