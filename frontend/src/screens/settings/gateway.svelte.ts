import { type Item, type Rpc } from "../../lib/rpc";
import { Paged, toasts } from "../../lib/ui/state";
import { Deferred } from "./deferred.svelte";
import { t } from "./messages";

export type Token = Item<"tokens.list", "tokens">;
export type Session = Item<"sessions.list", "sessions">;

/** Tokens and sessions of Settings › Gateway. */
export class GatewayState {
  readonly tokens: Paged<Token>;
  readonly sessions: Paged<Session>;
  /** A token that was just created: it is shown only once. */
  made = $state.raw<{ name: string; token: string } | null>(null);
  #rpc: Rpc;
  #off: (() => void)[];
  readonly #revoked = new Deferred();

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.tokens = new Paged(async (offset, limit, signal) => {
      const r = await rpc.call("tokens.list", { limit, offset }, { signal });
      return { items: r.tokens, total: r.total };
    });
    this.sessions = new Paged(async (offset, limit, signal) => {
      const r = await rpc.call("sessions.list", { limit, offset }, { signal });
      return { items: r.sessions, total: r.total };
    });
    this.#off = [
      rpc.on("tokens.changed", () => void this.tokens.reload()),
      rpc.on("sessions.changed", () => void this.sessions.reload()),
      rpc.onReload(() => void this.load()),
    ];
  }

  stop(): void {
    for (const off of this.#off) off();
  }

  async load(): Promise<void> {
    await Promise.all([
      this.#rpc.can("tokens.list") ? this.tokens.reload() : undefined,
      this.#rpc.can("sessions.list") ? this.sessions.reload() : undefined,
    ]);
  }

  /** Tokens without those that are being revoked. */
  get shown(): Token[] {
    return this.tokens.items.filter((x) => !this.#revoked.has(x.id));
  }

  /** Creates a token; its text is then in `made`. Rejects with the errors of the input. */
  async create(name: string, scopes: readonly string[], days: number): Promise<void> {
    const expiresAt = days > 0 ? { expiresAt: new Date(Date.now() + days * 86_400_000).toISOString() } : {};
    const r = await this.#rpc.call("tokens.create", { name, scopes: [...scopes], ...expiresAt });
    this.made = { name, token: r.token };
    void this.tokens.reload();
  }

  /** A revoked token cannot be restored, so the action waits for 10 s. */
  revoke(x: Token): void {
    this.#revoked.add(x.id, t.revoked(x.name), t.afterUndo, async () => {
      await this.#rpc.call("tokens.revoke", { id: x.id });
      await this.tokens.reload();
    });
  }

  async close(s: Session): Promise<void> {
    try {
      await this.#rpc.call("sessions.close", { sessionId: s.sessionId });
      this.sessions.items = this.sessions.items.filter((x) => x.sessionId !== s.sessionId);
    } catch (e) {
      toasts.error(e, t.closeFailed);
    }
  }

  /** The old root token cannot be restored, so the action waits for 10 s. */
  rotateRoot(): void {
    toasts.deferred({
      title: t.rootReplaced,
      text: t.afterUndo,
      commit: () => this.#rpc.call("tokens.rotate_root", {}),
      revert: () => {},
    });
  }
}
