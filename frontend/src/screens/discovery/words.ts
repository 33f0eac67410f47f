import { listing } from "../../lib/i18n";
import { t } from "./messages";
import type { Execution, Preview, Request } from "./types";

type Tone = "neutral" | "ok" | "warn" | "danger" | "info";

export const statusTone = (status: string): Tone => (({ active: "ok", pending_approval: "warn", approved: "warn" }) as Record<string, Tone>)[status] ?? "neutral";
export const requestTone = (x: Request): Tone => (x.selected ? "ok" : ((({ found: "info", failed: "warn" }) as Record<string, Tone>)[x.status] ?? "neutral"));
export const sampleTone = (result: string): Tone => (({ pass: "ok", fail: "danger" }) as Record<string, Tone>)[result] ?? "neutral";
export const runTone = (x: Execution): Tone => (({ success: "ok", running: "info", failure: "danger", timeout: "danger" }) as Record<string, Tone>)[x.status] ?? "neutral";
export const tierTone = (tier: string): Tone => (tier === "readOnly" ? "neutral" : tier === "privileged" ? "danger" : "warn");

/** The request of an operation as it is usually written, such as GET /pets/{id}. */
export const requestLine = (key: string): string => key.replace(/^[a-z]+(?= \/)/, (method) => method.toUpperCase());

/** What a new definition adds, removes and changes, as rows of facts. */
export const diffRows = (d: NonNullable<Preview["diff"]>) => (["added", "removed", "changed"] as const).filter((kind) => d[kind].length > 0).map((kind) => ({ name: t.diff[kind], value: listing(d[kind].map(requestLine)) }));
