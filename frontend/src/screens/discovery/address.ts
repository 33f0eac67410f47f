/** Addresses: discovery, discovery/<tool>/<tab>, discovery/log and discovery/log/<run>. */
import { tabs, type Tab, type View } from "./types";

export const viewOf = (rest: readonly string[]): View => (rest[0] === "log" ? "log" : "tools");
export const addressOf = (view: View): string => (view === "tools" ? "discovery" : `discovery/${view}`);
export const toolAt = (id: string, tab: Tab = "operations"): string => `discovery/${id}${tab === "operations" ? "" : `/${tab}`}`;
export const tabOf = (rest: readonly string[]): Tab => tabs.find((tab) => tab === rest[1]) ?? "operations";
