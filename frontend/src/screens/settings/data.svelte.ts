import { asError, type Item, type Result, type RpcError, type Rpc } from "../../lib/rpc";
import { Load, Paged, format, toasts } from "../../lib/ui/state";

export type Backup = Item<"storage.backups", "backups">;
export type Status = Result<"storage.status">;

export interface Part {
  name: string;
  bytes: number;
  share: number;
  tone: 1 | 2 | 3 | 4;
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
        // The preview is refused while other work holds the data.
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

  /** The parts of the bar; free space is not found. */
  get parts(): Part[] {
    const s = this.status.data;
    if (!s) return [];
    const backups = this.backups.items.reduce((a, b) => a + b.sizeBytes, 0);
    const all = [
      { name: "Database", bytes: s.sizeBytes, tone: 1 as const },
      { name: "Write-ahead log", bytes: s.walBytes, tone: 2 as const },
      { name: "Files", bytes: s.blobBytes, tone: 3 as const },
      { name: "Backups", bytes: backups, tone: 4 as const },
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
    const rows = tables.reduce((a, t) => a + t.rows, 0);
    const bytes = tables.reduce((a, t) => a + t.bytes, 0);
    if (rows === 0) return "Nothing would be removed with these values.";
    return `With these values ${format.plural(rows, "row")}${bytes > 0 ? ` (${format.bytes(bytes)})` : ""} would be removed now: ${tables
      .filter((t) => t.rows > 0)
      .map((t) => `${format.count(t.rows)} in ${t.table}`)
      .join(", ")}.`;
  }

  /** Makes a backup. A place that is taken is answered with a text, so that another is asked for. */
  async backup(o: { path?: string; blobs: boolean; passphrase: string }): Promise<boolean | string> {
    return this.#do("backup", "Couldn't make the backup", async () => {
      const r = await this.#rpc.call("storage.backup", {
        blobs: o.blobs,
        ...(o.path ? { path: o.path } : {}),
        ...(o.passphrase ? { passphrase: o.passphrase } : {}),
      });
      toasts.ok(`Backed up, ${format.bytes(r.sizeBytes)}`, r.path);
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

  /** Checks a backup and counts what would change, without changing anything. */
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

  async restore(passphrase = ""): Promise<boolean> {
    const path = this.review?.backup.path;
    if (!path) return false;
    return this.#do("restore", "Couldn't restore. Your data is unchanged.", async () => {
      const r = await this.#rpc.call("storage.restore", { path, ...(passphrase ? { passphrase } : {}) });
      this.review = null;
      toasts.add({ title: "Backup restored", text: `The previous data is kept in ${r.replacedPath} for 30 days.`, tone: "ok", ms: 0 });
    });
  }

  /** Writes everything into a folder; one that is not empty is answered with a text. */
  async export(dir: string): Promise<boolean | string> {
    return this.#do("export", "Couldn't export", async () => {
      const r = await this.#rpc.call("storage.export", { dir });
      toasts.ok(`Exported ${format.plural(sum(r.rows), "row")} into ${format.plural(r.files, "file")}`, r.dir);
    }, true);
  }

  /** First looks, then `import(true)` takes it. */
  async import(dir: string, take = false): Promise<boolean> {
    return this.#do("import", "Couldn't import", async () => {
      const result = await this.#rpc.call("storage.import", { dir, dryRun: !take });
      if (!take) this.importing = { dir, result };
      else {
        this.importing = null;
        toasts.ok(`Imported ${format.plural(sum(result.inserted), "row")}`, `${format.plural(sum(result.skipped), "row")} were there already.`);
        await this.load();
      }
    });
  }
  get importNew(): number {
    return sum(this.importing?.result.inserted);
  }
  get importKnown(): number {
    return sum(this.importing?.result.skipped);
  }

  async pruneNow(): Promise<boolean> {
    return this.#do("prune", "Couldn't delete", async () => {
      const r = await this.#rpc.call("storage.prune", {});
      toasts.ok(`Removed ${format.plural(r.tables.reduce((a, t) => a + t.rows, 0), "row")}`);
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
