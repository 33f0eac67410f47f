/** Addresses: channels and channels/<id>/<tab>. */
import { route } from "../../lib/list/state";
import { tabs, type Tab } from "./types";

export const channelRoute = route("channels");
export const channelAt = (id: string, tab: Tab = "senders"): string => `channels/${id}${tab === "senders" ? "" : `/${tab}`}`;
export const tabOf = (rest: readonly string[]): Tab => tabs.find((tab) => tab === rest[1]) ?? "senders";
