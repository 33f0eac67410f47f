import { RpcError, asError, type EventData, type Item, type Params, type Result, type Rpc } from "../../lib/rpc";
import { Load, Paged, toasts } from "../../lib/ui/state";
import type { Scope } from "./words";

export type Approval = Item<"approvals.list", "approvals">;
export type Detail = Result<"approvals.get">;
export type Grant = Item<"permissions.list", "grants">;
export type Denial = Item<"permissions.list", "denials">;
export type Tab = "waiting" | "grants" | "denials" | "history";

/** Answers are refused for this long after a question appears: a key meant for something else must not answer it. */
export const guardMs = 500;
/** A privileged question needs the pointer, or a key held for this long. */
export const holdMs = 600;

export interface Answer {
  decision: "approve" | "deny";
  scope?: Scope;
  expiresAt?: string;
  remember?: boolean;
  /** One of the choices of a question. */
  choice?: string;
}

/** What the Approvals screen shows and does. No DOM. */
export class ApprovalsState {
  tab = $state<Tab>("waiting");
  selected = $state<string | null>(null);
  readonly waiting: Paged<Approval>;
  readonly history: Paged<Approval>;
  readonly rights = new Load<{ grants: readonly Grant[]; denials: readonly Denial[]; total: number }>();
  readonly detail = new Load<Detail>();
  pendingCount = $state(0);
  /** Items of the question that the answer will allow, by index. */
  allowed = $state.raw<ReadonlySet<number>>(new Set());
  rerun = $state(false);
  /** What the person entered in the question's form. */
  data = $state.raw<Record<string, unknown>>({});
  answering = $state(false);
  /** Said above the buttons: the question changed while it was being read. */
  notice = $state("");
  query = $state("");
  grantState = $state<"" | "active" | "suspended" | "revoked" | "expired">("");
  readonly privileged = $derived(this.detail.data?.tier === "privileged");
  #rpc: Rpc;
  #now: () => number;
  #appeared = 0;
  #off: (() => void)[];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc, now: () => number = Date.now) {
    this.#rpc = rpc;
    this.#now = now;
    const page = (status: string) => async (offset: number, limit: number, signal: AbortSignal) => {
      const r = await rpc.call("approvals.list", { status, limit, offset }, { signal });
      this.pendingCount = r.pendingCount;
      return { items: r.approvals, total: r.total };
    };
    this.waiting = new Paged(page("pending"));
    this.history = new Paged(page("all"));
    this.#off = [
      rpc.on("approvals.changed", (e) => this.#changed(e)),
      rpc.on("permissions.changed", () => this.#soon()),
      rpc.onReload(() => void this.reload()),
    ];
  }

  stop(): void {
    clearTimeout(this.#timer);
    for (const off of this.#off) off();
  }

  /** Reads what the current tab shows. */
  async reload(): Promise<void> {
    if (this.tab === "waiting") await this.waiting.reload();
    else if (this.tab === "history") await this.history.reload();
    else await this.#loadRights();
    if (this.selected && (this.tab === "waiting" || this.tab === "history")) await this.#loadDetail();
  }

  show(tab: Tab): void {
    if (this.tab === tab) return;
    this.tab = tab;
    this.select(null);
    void this.reload();
  }

  /** Selects a question; its answer buttons wake up after the guard. */
  select(id: string | null): void {
    if (this.selected === id) return;
    this.selected = id;
    this.notice = "";
    this.detail.cancel();
    this.detail.data = undefined;
    this.detail.error = undefined;
    if (id && (this.tab === "waiting" || this.tab === "history")) void this.#loadDetail();
  }

  /** Whether an answer is accepted now. */
  get awake(): boolean {
    return this.#appeared > 0 && this.#now() - this.#appeared >= guardMs;
  }

  toggle(index: number, on: boolean): void {
    const next = new Set(this.allowed);
    if (on) next.add(index);
    else next.delete(index);
    this.allowed = next;
  }

  /** Why the question cannot be answered here, or "". */
  get blocked(): string {
    if (!this.#rpc.connection.open) return "Helix is not connected.";
    if (!this.#rpc.can("approvals.decide")) return "View only: this session can't answer approvals.";
    if (this.detail.data && this.detail.data.status !== "pending") return "This was already answered.";
    return "";
  }

  /** Sends the answer. Does nothing in the first 500 ms, or while another answer is under way. */
  async answer(a: Answer): Promise<boolean> {
    const d = this.detail.data;
    if (!d || this.answering || !this.awake || this.blocked) return false;
    if (a.decision === "approve" && a.scope && !d.scopes.includes(a.scope)) return false;
    const partial = d.requested.length > 1 && this.allowed.size < d.requested.length;
    if (a.decision === "approve" && partial && this.allowed.size === 0) {
      this.notice = "Nothing is selected. Select what to allow, or deny the request.";
      return false;
    }
    const params: Params<"approvals.decide"> = { id: d.id, decision: a.decision, definitionHash: d.definitionHash };
    if (d.question) {
      if (a.choice) params.choice = a.choice;
      if (a.decision === "approve" && d.question.form) params.data = $state.snapshot(this.data);
    } else if (a.decision === "approve") {
      params.scope = a.scope ?? "once";
      if (a.expiresAt) params.expiresAt = a.expiresAt;
      if (partial) params.items = d.requested.map((i, n) => ({ capability: i.capability, resource: i.resource, allow: this.allowed.has(n) }));
      if (this.rerun && d.run.rerun) params.rerun = true;
    } else if (a.remember) params.remember = true;
    this.answering = true;
    this.notice = "";
    try {
      const r = await this.#rpc.call("approvals.decide", params);
      this.#said(d, a, r);
      this.#next(d.id);
      return true;
    } catch (e) {
      const err = asError(e);
      if (err.kind === "conflict") {
        this.notice = `${err.message} Review it before you answer.`;
        await this.#loadDetail();
        return false;
      }
      // The answer can be kept although what came after it failed: ask what is true now.
      await this.#loadDetail();
      if (this.detail.data?.id === d.id && this.detail.data.status !== "pending") {
        toasts.add({ title: "Your answer was saved, but the run didn't restart", text: err.message, tone: "warn" });
        this.#next(d.id);
        return true;
      }
      toasts.error(err, "Couldn't save the answer");
      return false;
    } finally {
      this.answering = false;
    }
  }

  /** Takes a right back; Undo gives it again for 10 s. */
  async revoke(what: { grantId: string } | { subjectId: string }, title: string): Promise<void> {
    try {
      const r = await this.#rpc.call("permissions.revoke", what);
      await this.#loadRights(); // told when the list shows it: else it still offers to revoke
      const undoToken = r.undoToken;
      if (undoToken) toasts.undo(title, () => this.#rpc.call("permissions.revoke", { undoToken }).then(() => this.#loadRights()));
      else toasts.ok(title);
    } catch (e) {
      toasts.error(e, "Couldn't revoke the permission");
    }
  }

  /** Forgets a remembered refusal. It waits 10 s, since the refusal could not be put back. */
  forget(d: Denial): void {
    const before = this.rights.data;
    if (!before) return;
    this.rights.data = { ...before, denials: before.denials.filter((x) => x.id !== d.id) };
    toasts.deferred({
      title: "Denial removed. It asks again next time.",
      commit: () => this.#rpc.call("permissions.revoke", { denialId: d.id }),
      revert: () => void this.#loadRights(),
    });
  }

  /** What changed in a suspended subject since its rights were given. */
  diff(g: Grant): Promise<Result<"permissions.diff">> {
    return this.#rpc.call("permissions.diff", { subjectKind: g.subject.kind, subjectId: g.subject.id, from: g.definitionHash });
  }

  /** Grants by subject, suspended ones first, filtered. */
  get grants(): { subject: Grant["subject"]; grants: Grant[] }[] {
    const q = this.query.trim().toLowerCase();
    const groups = new Map<string, { subject: Grant["subject"]; grants: Grant[] }>();
    for (const g of this.rights.data?.grants ?? []) {
      if (this.grantState ? g.state !== this.grantState : g.state !== "active" && g.state !== "suspended") continue;
      if (q && !`${g.subject.name ?? ""} ${g.sentence} ${g.resource}`.toLowerCase().includes(q)) continue;
      const key = `${g.subject.kind} ${g.subject.id}`;
      const group = groups.get(key) ?? { subject: g.subject, grants: [] };
      group.grants.push(g);
      groups.set(key, group);
    }
    const rank = (l: Grant[]): number => (l.some((g) => g.state === "suspended") ? 0 : 1);
    return [...groups.values()].sort((a, b) => rank(a.grants) - rank(b.grants));
  }

  async #loadRights(): Promise<void> {
    await this.rights.run(async (signal) => {
      const grants: Grant[] = [];
      let page: Result<"permissions.list">;
      do {
        page = await this.#rpc.call("permissions.list", { limit: 100, offset: grants.length }, { signal });
        grants.push(...page.grants);
      } while (page.grants.length > 0 && grants.length < Math.min(page.total, 1000));
      return { grants, denials: page.denials, total: page.total };
    });
  }

  async #loadDetail(): Promise<void> {
    const id = this.selected;
    if (!id) return;
    const before = this.detail.data;
    await this.detail.run((signal) => this.#rpc.call("approvals.get", { id }, { signal }));
    const d = this.detail.data;
    if (!d || this.selected !== id) return;
    // A new question, or one that reads otherwise than before, wakes up anew.
    if (before?.id !== d.id || before.definitionHash !== d.definitionHash || before.requested.length !== d.requested.length) {
      this.#appeared = this.#now();
      this.allowed = new Set(d.requested.keys());
      this.rerun = d.run.rerun && !d.run.waiting;
    }
  }

  #changed(e: EventData<"approvals.changed">): void {
    this.pendingCount = e.pendingCount;
    this.#soon();
  }

  /** Many events in a row are one read. */
  #soon(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.reload(), 60);
  }

  #said(d: Detail, a: Answer, r: Result<"approvals.decide">): void {
    const name = d.subject.name || "The request";
    if (d.question) {
      const label = d.question.choices.find((c) => c.id === a.choice)?.label ?? "";
      return void toasts.ok(`${name}: ${label}`);
    }
    if (a.decision === "deny") {
      toasts.add({ title: a.remember ? `${name} is denied from now on` : `${name} was denied`, tone: "info" });
      return;
    }
    const ids = r.grants.map((g) => g.id);
    const title = r.runId ? `${name} was allowed and is running again` : `${name} was allowed`;
    const text = r.rerunError ? `The run didn't restart: ${r.rerunError}` : "";
    if (ids.length === 0) return void (text ? toasts.add({ title, text, tone: "warn" }) : toasts.ok(title));
    toasts.undo(title, async () => {
      for (const grantId of ids) {
        await this.#rpc.call("permissions.revoke", { grantId }).catch((e: RpcError) => {
          if (e.kind !== "not_found" && e.kind !== "conflict") throw e;
        });
      }
      toasts.add({ title: "Permission revoked" });
    }, text);
  }

  /** After an answer: the neighbour below, else above, with a fresh guard. */
  #next(answered: string): void {
    const list = this.waiting.items;
    const i = list.findIndex((a) => a.id === answered);
    const next = list[i + 1] ?? list[i - 1];
    this.waiting.items = list.filter((a) => a.id !== answered);
    this.#appeared = 0;
    this.select(next && next.id !== answered ? next.id : null);
    this.#soon();
  }
}
