import type { Entry } from "./activity.svelte";

/** Groups of actions that the filter offers. */
export const actionGroups: readonly { value: string; label: string; actions: readonly string[] }[] = [
  { value: "", label: "anything", actions: [] },
  { value: "runs", label: "runs", actions: ["start", "complete", "error"] },
  { value: "access", label: "what runs used", actions: ["permission_check", "resource_access", "network_call", "secret.used"] },
  { value: "permissions", label: "approvals and permissions", actions: ["approval.requested", "approval.decided", "approval.expired", "grant.created", "grant.revoked", "grant.suspended", "definition.changed"] },
  { value: "settings", label: "settings", actions: ["config.changed"] },
  { value: "data", label: "data", actions: ["data.export", "data.restore", "data.rollback", "data.erase", "user.rekeyed"] },
  { value: "audit", label: "the log itself", actions: ["audit.segment", "audit.pruned", "audit.alarm", "audit.accepted", "audit.replaced"] },
];

export const outcomes: readonly { value: string; label: string }[] = [
  { value: "", label: "any" },
  { value: "ok", label: "done" },
  { value: "denied", label: "denied" },
  { value: "error", label: "failed" },
  { value: "pending", label: "waiting" },
];

export function outcomeWord(outcome: string): { word: string; tone: "ok" | "danger" | "warn" | "neutral" } {
  if (outcome === "ok") return { word: "Done", tone: "ok" };
  if (outcome === "denied") return { word: "Denied", tone: "danger" };
  if (outcome === "error") return { word: "Failed", tone: "danger" };
  if (outcome === "pending") return { word: "Waiting", tone: "warn" };
  return { word: outcome || "Done", tone: "neutral" };
}

const sentences: Record<string, string> = {
  start: "started",
  complete: "finished",
  error: "failed",
  permission_check: "asked for a permission",
  resource_access: "used a resource",
  network_call: "used the network",
  "secret.used": "used a secret",
  "approval.requested": "is waiting for an approval",
  "approval.decided": "was answered",
  "approval.expired": "wasn't answered in time",
  "grant.created": "was granted a permission",
  "grant.revoked": "lost a permission",
  "grant.suspended": "had a permission suspended",
  "definition.changed": "was changed",
  "config.changed": "Settings changed",
  "data.export": "Data was exported",
  "data.restore": "A backup was restored",
  "data.rollback": "Data rolled back to an earlier schema",
  "data.erase": "Details were erased",
  "audit.segment": "Log segment signed",
  "audit.pruned": "Old entries removed from the log",
  "audit.alarm": "The end of the log didn't match its head file",
  "audit.accepted": "Log alarm accepted",
  "user.rekeyed": "Device enrolled at a hub",
  "audit.replaced": "Restored data replaced the log",
};

/** Plain details as an object, or an empty one. */
export function detailsOf(e: Pick<Entry, "details">): Record<string, unknown> {
  return e.details && typeof e.details === "object" && !Array.isArray(e.details) ? (e.details as Record<string, unknown>) : {};
}

/** What the subject did, or what happened: without the subject's name. */
export function sentence(e: Pick<Entry, "action" | "details">): string {
  const known = sentences[e.action];
  const d = detailsOf(e);
  const right = typeof d.capability === "string" && typeof d.resource === "string" ? `${d.capability}${d.resource ? `(${d.resource})` : ""}` : d.capability;
  const what = [right, d.resource, d.host, d.key, d.keys, d.name, d.path].find((x) => typeof x === "string" || Array.isArray(x));
  const tail = what === undefined ? "" : `: ${Array.isArray(what) ? what.join(", ") : String(what)}`;
  return (known ?? e.action.replace(/[._]/g, " ")) + tail;
}

/** The subject as a sentence begins with it. */
export function subjectOf(e: Pick<Entry, "subject">): string {
  if (e.subject.name) return e.subject.name;
  const kind = (e.subject.kind || "helix").replaceAll("_", " ");
  return `${kind.charAt(0).toUpperCase()}${kind.slice(1)}${e.subject.id ? ` ${e.subject.id.slice(-6)}` : ""}`;
}

/** Whether the sentence needs the subject in front of it. */
export const aboutSubject = (action: string): boolean => {
  const known = sentences[action];
  return known !== undefined && known[0] === known[0]!.toLowerCase();
};
