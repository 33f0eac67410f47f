/** Reports what the answer to a request did, with Undo: the same wherever the answer was given. */
import type { Result, Rpc } from "../rpc";
import type { RpcError } from "../rpc/errors";
import type { Notify } from "../ui/toasts.svelte";
import { t as texts } from "./messages";
import type { Approval, Scope } from "./prompt.svelte";

export type AnswerNotify = Pick<Notify, "add" | "ok" | "undo">;

/** An answer that was given. */
export interface Given {
  decision: "approve" | "deny";
  scope: Scope;
  /** The denial is remembered. */
  remember?: boolean;
  /** One of the choices of a question. */
  choice?: string;
}

/** Shows the effect of an answer, with Undo if permissions were granted. */
export function sayAnswered(rpc: Rpc, notify: AnswerNotify, asked: Approval, given: Given, result: Result<"approvals.decide">): void {
  const t = texts.answered;
  const name = asked.subject.name || t.theRequest;
  if (asked.question) return void notify.ok(t.chosen(name, asked.question.choices.find((c) => c.id === given.choice)?.label ?? ""));
  if (given.decision === "deny") return void notify.add({ title: given.remember ? t.deniedAlways(name) : t.deniedNow(name), tone: "info" });
  const title = result.runId ? t.allowedAgain(name) : t.allowed(name);
  const failed = result.rerunError ? t.notRestarted(result.rerunError) : "";
  const ids = result.grants.map((g) => g.id);
  if (ids.length === 0) return void (failed ? notify.add({ title, text: failed, tone: "warn" }) : notify.ok(title));
  const once = given.scope === "once";
  notify.undo(title, () => takeBack(rpc, notify, asked.subject.id, ids, once), failed || (once ? t.undoOnce : t.undoScope));
}

/** Undoes an answer as far as possible: a call that was made cannot be undone. */
async function takeBack(rpc: Rpc, notify: AnswerNotify, subjectId: string, ids: readonly string[], once: boolean): Promise<void> {
  const t = texts.answered;
  const { grants } = await rpc.call("permissions.list", { subjectId, limit: 100 });
  const used = grants.some((g) => ids.includes(g.id) && g.lastUsedAt);
  for (const grantId of ids) {
    await rpc.call("permissions.revoke", { grantId }).catch((e: RpcError) => {
      if (e.kind !== "not_found" && e.kind !== "conflict") throw e;
    });
  }
  notify.add(used && once ? { title: t.usedUp, text: t.usedUpText, tone: "warn" } : { title: t.revoked, text: used ? t.revokedUsed : t.revokedUnused });
}
