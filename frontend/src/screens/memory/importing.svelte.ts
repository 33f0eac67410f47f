import { asError, Upload, type Chosen, type Rpc, type RpcError } from "../../lib/rpc";
import { isFullPath } from "../../lib/ui/files";
import { common } from "../../lib/i18n/common";
import { Load, Paged, toasts } from "../../lib/ui/state";
import { t } from "./messages";
import { WatchedFolders } from "./watched.svelte";
import type { ImportJob, ImportParams, Preview } from "./types";
import { baseName, ended, resultWords, tagsOf } from "./words";

/** How the end of an import is announced while its sheet is closed. */
export interface ImportNotify {
  done(title: string, text: string, job: ImportJob): void;
  error(e: unknown, title?: string): void;
}

export type Step = "choose" | "preview" | "job";

/** Whether a preview failed because an archive unpacks to much more than its size; the person may allow it. */
export function isLargeArchive(e: RpcError | null | undefined): boolean {
  return e?.kind === "limit" && (e.details as { code?: string } | undefined)?.code === "large_archive";
}

const isPath = (p: string): boolean => p.startsWith("pick:") || isFullPath(p);

/** The files of a folder that can be imported; others, such as pictures, are not uploaded. */
const isImportable = (path: string): boolean => /\.(md|markdown|txt|text|json|jsonl|ndjson)$/i.test(path);

/** The path of a dropped file, or "": most browsers do not provide it. */
export function droppedPath(uriList: string): string {
  const first = uriList.split(/\r?\n/).find((l) => l !== "" && !l.startsWith("#")) ?? "";
  if (!first.startsWith("file://")) return "";
  try {
    const path = decodeURIComponent(new URL(first).pathname);
    return /^\/[A-Za-z]:\//.test(path) ? path.slice(1) : path;
  } catch {
    return "";
  }
}

/** The import of a file or a folder: a preview first, then the job, which continues regardless of what is shown. */
export class Importing {
  open = $state(false);
  step = $state<Step>("choose");
  /** A full path, or the token of a chosen or uploaded file. */
  path = $state("");
  /** Shown instead of a token. */
  name = $state("");
  format = $state("auto");
  tags = $state("");
  type = $state("");
  layer = $state(0);
  /** Quoted as untrusted wherever an agent reads it. */
  untrusted = $state(true);
  /** The person allowed unpacking a large archive. */
  allowLarge = $state(false);
  starting = $state(false);
  canceling = $state(false);
  error = $state.raw<RpcError | null>(null);
  /** The shown import. */
  jobId = $state("");
  readonly preview = new Load<Preview>();
  readonly upload: Upload;
  readonly jobs: Paged<ImportJob>;
  readonly watched: WatchedFolders;
  /** The folder is imported again when its notes change. */
  watch = $state(false);
  /** Imports by id, as the last event described them. */
  #live = $state.raw<ReadonlyMap<string, ImportJob>>(new Map());
  readonly #rpc: Rpc;
  readonly #notify: ImportNotify;
  #offs: (() => void)[] = [];
  #announced = new Set<string>();

  constructor(rpc: Rpc, notify: ImportNotify, upload = new Upload(), watched = new WatchedFolders(rpc, toasts)) {
    this.#rpc = rpc;
    this.watched = watched;
    this.upload = upload;
    this.#notify = notify;
    this.jobs = new Paged<ImportJob>(async (offset, limit, signal) => {
      const r = await rpc.call("memory.imports", { offset, limit }, { signal });
      return { items: r.jobs, total: r.total };
    }, 50);
  }

  readonly rows = $derived.by(() => this.jobs.items.map((j) => this.#latest(j)));
  readonly job = $derived.by((): ImportJob | null => this.#live.get(this.jobId) ?? this.jobs.items.find((j) => j.jobId === this.jobId) ?? null);
  readonly running = $derived.by(() => {
    const all = new Map(this.rows.map((j) => [j.jobId, j]));
    for (const [id, j] of this.#live) all.set(id, j);
    return [...all.values()].filter((j) => !ended(j));
  });
  readonly pathProblem = $derived(this.path.trim() === "" || isPath(this.path.trim()) ? "" : t.pathProblem);

  #latest(j: ImportJob): ImportJob {
    return this.#live.get(j.jobId) ?? j;
  }

  /** Follows all imports, for the lifetime of the page. */
  start(): void {
    if (this.#offs.length > 0) return;
    this.#offs = [
      this.#rpc.on("memory.import_progress", (e) => this.#update(e)),
      this.#rpc.on("memory.import_done", (e) => {
        this.#update(e);
        this.#end(e);
      }),
      this.#rpc.onReload(() => {
        this.#live = new Map();
        if (this.open) void this.jobs.reload();
        if (this.jobId !== "") void this.readJob();
      }),
    ];
  }

  stop(): void {
    for (const off of this.#offs.splice(0)) off();
  }

  #update(j: ImportJob): void {
    const had = this.#live.get(j.jobId);
    if (had && ended(had) && !ended(j)) return;
    this.#live = new Map(this.#live).set(j.jobId, j);
  }

  #end(j: ImportJob): void {
    if (this.open) void this.jobs.reload();
    // A watched folder reports in its own list.
    if (j.watchId !== undefined || this.#announced.has(j.jobId) || (this.open && this.jobId === j.jobId)) return;
    this.#announced.add(j.jobId);
    const name = baseName(j.path);
    if (j.status === "completed") this.#notify.done(t.imported(name), resultWords(j), j);
    else if (j.status === "failed") this.#notify.done(t.importFailed(name), j.message ?? "", j);
    else this.#notify.done(t.importStopped(name), t.stoppedHelp(resultWords(j)), j);
  }

  /** Opens the sheet where it was left: a running import is shown, otherwise something can be chosen. */
  begin(): void {
    this.open = true;
    void this.jobs.reload();
    if (this.step === "job" && this.job !== null && ended(this.job)) this.reset();
    const running = this.running[0];
    if (this.step === "choose" && running) this.show(running.jobId);
  }

  /** Opens the sheet at its first step; running imports continue. */
  beginNew(): void {
    this.open = true;
    this.chooseAnother();
    void this.jobs.reload();
  }

  /** Goes back to the first step. A typed path is kept. */
  chooseAnother(): void {
    this.upload.cancel();
    this.upload.drop();
    this.upload.error = null;
    if (this.path.startsWith("pick:")) this.path = "";
    this.step = "choose";
    this.jobId = "";
    this.error = null;
    this.preview.cancel();
    this.preview.data = this.preview.error = undefined;
    this.allowLarge = this.watch = false;
  }

  /** Resets the choice. */
  reset(): void {
    this.chooseAnother();
    this.path = this.name = this.tags = this.type = "";
    this.format = "auto";
    this.layer = 0;
    this.untrusted = true;
  }

  /** Previews the chosen file or folder. */
  async choose(path: string, name = ""): Promise<void> {
    this.path = path.trim();
    this.name = name || (path.startsWith("pick:") ? "" : baseName(path));
    this.error = null;
    this.allowLarge = false;
    if (this.path === "" || this.pathProblem !== "") return;
    this.step = "preview";
    await this.readPreview();
  }

  /** Uploads what was chosen in the browser, then previews it. */
  async send(what: Chosen): Promise<void> {
    this.beginNew();
    const sent = await this.upload.send(what, isImportable);
    if (sent) await this.choose(sent.token, what.name || common.severalFiles);
  }

  /** Reads what an import would add. Nothing is saved. */
  async readPreview(): Promise<void> {
    this.preview.data = this.preview.error = undefined;
    await this.preview.run((signal) => this.#rpc.call("memory.import_preview", this.#source(this.format), { signal }));
  }

  #source(format: string): ImportParams {
    return { path: this.path, format, ...(this.allowLarge && { allowLarge: true }) };
  }

  /** Previews a large archive after the person allowed it. */
  async allowArchive(): Promise<void> {
    this.allowLarge = true;
    await this.readPreview();
  }

  async setFormat(f: string): Promise<void> {
    this.format = f;
    if (this.step === "preview") await this.readPreview();
  }

  /** The chosen folder can be watched: it contains notes, and is not an uploaded copy. */
  readonly watchable = $derived.by(() => {
    const p = this.preview.data;
    return p?.folder === true && (p.format === "markdown" || p.format === "text") && !this.upload.holds(this.path);
  });

  /** Starts the import. */
  async run(): Promise<boolean> {
    if (this.starting) return false;
    const params: ImportParams = { ...this.#source(this.preview.data?.format ?? this.format), untrusted: this.untrusted };
    const tags = tagsOf(this.tags);
    if (tags.length > 0) params.tags = tags;
    if (this.layer > 0) params.layer = this.layer;
    if (this.type !== "") params.type = this.type;
    this.starting = true;
    this.error = null;
    try {
      if (this.watch && this.watchable) {
        await this.watched.add({ ...params, path: this.path });
        this.reset();
        return true;
      }
      const { jobId } = await this.#rpc.call("memory.import", params);
      this.upload.taken();
      this.jobId = jobId;
      this.step = "job";
      await this.readJob();
      void this.jobs.reload();
      return true;
    } catch (e) {
      this.error = asError(e);
      return false;
    } finally {
      this.starting = false;
    }
  }

  /** Shows one import. */
  show(jobId: string): void {
    this.open = true;
    this.jobId = jobId;
    this.step = "job";
    void this.readJob();
  }

  async readJob(): Promise<void> {
    const id = this.jobId;
    if (id === "") return;
    try {
      const j = await this.#rpc.call("memory.import_status", { jobId: id });
      this.#update(j);
      this.error = null;
    } catch (e) {
      if (this.jobId === id) this.error = asError(e);
    }
  }

  /** Cancels an import. What was saved is kept. */
  async cancel(jobId: string): Promise<void> {
    this.canceling = true;
    try {
      this.#update(await this.#rpc.call("memory.import_cancel", { jobId }));
    } catch (e) {
      this.#notify.error(e, t.cannotStopImport);
    } finally {
      this.canceling = false;
    }
  }
}
