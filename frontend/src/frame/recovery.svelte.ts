import type { Item, Result, Rpc } from "../lib/rpc";
import { asError, type RpcError } from "../lib/rpc";
import { Load } from "../lib/ui/state";

type Backup = Item<"storage.backups", "backups">;

/** The ways out of recovery mode. No data is changed before the user has chosen. */
export class RecoveryState {
  readonly backups = new Load<Backup[]>();
  /** The result of a dry run of a restore. */
  review = $state.raw<{ backup: Backup; result: Result<"storage.restore"> } | null>(null);
  salvaged = $state.raw<Result<"storage.salvage"> | null>(null);
  busy = $state<"" | "review" | "restore" | "salvage" | "new" | "quit">("");
  error = $state.raw<RpcError | null>(null);
  /** The newest readable backup. */
  readonly newest = $derived(this.backups.data?.find((b) => !b.problem && b.kind !== "rolled-back") ?? null);
  #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  load(): Promise<void> {
    return this.backups.run(async (signal) => (await this.#rpc.call("storage.backups", { limit: 100 }, { signal })).backups);
  }

  /** Verifies the newest backup and counts, without changing anything. */
  async check(): Promise<void> {
    const backup = this.newest;
    if (!backup) return;
    await this.#do("review", async () => {
      this.review = { backup, result: await this.#rpc.call("storage.restore", { path: backup.path, dryRun: true }) };
    });
  }

  async restore(): Promise<void> {
    const review = this.review;
    if (!review) return;
    await this.#do("restore", () => this.#rpc.call("storage.restore", { path: review.backup.path }));
  }

  /** Salvages readable rows. If rows are missing, the result is used only with acceptLoss. */
  async salvage(acceptLoss = false): Promise<void> {
    await this.#do("salvage", async () => {
      this.salvaged = await this.#rpc.call("storage.salvage", { acceptLoss });
    });
  }

  /** Starts with an empty database; the existing one is moved aside. */
  async startNew(): Promise<void> {
    await this.#do("new", () => this.#rpc.call("storage.start_new", {}));
  }

  async quit(): Promise<void> {
    await this.#do("quit", () => this.#rpc.call("system.stop", {}));
  }

  async #do(what: typeof this.busy, act: () => Promise<unknown>): Promise<void> {
    if (this.busy) return;
    this.busy = what;
    this.error = null;
    try {
      await act();
    } catch (e) {
      this.error = asError(e);
    } finally {
      this.busy = "";
    }
  }
}
