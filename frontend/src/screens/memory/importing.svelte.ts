import { asError, Upload, type Rpc, type RpcError } from "../../lib/rpc";
import { Load, Paged } from "../../lib/ui/state";
import type { ImportJob, ImportParams, Preview } from "./types";
import { baseName, ended, resultWords, tagsOf } from "./words";

/** How the end of an import is told when nobody looks at it. */
export interface Tell {
  done(title: string, text: string, job: ImportJob): void;
  error(e: unknown, title?: string): void;
}

export type Step = "choose" | "preview" | "job";

/** Reports whether an import stopped with the question if so large an archive is to be unpacked. */
export function isLargeArchive(e: RpcError | null | undefined): boolean {
  return e?.kind === "limit" && (e.details as { code?: string } | undefined)?.code === "large_archive";
}

const isPath = (p: string): boolean => /^(\/|~\/|[A-Za-z]:[\\/]|pick:)/.test(p);

/** The place that a dropped file names, or "": browsers keep it to themselves, some windows tell. */
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

/** Bringing in a file or a folder: look first, then start; the work goes on whatever is shown. */
export class Importing {
  open = $state(false);
  step = $state<Step>("choose");
  /** A full path, or what the system's own dialog gave. */
  path = $state("");
  /** What a person reads in its place. */
  name = $state("");
  format = $state("auto");
  tags = $state("");
  type = $state("");
  layer = $state(0);
  /** Quoted as untrusted wherever an agent reads it. */
  untrusted = $state(true);
  /** A person has said that a large archive may be unpacked. */
  allowLarge = $state(false);
  starting = $state(false);
  canceling = $state(false);
  error = $state.raw<RpcError | null>(null);
  /** The import that is shown. */
  jobId = $state("");
  readonly preview = new Load<Preview>();
  readonly upload: Upload;
  readonly jobs: Paged<ImportJob>;
  /** What events said of each import since. */
  #live = $state.raw<ReadonlyMap<string, ImportJob>>(new Map());
  readonly #rpc: Rpc;
  readonly #tell: Tell;
  #offs: (() => void)[] = [];
  #told = new Set<string>();

  constructor(rpc: Rpc, tell: Tell, upload = new Upload()) {
    this.#rpc = rpc;
    this.upload = upload;
    this.#tell = tell;
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
  readonly pathProblem = $derived(this.path.trim() === "" || isPath(this.path.trim()) ? "" : "Enter a full path: it starts with / or a drive letter.");

  #latest(j: ImportJob): ImportJob {
    return this.#live.get(j.jobId) ?? j;
  }

  /** Follows all imports, for the life of the page. */
  start(): void {
    if (this.#offs.length > 0) return;
    this.#offs = [
      this.#rpc.on("memory.import_progress", (e) => this.#heard(e)),
      this.#rpc.on("memory.import_done", (e) => {
        this.#heard(e);
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

  #heard(j: ImportJob): void {
    const had = this.#live.get(j.jobId);
    if (had && ended(had) && !ended(j)) return;
    this.#live = new Map(this.#live).set(j.jobId, j);
  }

  #end(j: ImportJob): void {
    if (this.open) void this.jobs.reload();
    if (this.#told.has(j.jobId) || (this.open && this.jobId === j.jobId)) return;
    this.#told.add(j.jobId);
    const name = baseName(j.path);
    if (j.status === "completed") this.#tell.done(`Imported ${name}`, resultWords(j), j);
    else if (j.status === "failed") this.#tell.done(`The import of ${name} failed`, j.message ?? "", j);
    else this.#tell.done(`Stopped the import of ${name}`, `${resultWords(j)}. What was added stays.`, j);
  }

  /** Opens the sheet where it was left: a running import is shown, else something can be chosen. */
  begin(): void {
    this.open = true;
    void this.jobs.reload();
    if (this.step === "job" && this.job !== null && ended(this.job)) this.reset();
    const going = this.running[0];
    if (this.step === "choose" && going) this.show(going.jobId);
  }

  /** Opens the sheet where something else can be chosen; what runs goes on. */
  beginAnew(): void {
    this.open = true;
    this.again();
    void this.jobs.reload();
  }

  /** Back to choosing. A path that was typed before is still there. */
  again(): void {
    this.upload.cancel();
    this.upload.drop();
    this.upload.error = null;
    if (this.path.startsWith("pick:")) this.path = "";
    this.step = "choose";
    this.jobId = "";
    this.error = null;
    this.preview.cancel();
    this.preview.data = this.preview.error = undefined;
    this.allowLarge = false;
  }

  /** Forgets what was chosen. */
  reset(): void {
    this.again();
    this.path = this.name = this.tags = this.type = "";
    this.format = "auto";
    this.layer = 0;
    this.untrusted = true;
  }

  /** A file or folder was chosen: look at it. */
  async choose(path: string, name = ""): Promise<void> {
    this.path = path.trim();
    this.name = name || (path.startsWith("pick:") ? "" : baseName(path));
    this.error = null;
    this.allowLarge = false;
    if (this.path === "" || this.pathProblem !== "") return;
    this.step = "preview";
    await this.look();
  }

  /** A file of this computer was chosen in the browser: send it, then look at it. */
  async send(file: File): Promise<void> {
    this.beginAnew();
    const sent = await this.upload.send(file);
    if (sent) await this.choose(sent.token, sent.name);
  }

  /** Reads what an import would bring. Nothing is stored. */
  async look(): Promise<void> {
    this.preview.data = this.preview.error = undefined;
    await this.preview.run((signal) => this.#rpc.call("memory.import_preview", this.#source(this.format), { signal }));
  }

  #source(format: string): ImportParams {
    return { path: this.path, format, ...(this.allowLarge && { allowLarge: true }) };
  }

  /** The answer to the question about a large archive: look inside all the same. */
  async allow(): Promise<void> {
    this.allowLarge = true;
    await this.look();
  }

  async setFormat(f: string): Promise<void> {
    this.format = f;
    if (this.step === "preview") await this.look();
  }

  /** Starts; it goes on by itself from here. */
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
      this.#heard(j);
      this.error = null;
    } catch (e) {
      if (this.jobId === id) this.error = asError(e);
    }
  }

  /** Stops an import. What was committed stays. */
  async cancel(jobId: string): Promise<void> {
    this.canceling = true;
    try {
      this.#heard(await this.#rpc.call("memory.import_cancel", { jobId }));
    } catch (e) {
      this.#tell.error(e, "Couldn't stop the import");
    } finally {
      this.canceling = false;
    }
  }
}
