import type { Item, Result } from "../../lib/rpc";

export type Channel = Item<"channels.list", "channels">;
export type Sender = Item<"channels.senders", "senders">;
export type Binding = Item<"channels.sessions", "bindings">;
export type Message = Item<"channels.queue", "messages">;
export type Rejection = Item<"channels.rejected", "entries">;
export type Route = Item<"channels.routes", "routes">;
export type TestResult = Result<"channels.test">;
export type Code = Result<"channels.pair">;

export const tabs = ["senders", "sessions", "queue", "rejected", "routes"] as const;
export type Tab = (typeof tabs)[number];
export type Kind = "telegram" | "webhook";
