import { asError, type RpcError } from "../rpc/errors";
import type { EventData, Result, Rpc } from "../rpc";
import { toasts } from "../ui/toasts.svelte";
import { sayAnswered, type AnswerNotify } from "./answered";

/** A request for a permission, or for trust in a definition. */
export type Approval = Result<"approvals.get">;

/** The duration of a permission. */
export type Scope = "once" | "run" | "session" | "always";

/** Buttons ignore input before this, so that a click meant for something else answers nothing. */
export const GUARD_MS = 500;
/** How long a key must be held for a privileged request. */
export const HOLD_MS = 600;

/**
 * The default duration of an answer, wherever it is given: for the run that asked while it waits, otherwise
 * for one call.
 */
export const defaultScope = (asked: Pick<Approval, "scopes" | "run">): Scope => (asked.run.waiting && asked.scopes.includes("run") ? "run" : ((asked.scopes[0] ?? "once") as Scope));

/** One requested item, with the prepared answer. */
export interface Wanted {
  capability: string;
  resource: string;
  why: string;
  allow: boolean;
}

/** Whether an approval should be shown here. */
export type Fit = (asked: Approval) => boolean;

/** The answer that was given. */
export interface Answered {
  approved: boolean;
  /** The restarted run. */
  runId: string;
  approvalId: string;
}

const prompts = new WeakMap<Rpc, PermissionPrompt>();

/**
 * The single prompt of a connection. The frame shows it on every screen; code that starts something which may
 * ask shows its question there. The frame requests it first, so that it exists as long as the page.
 */
export function promptOf(rpc: Rpc): PermissionPrompt {
  const known = prompts.get(rpc);
  if (known) return known;
  const made = new PermissionPrompt(rpc);
  rpc.on("approvals.changed", (e) => made.follow(e));
  prompts.set(rpc, made);
  return made;
}

/**
 * The permission prompt: the approval that is shown, the prepared answer, and answering. Approvals that
 * arrive while one is shown are queued.
 */
export class PermissionPrompt {
  asked = $state.raw<Approval | null>(null);
  wanted = $state<Wanted[]>([]);
  scope = $state<Scope>("run");
  /** Day on which an `always` grant ends, `YYYY-MM-DD`; empty for no end. */
  expires = $state("");
  remember = $state(false);
  rerun = $state(true);
  /** The buttons accept input. */
  armed = $state(false);
  busy = $state(false);
  error = $state.raw<RpcError | null>(null);
  /** The definition changed while the sheet was open; the new one is shown now. */
  changed = $state(false);

  readonly open = $derived(this.asked !== null);
  readonly privileged = $derived(this.asked?.tier === "privileged");
  /** The available scopes; a draft can be allowed things only once or for this run. */
  readonly scopes = $derived((this.asked?.scopes ?? []) as readonly Scope[]);
  /** The run has ended, and can be restarted with the answer. */
  readonly canRerun = $derived(this.asked !== null && this.asked.run.rerun && !this.asked.run.waiting);
  /** Nothing is ticked. A definition can be trusted without any of its permissions. */
  readonly none = $derived(this.asked?.kind !== "definition" && this.wanted.length > 0 && this.wanted.every((w) => !w.allow));

  readonly #rpc: Rpc;
  readonly #notify: AnswerNotify;
  readonly #queue: { id: string; fit: Fit }[] = [];
  #reading = "";
  #guard: ReturnType<typeof setTimeout> | undefined;
  readonly #listeners: ((a: Answered) => void)[] = [];

  constructor(rpc: Rpc, notify: AnswerNotify = toasts) {
    this.#rpc = rpc;
    this.#notify = notify;
  }

  /** Called after each answer, with the run that was restarted, if any. */
  onAnswer(fn: (a: Answered) => void): void {
    this.#listeners.push(fn);
  }

  #answered(a: Answered): void {
    for (const fn of this.#listeners) fn(a);
  }

  /** Shows an approval unless `fit` rejects it; while another is open it is queued. */
  async show(id: string, fit: Fit = () => true): Promise<void> {
    if (id === "" || this.asked?.id === id || this.#reading === id || this.#queue.some((q) => q.id === id)) return;
    if (this.asked !== null || this.#reading !== "") {
      this.#queue.push({ id, fit });
      return;
    }
    await this.#read(id, fit);
  }

  async #read(id: string, fit: Fit): Promise<void> {
    this.#reading = id;
    let asked: Approval | null = null;
    try {
      asked = await this.#rpc.call("approvals.get", { id });
    } catch (e) {
      this.error = asError(e);
    }
    this.#reading = "";
    if (asked === null || asked.status !== "pending" || !fit(asked)) return this.#next();
    this.#open(asked);
  }

  #open(asked: Approval): void {
    this.asked = asked;
    this.wanted = asked.requested.map((r) => ({ capability: r.capability, resource: r.resource, why: r.why ?? "", allow: true }));
    this.scope = defaultScope(asked);
    this.expires = "";
    this.remember = false;
    this.rerun = true;
    this.error = null;
    this.#arm();
  }

  #arm(): void {
    this.armed = false;
    clearTimeout(this.#guard);
    this.#guard = setTimeout(() => (this.armed = true), GUARD_MS);
  }

  /** Applies answers that were given elsewhere. */
  follow(e: EventData<"approvals.changed">): void {
    if (e.status === "pending") return;
    const at = this.#queue.findIndex((q) => q.id === e.id);
    if (at >= 0) this.#queue.splice(at, 1);
    const id = this.asked?.id;
    if (id !== undefined && id === e.id && !this.busy) {
      this.#close();
      this.#answered({ approved: e.status === "approved", runId: "", approvalId: id });
      this.#next();
    }
  }

  /** Allows the ticked items. */
  approve(): Promise<boolean> {
    return this.#decide("approve");
  }

  /** Allows nothing. */
  deny(): Promise<boolean> {
    return this.#decide("deny");
  }

  async #decide(decision: "approve" | "deny"): Promise<boolean> {
    const asked = this.asked;
    if (asked === null || !this.armed || this.busy) return false;
    if (decision === "approve" && this.none) return false;
    this.busy = true;
    this.error = null;
    try {
      const wanted = $state.snapshot(this.wanted);
      const { scope, remember } = this;
      const result = await this.#rpc.call("approvals.decide", {
        id: asked.id,
        decision,
        definitionHash: asked.definitionHash,
        ...(decision === "approve"
          ? {
              scope,
              ...(scope === "always" && this.expires !== "" ? { expiresAt: endOfDay(this.expires) } : {}),
              ...(wanted.length === 0 ? {} : { items: wanted.map(({ capability, resource, allow }) => ({ capability, resource, allow })) }),
              ...(this.canRerun && this.rerun ? { rerun: true } : {}),
            }
          : { ...(remember ? { remember: true } : {}) }),
      });
      this.#close();
      sayAnswered(this.#rpc, this.#notify, asked, { decision, scope, remember }, result);
      this.#answered({ approved: decision === "approve", runId: result.runId ?? "", approvalId: asked.id });
      this.#next();
      return true;
    } catch (e) {
      const error = asError(e);
      if (error.kind === "conflict") await this.#refresh(asked, error);
      else this.error = error;
      return false;
    } finally {
      this.busy = false;
    }
  }

  /** The definition changed, or somebody else answered: shows the current state. */
  async #refresh(before: Approval, error: RpcError): Promise<void> {
    try {
      const now: Approval = await this.#rpc.call("approvals.get", { id: before.id });
      if (now.status !== "pending") {
        this.#close();
        this.#answered({ approved: now.status === "approved", runId: "", approvalId: before.id });
        this.#next();
        return;
      }
      this.#open(now);
      this.changed = now.definitionHash !== before.definitionHash;
      this.error = error;
    } catch (e) {
      this.error = asError(e);
    }
  }

  /** Closes the sheet without an answer: the request remains in Approvals. */
  later(): void {
    if (this.busy) return;
    const id = this.asked?.id;
    this.#close();
    if (id !== undefined) this.#answered({ approved: false, runId: "", approvalId: id });
    this.#next();
  }

  #close(): void {
    clearTimeout(this.#guard);
    this.asked = null;
    this.wanted = [];
    this.armed = false;
    this.changed = false;
    this.error = null;
  }

  #next(): void {
    const next = this.#queue.shift();
    if (next !== undefined) void this.#read(next.id, next.fit);
  }
}

function endOfDay(day: string): string {
  return new Date(`${day}T23:59:59`).toISOString();
}
