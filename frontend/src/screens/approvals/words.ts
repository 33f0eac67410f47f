/** The words of rights: one place, so that every screen says the same. */

export type Scope = "once" | "run" | "session" | "always";

export const scopes: readonly { value: Scope; label: string; key: string; explains: string }[] = [
  { value: "once", label: "Once", key: "1", explains: "for one call; expires after an hour if unused" },
  { value: "run", label: "This run", key: "2", explains: "until the run ends" },
  { value: "session", label: "This session", key: "3", explains: "until you close Helix, at most 24 hours" },
  { value: "always", label: "Always…", key: "4", explains: "until you revoke it or it expires" },
];

export const expiries: readonly { value: string; label: string; days: number }[] = [
  { value: "never", label: "no end", days: 0 },
  { value: "1", label: "1 day", days: 1 },
  { value: "7", label: "7 days", days: 7 },
  { value: "30", label: "30 days", days: 30 },
  { value: "90", label: "90 days", days: 90 },
];

/** How much an act can do, in a word and a tone. */
export function tierWord(tier: string): { word: string; tone: "neutral" | "warn" | "danger" } {
  if (tier === "privileged") return { word: "Privileged", tone: "danger" };
  if (tier === "side_effecting") return { word: "Can change data", tone: "warn" };
  return { word: "Reads only", tone: "neutral" };
}

export const kindWord: Record<string, string> = {
  tool: "Tool",
  skill: "Skill",
  wasm: "Module",
  mcp: "MCP server",
  container: "Container",
  agent: "Agent",
  voice_command: "Voice command",
  channel: "Channel",
  schedule: "Schedule",
};

export const statusWord: Record<string, { word: string; tone: "neutral" | "ok" | "danger" | "warn" }> = {
  pending: { word: "Waiting", tone: "warn" },
  approved: { word: "Allowed", tone: "ok" },
  denied: { word: "Denied", tone: "danger" },
  expired: { word: "Expired", tone: "neutral" },
  superseded: { word: "Replaced", tone: "neutral" },
};

export const grantWord: Record<string, { word: string; tone: "neutral" | "ok" | "danger" | "warn" }> = {
  active: { word: "Active", tone: "ok" },
  suspended: { word: "Suspended", tone: "warn" },
  revoked: { word: "Revoked", tone: "neutral" },
  expired: { word: "Expired", tone: "neutral" },
};

export const scopeWord: Record<string, string> = { once: "once", run: "this run", session: "this session", always: "always" };
