import type { Item } from "../rpc";
import { t } from "./messages";

/** The parts of a cadence's meaning. */
export type CadenceParts = Item<"schedules.list", "schedules">["parts"];

/** When a schedule runs: "weekdays at 09:00, Berlin". */
export const when = (s: { parts: CadenceParts; words: string }): string => t.when(s.parts, s.words);
