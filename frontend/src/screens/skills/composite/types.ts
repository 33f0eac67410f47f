/** Names for the backend's types of composite skills. */
import type { EventData, Item, Params, Result } from "../../../lib/rpc";

export type Meta = Item<"skills.list_composite", "skills">;
export type Step = Meta["steps"][number];
export type Execution = Result<"skills.get_execution">;
export type Body = NonNullable<Execution["skill"]>;
export type StepResult = Execution["stepResults"][number];
export type ExecuteResult = Result<"skills.execute_composite">;
export type Wait = Execution["waits"][number];
export type RunEvent = EventData<"skills.run_event">;
export type Failure = NonNullable<Execution["error"]>;
export type Version = Item<"skills.list_versions", "versions">;
export type VersionDiff = Result<"skills.diff_versions">;
export type FieldChange = VersionDiff["fields"][number];
export type RightsPreview = Result<"skills.preview_rights">;
export type ImportResult = Result<"skills.import">;
export type Replay = Result<"skills.replay">;
export type Answer = Params<"skills.answer">;
export type Template = Item<"skills.templates", "templates">;
export type Schedule = Item<"schedules.list", "schedules">;
