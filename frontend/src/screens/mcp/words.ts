import { lookup } from "../../lib/i18n";
import { t } from "./messages";
import type { Row, Tool } from "./types";

type Tone = "neutral" | "ok" | "warn" | "danger" | "info";

/** The word for what a server does now. */
export const stateWord = (s: Row): string => (s.enabled ? lookup(t.states, s.state) : t.off);
export const stateTone = (s: Row): Tone => (s.enabled ? ((({ ready: "ok", starting: "info", failed: "danger", needs_auth: "warn", suspended: "warn" }) as Record<string, Tone>)[s.state] ?? "neutral") : "neutral");
export const toolTone = (x: Tool): Tone => (({ approved: "ok", new: "info", changed: "warn" }) as Record<string, Tone>)[x.state] ?? "neutral";

/** What the server claims about a tool. */
export const hints = (x: Tool): string[] => [x.hints.readOnlyHint && t.hintReadOnly, x.hints.destructiveHint === true && !x.hints.readOnlyHint && t.hintDestructive, x.hints.openWorldHint === true && t.hintOpenWorld].filter((s) => s !== false);

/** The last line of an error, which says what went wrong. */
export const lastLine = (text: string): string => text.trim().split("\n").at(-1) ?? "";
