import { lookup, number } from "../../lib/i18n";
import { format } from "../../lib/ui/state";
import type { Entry } from "./activity.svelte";
import { t } from "./messages";

/** Groups of actions that the filter offers. */
export type Group = "" | "runs" | "access" | "permissions" | "changes" | "imports" | "settings" | "log";

const changed = (noun: string, ...more: string[]): string[] => ["created", "updated", "deleted", "restored", ...more].map((verb) => `${noun}.${verb}`);

/** The actions of each group; the backend takes at most 32 at once. */
export const actionsOf: Record<Group, readonly string[]> = {
  "": [],
  runs: ["start", "complete", "error", "skill.run", "callable.call"],
  access: ["permission_check", "resource_access", "network_call", "secret.used"],
  permissions: ["approval.requested", "approval.decided", "approval.expired", "grant.created", "grant.revoked", "grant.suspended", "denial.removed", "definition.changed"],
  changes: [...changed("tool", "imported", "exported", "rolled_back", "signed", "shared"), ...changed("skill", "imported", "exported", "rolled_back"), ...changed("schedule", "paused", "resumed", "disabled", "paused_all", "resumed_all"), "tool.state_cleared", "tool.state_restored"],
  imports: ["import.started", "import.completed", "import.failed", "import.cancelled", "data.import", "data.export", "data.restore", "data.rollback", "data.erase", "user.rekeyed"],
  settings: ["config.changed", "secret.set", "secret.deleted", "signer.trusted", "providers.set", "providers.removed", "providers.role_set", "mcp.add", "mcp.remove", "channel.added", "channel.removed", "sync.connected", "sync.disconnected", "gateway.lockout", "gateway.root_rotated", "gateway.token_created", "gateway.token_revoked", "auth.device_key", "auth.key_moved", "auth.keys_rotated", "auth.recovery_exported", "auth.recovery_imported"],
  log: ["audit.segment", "audit.pruned", "audit.alarm", "audit.accepted", "audit.replaced", "audit.resumed"],
};

/** Whether Helix itself writes this entry frequently: days show only how many there are. */
export const isRoutine = (action: string): boolean => action === "audit.segment";

export function outcomeTone(outcome: string): "ok" | "danger" | "warn" | "neutral" {
  if (outcome === "ok") return "ok";
  return outcome === "denied" || outcome === "error" ? "danger" : outcome === "pending" ? "warn" : "neutral";
}
const capital = (s: string): string => s.charAt(0).toUpperCase() + s.slice(1);
export const outcomeWord = (outcome: string): string => capital(lookup(t.outcomes, outcome || "ok"));

/** The details as a plain object, or an empty one. */
export function detailsOf(e: Pick<Entry, "details">): Record<string, unknown> {
  return e.details && typeof e.details === "object" && !Array.isArray(e.details) ? (e.details as Record<string, unknown>) : {};
}

const text = (v: unknown): string => (typeof v === "string" ? format.visible(v, 80) : "");

/** Subjects whose id is their name. */
const namedById = new Set(["secret", "provider", "model_role", "mcp", "hub"]);

/** The name of the subject; "" if it has none. For a deleted subject, the entry itself may contain it. */
export function nameOf(e: Pick<Entry, "subject" | "details">): string {
  const { kind, id, name } = e.subject;
  return format.visible(name || text(detailsOf(e)["name"]) || text(detailsOf(e)["channel"]) || (namedById.has(kind) ? id : ""), 60);
}

/** The subject as the beginning of a sentence: "Skill Check a table". */
export function subjectOf(e: Pick<Entry, "subject" | "details">): string {
  const { kind } = e.subject;
  const name = nameOf(e);
  if (kind in t.kinds) return name === "" ? lookup(t.unnamed, kind) : t.named(lookup(t.kinds, kind), name);
  return name || (kind === "" ? t.helix : capital(lookup(t.kinds, kind)));
}

/** What an entry is about besides its subject: a permission, a host, keys of settings, a count. */
function detailOf(e: Pick<Entry, "action" | "details">): string {
  const d = detailsOf(e);
  if (typeof d["capability"] === "string") return `${text(d["capability"])}${d["resource"] ? `(${text(d["resource"])})` : ""}`;
  if (e.action.startsWith("import.")) return typeof d["added"] === "number" ? t.added(d["added"]) : "";
  const found = [d["resource"], d["host"], d["key"], d["keys"], d["name"], d["path"]].find((x) => typeof x === "string" || Array.isArray(x));
  return Array.isArray(found) ? found.map((x) => (typeof x === "number" ? number(x) : text(x))).join(", ") : text(found);
}

/** What happened, as a sentence. */
export function sentence(e: Pick<Entry, "action" | "details" | "subject" | "outcome">): string {
  const subject = subjectOf(e);
  const known = t.sentences[`${e.action}/${e.outcome}`] ?? t.sentences[e.action];
  if (known) return known(subject, detailOf(e));
  const change = t.changes[e.action.slice(e.action.lastIndexOf(".") + 1)];
  return change ? change(subject) : t.other(subject, e.action.replace(/[._]/g, " "));
}

/** Who did it: "you, in the window"; empty if the sentence already says it. */
export function whoOf(e: Pick<Entry, "actor" | "subject">): string {
  const { kind, id, name, client = "" } = e.actor;
  if (kind === e.subject.kind && id === e.subject.id && kind !== "") return "";
  if (kind === "user" || kind === "") return lookup(t.you, client);
  return name ? t.tokenNamed(format.visible(name, 60)) : lookup(t.actors, kind);
}
