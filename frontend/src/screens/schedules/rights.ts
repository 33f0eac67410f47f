/** What a target may do while no one is there to answer. */
import type { Rpc } from "../../lib/rpc";

export interface Rights {
  /** It can run unattended. */
  ok: boolean;
  /** Where it will be denied: the step and the missing permission; empty if it will not. */
  step: string;
  needs: string[];
  /** The backend's explanation, if it has more. */
  reason: string;
  /** It needs no permissions. */
  none: boolean;
  /** The owner of the permissions, as a target for `nav.go`. */
  open: string;
}

const full = (c: { capability: string; resource: string }): string => (c.resource === "" || c.capability.includes("(") ? c.capability : `${c.capability}(${c.resource})`);

/** Checks what would happen without a person. Helix's own jobs need no permissions. */
export async function readRights(rpc: Rpc, kind: string, id: string, signal: AbortSignal): Promise<Rights> {
  if (kind === "skill") {
    const r = await rpc.call("skills.preview_rights", { skillId: id, unattended: true }, { signal });
    const bad = r.steps.find((s) => s.denied || s.missing.length > 0);
    return {
      ok: r.verdict === "ready",
      step: bad ? bad.toolName || bad.stepPath : "",
      needs: bad?.missing ?? [],
      reason: bad?.denied ?? r.reason ?? "",
      none: r.union.length === 0,
      open: `skills/${id}`,
    };
  }
  if (kind === "tool") {
    const r = await rpc.call("permissions.preview", { subject: { kind: "tool", id } }, { signal });
    const lacking = r.union.filter((c) => c.state === "missing" || c.state === "denied");
    return { ok: r.unattended === "ok", step: "", needs: lacking.map(full), reason: "", none: r.union.length === 0, open: `tools/${id}/rights` };
  }
  return { ok: true, step: "", needs: [], reason: "", none: true, open: "" };
}
