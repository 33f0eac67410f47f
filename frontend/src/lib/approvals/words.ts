/** How requests and permissions are displayed: colors of their states, and how long an answer applies. */
import type { Scope } from "../run/prompt.svelte";

type Tone = "neutral" | "ok" | "danger" | "warn";

/** The tabs of the screen in order; the first has no address of its own. */
export const TABS = ["waiting", "grants", "denials", "history"] as const;
export type Tab = (typeof TABS)[number];

/** The scopes of an answer, shortest first, and their keys. */
export const scopeKeys: Readonly<Record<Scope, string>> = { once: "1", run: "2", session: "3", always: "4" };

/** The choices for the number of days after which a permanent answer expires. */
export const expiryDays = [0, 1, 7, 30, 90];

/** How much an action can do. */
export const tierTone = (tier: string): Tone => (tier === "privileged" ? "danger" : tier === "side_effecting" ? "warn" : "neutral");

const tones: Readonly<Record<string, Tone>> = { pending: "warn", approved: "ok", denied: "danger", active: "ok", suspended: "warn" };

/** The tone of the state of a request or a grant. */
export const toneOf = (state: string): Tone => tones[state] ?? "neutral";
