/** Addresses: discovery, discovery/<tool>/<tab>, discovery/find, discovery/requests/<request> and discovery/log/<run>. */
import { tabs, views, type Tab, type View } from "./types";

/** The views with an address of their own. */
export const parts: readonly string[] = views.filter((v) => v !== "tools");

export const viewOf = (rest: readonly string[]): View => views.find((v) => v === rest[0]) ?? "tools";
export const addressOf = (view: View): string => (view === "tools" ? "discovery" : `discovery/${view}`);
export const toolAt = (id: string, tab: Tab = "operations"): string => `discovery/${id}${tab === "operations" ? "" : `/${tab}`}`;
export const tabOf = (rest: readonly string[]): Tab => tabs.find((tab) => tab === rest[1]) ?? "operations";
