import { asError, type RpcError } from "../rpc/errors";
import type { Item, Result, Rpc } from "../rpc";
import { Load } from "../ui/load.svelte";
import { full } from "./words";

interface Held {
  grants: readonly Item<"permissions.list", "grants">[];
  denials: readonly Item<"permissions.list", "denials">[];
}

/** What one tool may do: its effective permissions, the grants and denials behind them, and the waiting request. */
export class Permissions {
  readonly preview = new Load<Result<"permissions.preview">>();
  readonly held = new Load<Held>();
  /** Why the last action was refused. */
  error = $state.raw<RpcError | null>(null);
  #subject: { kind: string; id: string } | null = null;
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Selects a tool, or nothing, without reading. */
  show(subject: { kind: string; id: string } | null): void {
    this.#subject = subject;
    this.preview.clear();
    this.held.clear();
    this.error = null;
  }

  async read(): Promise<void> {
    const subject = this.#subject;
    if (subject === null) return;
    await Promise.all([
      this.preview.run((signal) => this.#rpc.call("permissions.preview", { subject }, { signal })),
      this.held.run(async (signal) => {
        const r = await this.#rpc.call("permissions.list", { subjectId: subject.id, limit: 100 }, { signal });
        return { grants: r.grants.filter((g) => g.state === "active" || g.state === "suspended"), denials: r.denials };
      }),
    ]);
  }

  /** Revokes a grant. Returns a function that grants it again, or null if it was refused. */
  async revoke(grantId: string): Promise<(() => Promise<void>) | null> {
    this.error = null;
    try {
      const { undoToken } = await this.#rpc.call("permissions.revoke", { grantId });
      void this.read();
      return async () => {
        await this.#rpc.call("permissions.revoke", { undoToken });
        await this.read();
      };
    } catch (e) {
      this.error = asError(e);
      return null;
    }
  }

  /** The waiting request for this capability, else any waiting request; null if there is none. */
  async pendingFor(capability: string): Promise<string | null> {
    if (this.#subject === null) return null;
    this.error = null;
    try {
      const { approvals } = await this.#rpc.call("approvals.list", { subjectId: this.#subject.id, status: "pending", limit: 100 });
      return (approvals.find((a) => a.requested.some((r) => full(r.capability, r.resource) === capability)) ?? approvals[0])?.id ?? null;
    } catch (e) {
      this.error = asError(e);
      return null;
    }
  }
}
