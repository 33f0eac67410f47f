import { asError, giveUp, type Item, type Result, type RpcError, type Rpc } from "../../lib/rpc";
import { Load, Paged, format, toasts } from "../../lib/ui/state";
import { t } from "./messages";

export type Backup = Item<"storage.backups", "backups">;
export type Status = Result<"storage.status">;

export interface Part {
  name: string;
  bytes: number;
  share: number;
}

const sum = (o: Readonly<Record<string, number>> | undefined): number => Object.values(o ?? {}).reduce((a, b) => a + b, 0);

/** Settings › Data: sizes, backups, restore, export, retention, checks. */
export class DataState {
  readonly status = new Load<Status>();
  readonly backups: Paged<Backup>;
  readonly prune = new Load<Result<"storage.prune">>();
  readonly check = new Load<Result<"storage.check">>();
  /** Results of Verify, by path. */
  verified = $state.raw<Readonly<Record<string, { busy: boolean; ok?: boolean; problems: readonly string[] }>>>({});
  /** The backup that is being reviewed before it is restored. */
  review = $state.raw<{ backup: Pick<Backup, "path" | "name" | "hasKey" | "createdAt">; result: Result<"storage.restore"> | null; error: RpcError | null } | null>(null);
  importing = $state.raw<{ dir: string; result: Result<"storage.import"> } | null>(null);
  busy = $state<"" | "backup" | "restore" | "export" | "import" | "prune">("");
  #rpc: Rpc;
  #off: (() => void)[];

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.backups = new Paged(async (offset, limit, signal) => {
      const r = await rpc.call("storage.backups", { limit, offset }, { signal });
      return { items: r.backups, total: r.total };
    });
    this.#off = [
      rpc.on("storage.backup_progress", (e) => {
        if (e.finished && e.operation === "backup") void this.load();
        // The preview is refused while another operation uses the data.
        else if (e.finished && this.prune.error) void this.preview();
      }),
      rpc.on("config.changed", (e) => {
        if (e.keys.some((k) => /^(history|audit|backup)\./.test(k))) void this.preview();
      }),
      rpc.onReload(() => void this.load()),
    ];
  }

  stop(): void {
    for (const off of this.#off) off();
  }

  async load(): Promise<void> {
    await Promise.all([
      this.status.run((signal) => this.#rpc.call("storage.status", {}, { signal })),
      this.backups.reload(),
      this.preview(),
    ]);
  }

  /** Counts what retention would remove now. */
  preview(): Promise<void> {
    if (!this.#rpc.can("storage.prune")) return Promise.resolve();
    return this.prune.run((signal) => this.#rpc.call("storage.prune", { dryRun: true }, { signal }));
  }

  /** The parts of the bar; free space is omitted. */
  get parts(): Part[] {
    const s = this.status.data;
    if (!s) return [];
    const backups = this.backups.items.reduce((a, b) => a + b.sizeBytes, 0);
    const all = [
      { name: t.parts.database, bytes: s.sizeBytes },
      { name: t.parts.wal, bytes: s.walBytes },
      { name: t.parts.files, bytes: s.blobBytes },
      { name: t.parts.backups, bytes: backups },
    ];
    const total = all.reduce((a, p) => a + p.bytes, 0) || 1;
    return all.map((p) => ({ ...p, share: p.bytes / total }));
  }

  get total(): number {
    return this.parts.reduce((a, p) => a + p.bytes, 0);
  }

  /** "Retention would remove 12 rows (3 KiB) now." */
  get pruneText(): string {
    const tables = this.prune.data?.tables ?? [];
    const rows = tables.reduce((a, x) => a + x.rows, 0);
    const bytes = tables.reduce((a, x) => a + x.bytes, 0);
    return rows === 0 ? t.pruneNothing : t.prune(rows, bytes > 0 ? format.bytes(bytes) : "", tables.filter((x) => x.rows > 0).map((x) => t.inTable(x.rows, x.table)));
  }

  /** Creates a backup. If the path is taken, it returns a text, so that another is requested. */
  async backup(o: { path?: string; blobs: boolean; passphrase: string }): Promise<boolean | string> {
    return this.#do("backup", t.backupFailed, async () => {
      const r = await this.#rpc.call("storage.backup", {
        blobs: o.blobs,
        ...(o.path ? { path: o.path } : {}),
        ...(o.passphrase ? { passphrase: o.passphrase } : {}),
      });
      toasts.ok(t.backedUp(format.bytes(r.sizeBytes)), r.path);
      await this.load();
    }, o.path !== undefined);
  }

  async verify(b: Backup): Promise<void> {
    this.verified = { ...this.verified, [b.path]: { busy: true, problems: [] } };
    try {
      const r = await this.#rpc.call("storage.verify_backup", { path: b.path });
      this.verified = { ...this.verified, [b.path]: { busy: false, ok: r.ok, problems: r.problems } };
    } catch (e) {
      this.verified = { ...this.verified, [b.path]: { busy: false, problems: [asError(e).message] } };
    }
  }

  /** Verifies a backup and counts what would change, without changing anything. */
  async look(backup: { path: string; name: string; hasKey: boolean; createdAt: string }, passphrase = ""): Promise<void> {
    this.review = { backup, result: null, error: null };
    try {
      const result = await this.#rpc.call("storage.restore", { path: backup.path, dryRun: true, ...(passphrase ? { passphrase } : {}) });
      if (this.review?.backup.path === backup.path) this.review = { backup, result, error: null };
    } catch (e) {
      if (this.review?.backup.path === backup.path) this.review = { backup, result: null, error: asError(e) };
    }
  }

  get reviewRows(): number {
    return sum(this.review?.result?.rows);
  }
  get reviewNewer(): number {
    return sum(this.review?.result?.newer);
  }

  /** Closes the review without restoring. */
  dropReview(): void {
    giveUp(this.review?.backup.path);
    this.review = null;
  }

  async restore(passphrase = ""): Promise<boolean> {
    const path = this.review?.backup.path;
    if (!path) return false;
    return this.#do("restore", t.restoreFailed, async () => {
      const r = await this.#rpc.call("storage.restore", { path, ...(passphrase ? { passphrase } : {}) });
      this.review = null;
      toasts.add({ title: t.restored, text: t.replacedKept(r.replacedPath), tone: "ok", ms: 0 });
    });
  }

  /** Exports everything to a folder; if it is not empty, it returns a text. */
  async export(dir: string): Promise<boolean | string> {
    return this.#do("export", t.exportFailed, async () => {
      const r = await this.#rpc.call("storage.export", { dir });
      toasts.ok(t.exported(sum(r.rows), r.files), r.dir);
    }, true);
  }

  /** Reviews a folder; with `take` it imports it. */
  async import(dir: string, take = false): Promise<boolean> {
    return this.#do("import", t.importFailed, async () => {
      const result = await this.#rpc.call("storage.import", { dir, dryRun: !take });
      if (!take) this.importing = { dir, result };
      else {
        this.importing = null;
        toasts.ok(t.imported(sum(result.inserted)), t.importedKnown(sum(result.skipped)));
        await this.load();
      }
    });
  }
  /** Closes the review of an import without importing. */
  dropImport(): void {
    giveUp(this.importing?.dir);
    this.importing = null;
  }
  get importNew(): number {
    return sum(this.importing?.result.inserted);
  }
  get importKnown(): number {
    return sum(this.importing?.result.skipped);
  }

  async pruneNow(): Promise<boolean> {
    return this.#do("prune", t.removeFailed, async () => {
      const r = await this.#rpc.call("storage.prune", {});
      toasts.ok(t.removed(r.tables.reduce((a, x) => a + x.rows, 0)));
      await this.load();
    });
  }

  runCheck(full: boolean): Promise<void> {
    return this.check.run((signal) => this.#rpc.call("storage.check", { full }, { signal }));
  }

  #do(what: typeof this.busy, failed: string, act: () => Promise<void>): Promise<boolean>;
  #do(what: typeof this.busy, failed: string, act: () => Promise<void>, place: boolean): Promise<boolean | string>;
  async #do(what: typeof this.busy, failed: string, act: () => Promise<void>, place = false): Promise<boolean | string> {
    if (this.busy) return false;
    this.busy = what;
    try {
      await act();
      return true;
    } catch (e) {
      if (place && asError(e).kind === "conflict") return asError(e).message;
      toasts.error(e, failed);
      return false;
    } finally {
      this.busy = "";
    }
  }
}
