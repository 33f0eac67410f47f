import type { Item, Result } from "../../lib/rpc";

export type Memo = Result<"voice.get_memo">;
export type Transcript = Result<"voice.get_transcript">;
export type Word = Transcript["words"][number];
export type Version = Transcript["versions"][number];
export type Hit = Item<"voice.search_transcripts", "results">;
export type Queue = Result<"voice.queue">;
export type Job = Queue["jobs"][number];
export type VoicemailList = Result<"voice.list_voicemail">;
export type Voicemail = VoicemailList["messages"][number];
export type Engine = Item<"voice.engines", "engines">;
export type Status = Result<"voice.status">;
export type Devices = Result<"voice.devices">;
export type RecordingMode = "memo" | "command";
export type Command = Item<"voice.list_commands", "commands">;
export type Match = Result<"voice.test_command">;
export type Callable = Item<"callables.list", "callables">;
export type ActionType = "skill" | "tool" | "navigation" | "system";
export type RiskTier = "low" | "medium" | "high";
export type Settings = Result<"voice.get_settings">;

export const views = ["memos", "search", "voicemail", "commands", "queue", "settings"] as const;
export type View = (typeof views)[number];
