/** Addresses: voice, voice/<memo>, voice/<memo>/<milliseconds>, voice/commands/<command>, and a view such as voice/queue. */
import { views, type View } from "./types";

const others: readonly string[] = views.slice(1);

export const viewOf = (rest: readonly string[]): View => (others.includes(rest[0] ?? "") ? (rest[0] as View) : "memos");
export const addressOf = (view: View): string => (view === "memos" ? "voice" : `voice/${view}`);

/** The address of a memo, at a moment of its recording. */
export const memoAt = (id: string, ms = -1): string => `voice/${id}${ms < 0 ? "" : `/${Math.round(ms)}`}`;

/** The moment in the address of a memo, or -1. */
export const momentOf = (rest: readonly string[]): number => (viewOf(rest) === "memos" && /^\d+$/.test(rest[1] ?? "") ? Number(rest[1]) : -1);
