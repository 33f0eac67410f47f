import type { Execution } from "./types";

type Tone = "neutral" | "ok" | "warn" | "danger" | "info";

export const statusTone = (status: string): Tone => (({ active: "ok", pending_approval: "warn" }) as Record<string, Tone>)[status] ?? "neutral";
export const runTone = (x: Execution): Tone => (({ success: "ok", running: "info", failure: "danger", timeout: "danger" }) as Record<string, Tone>)[x.status] ?? "neutral";
export const tierTone = (tier: string): Tone => (tier === "readOnly" ? "neutral" : tier === "privileged" ? "danger" : "warn");
