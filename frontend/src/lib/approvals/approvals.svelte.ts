import { asError, type EventData, type Item, type Params, type Result, type Rpc } from "../rpc";
import { ListState, route } from "../list/state";
import { sayAnswered } from "../run/answered";
import { defaultScope, GUARD_MS, type Scope } from "../run/prompt.svelte";
import { Load, nav, toasts } from "../ui/state";
import { t } from "./messages";
import { TABS, type Tab } from "./words";

export type Approval = Item<"approvals.list", "approvals">;
export type Detail = Result<"approvals.get">;
export type Grant = Item<"permissions.list", "grants">;
export type Denial = Item<"permissions.list", "denials">;

export interface Answer {
  decision: "approve" | "deny";
  scope?: Scope;
  expiresAt?: string;
  remember?: boolean;
  /** One of the choices of a question. */
  choice?: string;
}

/** The state and the actions of the Approvals screen, without a DOM. */
export class ApprovalsState {
  /** Requests that wait for an answer. */
  readonly waiting: ListState<Approval>;
  /** Requests that were answered or have expired. */
  readonly history: ListState<Approval>;
  readonly rights = new Load<{ grants: readonly Grant[]; denials: readonly Denial[]; total: number }>();
  readonly detail = new Load<Detail>();
  pendingCount = $state(0);
  /** Indexes of the items that the answer will allow. */
  allowed = $state.raw<ReadonlySet<number>>(new Set());
  rerun = $state(false);
  /** What the person entered in the question's form. */
  data = $state.raw<Record<string, unknown>>({});
  answering = $state(false);
  /** Shown above the buttons: the question changed while it was being read. */
  notice = $state("");
  query = $state("");
  grantState = $state<"" | "active" | "suspended" | "revoked" | "expired">("");
  readonly privileged = $derived(this.detail.data?.tier === "privileged");
  /** The default scope of an answer. */
  readonly defaultScope = $derived(this.detail.data ? defaultScope(this.detail.data) : "once");
  /** The request whose details are shown. */
  #shown: string | null = null;
  #rpc: Rpc;
  #now: () => number;
  #appeared = 0;
  #off: (() => void)[];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc, now: () => number = Date.now) {
    this.#rpc = rpc;
    this.#now = now;
    const read = async (status: string, offset: number, limit: number, signal: AbortSignal) => {
      const r = await rpc.call("approvals.list", { status, limit, offset }, { signal });
      this.pendingCount = r.pendingCount;
      return r;
    };
    const id = (a: Approval): string => a.id;
    this.waiting = new ListState({
      id,
      route: route("approvals", TABS.slice(1)),
      read: async ({ offset, limit, signal }) => {
        const r = await read("pending", offset, limit, signal);
        return { items: r.approvals, total: r.total };
      },
    });
    /** Number of waiting requests in the pages read, which are omitted. */
    let skipped = 0;
    this.history = new ListState({
      id,
      route: route("approvals/history"),
      read: async ({ offset, limit, signal }) => {
        if (offset === 0) skipped = 0;
        const r = await read("all", offset + skipped, limit, signal);
        const items = r.approvals.filter((a) => a.status !== "pending");
        skipped += r.approvals.length - items.length;
        return { items, total: r.total - skipped };
      },
    });
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

  /** The tab in the address. */
  get tab(): Tab {
    return TABS.find((x) => x === nav.path[1]) ?? "waiting";
  }

  /** The list in the current tab, if it has one. */
  get list(): ListState<Approval> {
    return this.tab === "history" ? this.history : this.waiting;
  }

  /** The request in the address. */
  get selected(): string | null {
    return this.list.selectedId;
  }

  /** Reads the current tab. */
  async reload(): Promise<void> {
    if (this.tab === "grants" || this.tab === "denials") return this.#loadRights();
    await this.list.page.reload();
    await this.#loadDetail();
  }

  /** Shows a request; its answer buttons are enabled after the guard time. */
  show(id: string | null): void {
    if (this.#shown === id) return;
    this.#shown = id;
    this.notice = "";
    this.detail.cancel();
    this.detail.data = undefined;
    this.detail.error = undefined;
    void this.#loadDetail();
  }

  /** Whether an answer is accepted now. */
  get awake(): boolean {
    return this.#appeared > 0 && this.#now() - this.#appeared >= GUARD_MS;
  }

  toggle(index: number, on: boolean): void {
    const next = new Set(this.allowed);
    if (on) next.add(index);
    else next.delete(index);
    this.allowed = next;
  }

  /** Why the question cannot be answered here, or "". */
  get blocked(): string {
    if (!this.#rpc.connection.open) return t.offline;
    if (!this.#rpc.can("approvals.decide")) return t.viewOnly;
    if (this.detail.data && this.detail.data.status !== "pending") return t.alreadyAnswered;
    return "";
  }

  /** Sends the answer. Does nothing in the first 500 ms, or while another answer is being sent. */
  async answer(a: Answer): Promise<boolean> {
    const d = this.detail.data;
    if (!d || this.answering || !this.awake || this.blocked) return false;
    if (a.decision === "approve" && a.scope && !d.scopes.includes(a.scope)) return false;
    const partial = d.requested.length > 1 && this.allowed.size < d.requested.length;
    if (a.decision === "approve" && partial && this.allowed.size === 0) {
      this.notice = t.nothingSelected;
      return false;
    }
    const params: Params<"approvals.decide"> = { id: d.id, decision: a.decision, definitionHash: d.definitionHash };
    if (d.question) {
      if (a.choice) params.choice = a.choice;
      if (a.decision === "approve" && d.question.form) params.data = $state.snapshot(this.data);
    } else if (a.decision === "approve") {
      params.scope = a.scope ?? this.defaultScope;
      if (a.expiresAt) params.expiresAt = a.expiresAt;
      if (partial) params.items = d.requested.map((i, n) => ({ capability: i.capability, resource: i.resource, allow: this.allowed.has(n) }));
      if (this.rerun && d.run.rerun) params.rerun = true;
    } else if (a.remember) params.remember = true;
    this.answering = true;
    this.notice = "";
    try {
      const r = await this.#rpc.call("approvals.decide", params);
      sayAnswered(this.#rpc, toasts, d, { ...a, scope: a.scope ?? this.defaultScope }, r);
      this.#next(d.id);
      return true;
    } catch (e) {
      const err = asError(e);
      if (err.kind === "conflict") {
        this.notice = t.reviewFirst(err.message);
        await this.#loadDetail();
        return false;
      }
      // The answer can have been stored although a later step failed, so read the current state.
      await this.#loadDetail();
      if (this.detail.data?.id === d.id && this.detail.data.status !== "pending") {
        toasts.add({ title: t.savedNotRestarted, text: err.message, tone: "warn" });
        this.#next(d.id);
        return true;
      }
      toasts.error(err, t.cannotSave);
      return false;
    } finally {
      this.answering = false;
    }
  }

  /** Revokes a permission; Undo restores it within 10 s. */
  async revoke(what: { grantId: string } | { subjectId: string }, title: string): Promise<void> {
    try {
      const r = await this.#rpc.call("permissions.revoke", what);
      await this.#loadRights(); // before the message, because until then the list still offers to revoke
      const undoToken = r.undoToken;
      if (undoToken) toasts.undo(title, () => this.#rpc.call("permissions.revoke", { undoToken }).then(() => this.#loadRights()));
      else toasts.ok(title);
    } catch (e) {
      toasts.error(e, t.cannotRevoke);
    }
  }

  /** Forgets a remembered denial. It waits 10 s, because a denial cannot be restored. */
  forget(d: Denial): void {
    const before = this.rights.data;
    if (!before) return;
    this.rights.data = { ...before, denials: before.denials.filter((x) => x.id !== d.id) };
    toasts.deferred({
      title: t.denialRemoved,
      commit: () => this.#rpc.call("permissions.revoke", { denialId: d.id }),
      revert: () => void this.#loadRights(),
    });
  }

  /** What changed in a suspended subject since its permissions were granted. */
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
    const id = this.#shown;
    if (id === null) return;
    const before = this.detail.data;
    await this.detail.run((signal) => this.#rpc.call("approvals.get", { id }, { signal }));
    const d = this.detail.data;
    if (!d || this.#shown !== id) return;
    // A new question, or one whose text changed, is guarded again.
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

  /** Several consecutive events cause one read. */
  #soon(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.reload(), 60);
  }

  /** After an answer: selects the request below, else above, with a new guard time. */
  #next(answered: string): void {
    this.#appeared = 0;
    if (this.tab === "waiting") {
      this.waiting.hide(answered);
      this.show(this.selected);
    }
    this.#soon();
  }
}
