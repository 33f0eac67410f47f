import { asError, type RpcError } from "../../lib/rpc/errors";
import { Load } from "../../lib/ui/load.svelte";
import type { Rpc } from "../../lib/rpc";
import type { Share } from "./types";

export type Access = "link" | "public";

/** Sharing one tool: its links, creating and revoking one, and the file that works without a hub. */
export class ToolSharing {
  open = $state(false);
  toolId = $state("");
  name = $state("");
  access = $state<Access>("link");
  /** Last day of the link, `YYYY-MM-DD`; empty for none. */
  expires = $state("");
  made = $state.raw<{ shareId: string; url: string; version: string; hub: boolean; note?: string } | null>(null);
  busy = $state(false);
  error = $state.raw<RpcError | null>(null);
  readonly shares = new Load<{ shares: readonly Share[]; hub: boolean }>();

  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Opens the dialog for a tool. */
  begin(toolId: string, name: string): void {
    this.toolId = toolId;
    this.name = name;
    this.made = null;
    this.error = null;
    this.expires = "";
    this.access = "link";
    this.open = true;
    void this.read(toolId);
  }

  close(): void {
    this.open = false;
  }

  /** Reads the shares of a tool. */
  async read(toolId: string): Promise<void> {
    this.toolId = toolId;
    await this.shares.run((signal) => this.#rpc.call("tools.shares", { toolId }, { signal }));
  }

  /** Shares that still work. */
  readonly live = $derived((this.shares.data?.shares ?? []).filter((s) => s.state === "active"));
  /** A hub is connected, so that links open on other devices. Null if unknown. */
  readonly hub = $derived(this.shares.data?.hub ?? null);

  /** Creates a link to the current version. */
  async share(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.error = null;
    try {
      this.made = await this.#rpc.call("tools.share", {
        toolId: this.toolId,
        access: this.access,
        ...(this.expires === "" ? {} : { expiresAt: new Date(`${this.expires}T23:59:59`).toISOString() }),
      });
      await this.read(this.toolId);
    } catch (e) {
      this.error = asError(e);
    } finally {
      this.busy = false;
    }
  }

  /** Revokes a link: it stops working at once. */
  async unshare(shareId: string): Promise<boolean> {
    try {
      await this.#rpc.call("tools.unshare", { shareId });
      if (this.made?.shareId === shareId) this.made = null;
      await this.read(this.toolId);
      return true;
    } catch (e) {
      this.error = asError(e);
      return false;
    }
  }
}
