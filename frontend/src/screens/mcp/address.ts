/** Addresses: mcp, mcp/servers/<name>/<tab>, and mcp/serve. */
import type { Route } from "../../lib/list/state";
import { nav } from "../../lib/ui/state";
import { tabs, type Tab, type View } from "./types";

export const viewOf = (rest: readonly string[]): View => (rest[0] === "serve" ? "serve" : "servers");
export const addressOf = (view: View): string => (view === "servers" ? "mcp" : `mcp/${view}`);
export const serverAt = (name: string, tab: Tab = "tools"): string => `mcp/servers/${name}${tab === "tools" ? "" : `/${tab}`}`;
export const tabOf = (rest: readonly string[]): Tab => tabs.find((tab) => tab === rest[2]) ?? "tools";

export const serverRoute: Route = {
  selected: () => (nav.path[0] !== "mcp" || (nav.path[1] !== undefined && nav.path[1] !== "servers") ? undefined : (nav.path[2] ?? null)),
  to: (id) => (id === null ? "mcp" : serverAt(id)),
};
