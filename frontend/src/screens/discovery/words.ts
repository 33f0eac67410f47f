import type { Execution, Request } from "./types";

type Tone = "neutral" | "ok" | "warn" | "danger" | "info";

export const statusTone = (status: string): Tone => (({ active: "ok", pending_approval: "warn", approved: "warn" }) as Record<string, Tone>)[status] ?? "neutral";
export const requestTone = (x: Request): Tone => (x.selected ? "ok" : ((({ found: "info", failed: "warn" }) as Record<string, Tone>)[x.status] ?? "neutral"));
export const sampleTone = (result: string): Tone => (({ pass: "ok", fail: "danger" }) as Record<string, Tone>)[result] ?? "neutral";
export const runTone = (x: Execution): Tone => (({ success: "ok", running: "info", failure: "danger", timeout: "danger" }) as Record<string, Tone>)[x.status] ?? "neutral";
export const tierTone = (tier: string): Tone => (tier === "readOnly" ? "neutral" : tier === "privileged" ? "danger" : "warn");
