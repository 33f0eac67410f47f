import type { Item, Result } from "../../lib/rpc";

export type Row = Item<"mcp.servers", "servers">;
export type Server = Result<"mcp.server">;
export type Entry = Server["server"];
export type Tool = Item<"mcp.tools", "tools">;
export type LogLine = Item<"mcp.logs", "lines">;
export type TestSteps = Result<"mcp.test">;
export type Source = Item<"mcp.sources", "sources">;
export type Found = Item<"mcp.import", "found">;
export type Exposed = Result<"mcp.exposed">;
export type Callable = Item<"callables.list", "callables">;
export type Tier = "" | "read_only" | "side_effecting" | "privileged";

export const tabs = ["tools", "log", "entry"] as const;
export type Tab = (typeof tabs)[number];
export const views = ["servers", "serve"] as const;
export type View = (typeof views)[number];
