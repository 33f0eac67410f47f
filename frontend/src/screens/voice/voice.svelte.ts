import { ListState, route } from "../../lib/list/state";
import { base64, JobList, Load, nav, toasts, type Notify } from "../../lib/ui/state";
import { bridge, RpcError, Upload, type Rpc } from "../../lib/rpc";
import { memoAt } from "./address";
import { Commands } from "./commands.svelte";
import { OpenMemo } from "./memo.svelte";
import { t } from "./messages";
import { Recorder } from "./recorder.svelte";
import { views, type Engine, type Hit, type Job, type Memo, type Queue, type Settings, type View, type Voicemail, type VoicemailList } from "./types";

/** The largest file that travels inside of a call. */
const mostInline = 10 * 1024 ** 2;

export type Filters = { status: string; tag: string };

/** The Voice screen: memos, the open one, the search of what was said, the queue and the settings. */
export class VoiceScreen {
  readonly list: ListState<Memo, Filters>;
  readonly hits: ListState<Hit>;
  readonly open: OpenMemo;
  readonly recorder: Recorder;
  readonly commands: Commands;
  readonly queue = new Load<Queue>();
  readonly voicemail = new Load<VoicemailList>();
  /** The voicemail that is shown is the archived one. */
  archived = $state(false);
  readonly engines = new Load<readonly Engine[]>();
  readonly settings = new Load<Settings>();
  readonly upload = new Upload();
  readonly jobs = new JobList();
  /** The dialog that chooses a file to import is open. */
  importing = $state(false);
  /** Downloads of models that this page started, by id. */
  readonly #installs = new Map<string, AbortController>();
  /** The memo whose title and tags are edited, or null. */
  editing = $state.raw<Memo | null>(null);
  /** The tags of the memos that were read. */
  tags = $state.raw<readonly string[]>([]);
  readonly #rpc: Rpc;
  readonly #notify: Notify;

  constructor(rpc: Rpc, notify: Notify = toasts) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.open = new OpenMemo(rpc, notify);
    this.recorder = new Recorder(rpc, notify);
    this.commands = new Commands(rpc, notify);
    this.list = new ListState<Memo, Filters>({
      id: (m) => m.id,
      route: route("voice", views.slice(1)),
      filters: { status: "", tag: "" },
      read: async ({ query, filters, offset, limit, signal }) => {
        const r = await rpc.call("voice.list_memos", { limit, offset, ...(query === "" ? {} : { query }), ...(filters.status === "" ? {} : { status: filters.status }), ...(filters.tag === "" ? {} : { tags: [filters.tag] }) }, { signal });
        this.tags = [...new Set([...this.tags, ...r.memos.flatMap((m) => m.tags)])].sort();
        return { items: r.memos, total: r.total };
      },
    });
    this.hits = new ListState<Hit>({
      id: (h) => h.memoId ?? h.recordingId,
      route: { selected: () => null, to: () => "voice/search" },
      read: async ({ query, offset, limit, signal }) => {
        if (query === "") return { items: [], total: 0 };
        const r = await rpc.call("voice.search_transcripts", { query, offset, limit }, { signal });
        return { items: r.results, total: r.total };
      },
    });
  }

  start(): void {
    this.list.start(
      this.#rpc,
      ["voice.transcript", "voice.queue"],
      this.#rpc.on("voice.transcript", (e) => {
        this.open.changed(e.recordingId);
        void this.readVoicemail();
      }),
      this.#rpc.on("voice.queue", () => void this.readQueue()),
      this.#rpc.on("voice.model_progress", (e) => this.#downloaded(e)),
      this.#rpc.onReload(() => void Promise.all([this.readQueue(), this.open.read()])),
    );
    this.recorder.start();
    this.commands.start();
    void this.list.page.reload();
    void this.readQueue();
    void this.readVoicemail();
    void this.readEngines();
    void this.readSettings();
  }

  /** Reads what a view shows. */
  show(view: View): void {
    if (view === "search") void this.hits.page.reload();
    if (view === "voicemail") void this.readVoicemail();
    if (view === "commands") void this.commands.list.page.reload();
    if (view === "queue") void Promise.all([this.readQueue(), this.readEngines()]);
    if (view === "settings") void Promise.all([this.readSettings(), this.readEngines(), this.recorder.readDevices()]);
  }

  readQueue(): Promise<void> {
    return this.queue.run(async (signal) => {
      const q = await this.#rpc.call("voice.queue", {}, { signal });
      const n = q.pending + q.processing;
      if (q.processing > 0) this.jobs.put({ id: "voice.queue", title: t.transcribing(n), step: "", target: "voice/queue" });
      else this.jobs.remove("voice.queue");
      return q;
    });
  }
  readVoicemail(): Promise<void> {
    return this.voicemail.run((signal) => this.#rpc.call("voice.list_voicemail", { archived: this.archived, limit: 200 }, { signal }));
  }
  showArchived(on: boolean): void {
    this.archived = on;
    void this.readVoicemail();
  }
  /** Marks a message as heard or archived, or takes that back. */
  async mark(m: Voicemail, change: { heard?: boolean; archived?: boolean }): Promise<void> {
    try {
      await this.#rpc.call("voice.mark_voicemail", { id: m.id, ...change });
      if (change.archived) this.#notify.undo(t.archived(m.sender), () => this.mark(m, { archived: false }));
    } catch (e) {
      this.#notify.error(e, t.markFailed);
    }
    await this.readVoicemail();
  }
  readEngines(): Promise<void> {
    return this.engines.run(async (signal) => (await this.#rpc.call("voice.engines", {}, { signal })).engines);
  }

  /** Downloads a model. What is already there of it is kept. */
  async install(engine: string, model: string): Promise<void> {
    const stop = new AbortController();
    this.#installs.set(model, stop);
    this.#downloaded({ engine, model, ended: false });
    try {
      this.engines.data = (await this.#rpc.call("voice.install_model", { engine, model }, { signal: stop.signal })).engines;
      this.#notify.ok(t.modelInstalled(model));
    } catch (e) {
      if (!stop.signal.aborted) this.#notify.error(e, t.installFailed(model));
      await this.readEngines();
    } finally {
      this.#installs.delete(model);
    }
  }
  /** Whether this page started the download of a model. */
  installing(model: string): boolean {
    return this.#installs.has(model);
  }
  /** Ends a download of this page; installing again continues it. */
  pause(model: string): void {
    this.#installs.get(model)?.abort();
  }
  /** Deletes a model from this device. */
  async removeModel(engine: string, model: string): Promise<void> {
    try {
      this.engines.data = (await this.#rpc.call("voice.remove_model", { engine, model })).engines;
    } catch (e) {
      this.#notify.error(e, t.removeFailed(model));
    }
  }
  #downloaded(e: { engine: string; model: string; done?: number; ended: boolean }): void {
    if (e.ended) return void this.readEngines();
    this.engines.data = this.engines.data?.map((x) => (x.id === e.engine ? { ...x, downloads: x.downloads?.map((m) => (m.id === e.model ? { ...m, downloading: true, done: e.done ?? m.done } : m)) } : x));
  }
  readSettings(): Promise<void> {
    return this.settings.run((signal) => this.#rpc.call("voice.get_settings", {}, { signal }));
  }

  /** The name of an engine; "person" wrote the text. */
  engineName(id: string): string {
    if (id === "person") return t.byPerson;
    return this.engines.data?.find((e) => e.id === id)?.name ?? id;
  }

  /** Changes settings; false if the backend refused. */
  async set(change: Partial<Settings>): Promise<boolean> {
    try {
      this.settings.data = await this.#rpc.call("voice.update_settings", change);
      return true;
    } catch (e) {
      this.#notify.error(e, t.settingsFailed);
      void this.readSettings();
      return false;
    }
  }

  /** Imports dropped files one after the other. */
  async importFiles(files: readonly File[]): Promise<void> {
    for (const file of files) {
      if (bridge()) {
        // The window can't upload; its own dialog has no limit.
        if (file.size > mostInline) return this.#notify.error(new RpcError({ message: t.tooLargeToDrop, kind: "limit", code: "LIMIT" }), t.importFailed(file.name));
        await this.#import({ audioBase64: base64(new Uint8Array(await file.arrayBuffer())) }, file.name);
      } else {
        const sent = await this.upload.send(file);
        if (!sent) return;
        await this.importPath(sent.token, sent.name);
      }
    }
  }

  /** Imports a chosen file. */
  async importPath(path: string, name = path.split(/[\\/]/).at(-1) ?? path): Promise<void> {
    await this.#import({ path }, name);
    if (this.upload.holds(path)) this.upload.taken();
  }

  async #import(source: { path: string } | { audioBase64: string }, name: string): Promise<void> {
    try {
      const { memoId } = await this.#rpc.call("voice.upload_memo", { ...source, title: name.replace(/\.[^.]+$/, "").slice(0, 200) });
      await this.list.page.reload();
      nav.go(memoAt(memoId));
    } catch (e) {
      this.#notify.error(e, t.importFailed(name));
    }
  }

  remove(m: Memo): Promise<boolean> {
    return this.list.remove(
      m.id,
      {
        act: () => this.#rpc.call("voice.delete_memo", { memoId: m.id }),
        restore: () => this.#rpc.call("voice.restore_memo", { memoId: m.id }),
        done: t.deleted(titleOf(m)),
        failed: t.deleteFailed(titleOf(m)),
        trash: true,
      },
      this.#notify,
    );
  }

  /** Saves the title and the tags of a memo; false if the backend refused. */
  async update(m: Memo, change: { title?: string; tags?: string[]; pinned?: boolean }): Promise<boolean> {
    try {
      const now = await this.#rpc.call("voice.update_memo", { memoId: m.id, ...change });
      this.list.put(now);
      if (this.open.id === m.id) this.open.memo.data = now;
      this.tags = [...new Set([...this.tags, ...now.tags])].sort();
      return true;
    } catch (e) {
      this.#notify.error(e, t.saveFailed);
      return false;
    }
  }

  /** The failed or waiting job of a recording. */
  jobOf(recordingId: string): Job | undefined {
    return this.queue.data?.jobs.find((j) => j.recordingId === recordingId);
  }

  async retry(job: Job): Promise<void> {
    await this.#act("voice.retry", job, t.retryFailed);
  }
  async skip(job: Job): Promise<void> {
    await this.#act("voice.skip", job, t.skipFailed);
  }
  async #act(method: "voice.retry" | "voice.skip", job: Job, failed: string): Promise<void> {
    try {
      await this.#rpc.call(method, { jobId: job.id });
      await Promise.all([this.readQueue(), this.open.read(), this.list.page.reload()]);
    } catch (e) {
      this.#notify.error(e, failed);
    }
  }
}

/** The title of a memo, or its first words. */
export const titleOf = (m: Pick<Memo, "title" | "text" | "recordedAt">): string => m.title || m.text.split(/\s+/).slice(0, 8).join(" ") || t.untitled;
