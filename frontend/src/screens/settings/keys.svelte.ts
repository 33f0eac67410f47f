import { asError, type Item, type Result, type Rpc } from "../../lib/rpc";
import { common } from "../../lib/i18n/common";
import { Load, Paged, toasts } from "../../lib/ui/state";
import { Deferred } from "./deferred.svelte";
import { t } from "./messages";

export type Secret = Item<"secrets.list", "secrets">;

const tones = { keyring: "ok", file: "ok", "file, unprotected": "warn", locked: "danger", none: "neutral" } as const;

/** Where the key is stored, in words, and how safe that is. */
export function placeWord(state: string): { title: string; text: string; tone: "ok" | "warn" | "danger" | "neutral" } {
  const known = state in tones ? (state as keyof typeof tones) : "none";
  return { ...t.keyPlaces[known], tone: tones[known] };
}

/** Settings › Keys: the key, the recovery code, the secrets. */
export class KeysState {
  readonly status = new Load<Result<"keys.status">>();
  readonly secrets: Paged<Secret>;
  /** The recovery code while it is shown. It is discarded as soon as it is confirmed or closed. */
  recovery = $state.raw<{ groups: readonly string[]; ask: readonly [number, number] } | null>(null);
  busy = $state("");
  problem = $state("");
  #rpc: Rpc;
  #random: () => number;
  #off: (() => void)[];
  readonly #deleted = new Deferred();

  constructor(rpc: Rpc, random: () => number = Math.random) {
    this.#rpc = rpc;
    this.#random = random;
    this.secrets = new Paged(async (offset, limit, signal) => {
      const r = await rpc.call("secrets.list", { limit, offset }, { signal });
      return { items: r.secrets, total: r.total };
    });
    this.#off = [rpc.onReload(() => void this.load())];
  }

  stop(): void {
    for (const off of this.#off) off();
    this.recovery = null;
  }

  get may(): boolean {
    return this.#rpc.can("keys.status");
  }

  get shown(): Secret[] {
    return this.secrets.items.filter((s) => !this.#deleted.has(s.name));
  }

  async load(): Promise<void> {
    if (!this.may) return;
    await Promise.all([this.status.run((signal) => this.#rpc.call("keys.status", {}, { signal })), this.secrets.reload()]);
  }

  /** Shows the recovery code and picks the two groups that must be typed back. */
  async showRecovery(): Promise<void> {
    await this.#do("recovery", async () => {
      const r = await this.#rpc.call("keys.export_recovery", {});
      const n = r.groups.length;
      const first = Math.floor(this.#random() * n);
      const second = (first + 1 + Math.floor(this.#random() * (n - 1))) % n;
      this.recovery = { groups: r.groups, ask: first < second ? [first, second] : [second, first] };
    });
  }

  /** Whether both typed groups match the code. */
  confirms(a: string, b: string): boolean {
    const r = this.recovery;
    if (!r) return false;
    const same = (typed: string, i: number): boolean => typed.trim().toLowerCase() === r.groups[i]!.toLowerCase();
    return same(a, r.ask[0]) && same(b, r.ask[1]);
  }

  closeRecovery(confirmed: boolean): void {
    this.recovery = null;
    if (confirmed) toasts.ok(t.confirmed, t.storeAway);
    void this.load();
  }

  async importRecovery(code: string): Promise<boolean> {
    return this.#do("import", async () => {
      await this.#rpc.call("keys.import_recovery", { code });
      toasts.ok(common.unlocked);
      await this.load();
    });
  }

  /** Reads the keyring again, after the person has unlocked it. */
  async unlock(): Promise<void> {
    await this.#do("unlock", async () => {
      await this.#rpc.call("keys.unlock", {});
      toasts.ok(common.unlocked);
      await this.load();
    });
  }

  /** Moves a key from its file to the keyring. */
  async moveToKeyring(): Promise<void> {
    await this.#do("move", async () => {
      await this.#rpc.call("keys.move_to_keyring", {});
      toasts.ok(t.moved, t.movedText);
      await this.load();
    });
  }

  async rotate(): Promise<void> {
    if (
      await this.#do("rotate", async () => {
        await this.#rpc.call("keys.rotate", {});
        await this.load();
      })
    )
      toasts.ok(t.rotated, t.rotatedText);
  }

  async setSecret(name: string, value: string): Promise<boolean> {
    return this.#do("secret", async () => {
      await this.#rpc.call("secrets.set", { name, value });
      await this.secrets.reload();
    });
  }

  /** A deleted secret cannot be restored, since its value is never shown: the action waits 10 s. */
  deleteSecret(s: Secret): void {
    this.#deleted.add(s.name, t.secretDeleted(s.name), "", async () => {
      await this.#rpc.call("secrets.delete", { name: s.name });
      await this.secrets.reload();
    });
  }

  async #do(what: string, act: () => Promise<void>): Promise<boolean> {
    if (this.busy) return false;
    this.busy = what;
    this.problem = "";
    try {
      await act();
      return true;
    } catch (e) {
      this.problem = asError(e).message;
      return false;
    } finally {
      this.busy = "";
    }
  }
}
