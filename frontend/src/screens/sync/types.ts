import type { Item, Result } from "../../lib/rpc";

export type Status = Result<"sync.status">;
export type Conflict = Item<"sync.conflicts", "conflicts">;
export type DeadLetter = Item<"sync.dead_letters", "deadLetters">;
export type Device = Item<"sync.devices", "devices">;
export type Choice = "mine" | "theirs" | "both" | "merged";

export const views = ["conflicts", "devices", "not-synced"] as const;
export type View = (typeof views)[number];
