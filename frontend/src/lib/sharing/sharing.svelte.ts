import type { Item, Rpc } from "../rpc";
import { asError, type RpcError } from "../rpc/errors";
import { Load } from "../ui/load.svelte";

export type Access = "link" | "public";
export type Kind = "tool" | "skill";

/** A link; those of skills have no state, because only active ones are listed. */
export type Share = Pick<Item<"skills.shares", "shares">, "shareId" | "url" | "access" | "version" | "expiresAt"> & Partial<Pick<Item<"tools.shares", "shares">, "state" | "opens">>;

/** Sharing one tool or skill: its links, creating and revoking one, and the file that works without a hub. */
export class Sharing {
  open = $state(false);
  id = $state("");
  name = $state("");
  access = $state<Access>("link");
  /** Last day of the link, `YYYY-MM-DD`; empty for none. */
  expires = $state("");
  made = $state.raw<{ shareId: string; url: string; version: string; hub: boolean; note?: string } | null>(null);
  busy = $state(false);
  error = $state.raw<RpcError | null>(null);
  readonly shares = new Load<{ shares: readonly Share[]; hub: boolean }>();

  readonly kind: Kind;
  readonly #rpc: Rpc;

  constructor(rpc: Rpc, kind: Kind) {
    this.#rpc = rpc;
    this.kind = kind;
  }

  /** Opens the dialog. */
  begin(id: string, name: string): void {
    this.id = id;
    this.name = name;
    this.made = null;
    this.error = null;
    this.expires = "";
    this.access = "link";
    this.open = true;
    void this.read(id);
  }

  close(): void {
    this.open = false;
  }

  /** Reads the shares of a tool or skill. */
  async read(id: string): Promise<void> {
    this.id = id;
    await this.shares.run((signal) => (this.kind === "tool" ? this.#rpc.call("tools.shares", { toolId: id }, { signal }) : this.#rpc.call("skills.shares", { skillId: id }, { signal })));
  }

  /** Shares that still work. */
  readonly live = $derived((this.shares.data?.shares ?? []).filter(active));
  /** A hub is connected, so that links open on other devices. Null if unknown. */
  readonly hub = $derived(this.shares.data?.hub ?? null);

  /** Creates a link to the current version. */
  async share(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.error = null;
    try {
      const p = { access: this.access, ...(this.expires === "" ? {} : { expiresAt: new Date(`${this.expires}T23:59:59`).toISOString() }) };
      if (this.kind === "tool") this.made = await this.#rpc.call("tools.share", { toolId: this.id, ...p });
      else this.made = { ...(await this.#rpc.call("skills.share", { skillId: this.id, ...p })), hub: true };
      await this.read(this.id);
    } catch (e) {
      this.error = asError(e);
    } finally {
      this.busy = false;
    }
  }

  /** Revokes a link: it stops working at once. */
  async unshare(shareId: string): Promise<boolean> {
    try {
      await this.#rpc.call(this.kind === "tool" ? "tools.unshare" : "skills.unshare", { shareId });
      if (this.made?.shareId === shareId) this.made = null;
      await this.read(this.id);
      return true;
    } catch (e) {
      this.error = asError(e);
      return false;
    }
  }
}

/** Whether a link works. */
export const active = (s: Share): boolean => s.state === undefined || s.state === "active";
