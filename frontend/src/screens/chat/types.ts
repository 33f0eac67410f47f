import type { Item, Result } from "../../lib/rpc";

export type Session = Item<"chat.list", "sessions">;
export type Message = Item<"chat.messages", "messages">;
export type Part = Message["parts"][number];
export type Get = Result<"chat.get">;
export type Turn = NonNullable<Get["activeTurn"]>;
export type Queued = Get["queue"][number];
export type Hit = Item<"chat.search", "hits">;
export type TreeNode = Item<"agent.tree", "nodes">;
export type Budget = Session["budget"];

/** What tools may do without asking. */
export const modes = ["ask", "read", "work"] as const;
/** What happens to an input that arrives during a turn. */
export const queueModes = ["followup", "steer", "collect", "interrupt"] as const;
