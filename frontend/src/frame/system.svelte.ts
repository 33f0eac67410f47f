import { RpcError, type EventData, type Item, type Params, type Result, type Rpc } from "../lib/rpc";
import { missingWords } from "../lib/run/isolation";
import { format, Load, toasts } from "../lib/ui/state";

export type ServiceInfo = Item<"services.list", "services">;
export type StorageStatus = Result<"storage.status">;

/** Long work that the status bar shows. */
export interface Job {
  id: string;
  title: string;
  step: string;
  /** 0..1, or undefined when the length is not known. */
  progress: number | undefined;
  since: number;
  /** Where it is shown in full: a target for `nav.go`. */
  target: string;
  cancel?: () => void;
  /** A run of a composite skill. */
  composite?: boolean;
  /** An import of memories. */
  import?: boolean;
}

/** The one job of making texts ready for meaning search. */
const EMBEDDING = "memory.embedding";
const QUIET_MS = 5000;

/** Runs of composite skills that are looked for at the start, of each state. */
const MAX_RUNS = 20;

/** Why a run of a composite skill does not go on just now. */
const steps: Record<string, string> = {
  queued: "pending",
  approval: "waiting for your approval",
  unknown_outcome: "waiting for your answer",
  permission: "waiting for a permission",
  timer: "waiting for its time",
  quarantined: "waiting for your decision",
};

const operations: Record<string, string> = {
  backup: "Backing up…",
  restore: "Restoring…",
  rollback: "Rolling back…",
  migrate: "Updating your data…",
  export: "Exporting…",
  import: "Importing…",
  salvage: "Salvaging…",
  check: "Checking…",
  prune: "Removing old history…",
};

/** A condition that stays until someone acts; the status bar shows the one act that helps. */
export interface Warning {
  id: string;
  text: string;
  action: string;
  target: string;
  /** What the act does when it leads nowhere. */
  run?: () => void;
}

/** What the frame knows about the program: services, warnings, running jobs, waiting approvals. */
export class System {
  readonly status = new Load<Result<"system.status">>();
  readonly services = new Load<ServiceInfo[]>();
  readonly storage = new Load<StorageStatus>();
  readonly sandbox = new Load<Result<"sandbox.status">>();
  jobs = $state.raw<readonly Job[]>([]);
  waiting = $state(0);
  /** All schedules are paused: until then, or with null until somebody resumes them. */
  paused = $state.raw<{ until: string | null } | null>(null);
  lowSpace = $state(false);
  /** A person has paused background work. */
  held = $state(false);
  stopping = $state(false);
  restarting = $state("");
  /** The update of the data at start, while it runs. */
  migration = $state.raw<{ step: string; progress: number | undefined } | null>(null);
  /** Why the backend behind this window could not start, or "". */
  failure = $state("");
  readonly recovery = $derived(this.storage.data?.recovery ?? null);
  readonly locked = $derived(this.storage.data?.sealed === "locked");
  readonly degraded = $derived(this.status.data?.degraded ?? []);
  readonly failed = $derived((this.services.data ?? []).filter((s) => s.error));
  readonly warnings = $derived.by(() => this.#warnings());
  /** What is missing around modules of others, in a few words, or "". */
  readonly weaker = $derived.by(() => missingWords(this.sandbox.data?.reasons ?? []));
  #rpc: Rpc;
  #off: (() => void)[] = [];
  #ends: ReturnType<typeof setTimeout> | undefined;
  #quiet: ReturnType<typeof setTimeout> | undefined;
  #imported = 0; // imports that ended

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Follows events. Called before the connection exists, so that a migration at start shows. */
  listen(): void {
    const rpc = this.#rpc;
    this.#off = [
      rpc.on("storage.low_space", (e) => (this.lowSpace = e.low)),
      rpc.on("app.background_changed", (e) => (this.held = e.state.reasons.includes("person"))),
      rpc.on("storage.recovery", () => void this.load()),
      rpc.on("storage.backup_progress", (e) => this.#progress(e)),
      rpc.on("tools.execution", (e) => this.#execution(e)),
      rpc.on("skills.execution_changed", (e) => this.#skill(e)),
      rpc.on("skills.run_event", (e) => this.#composite(e)),
      rpc.on("memory.import_progress", (e) => this.#import(e)),
      rpc.on("memory.import_done", (e) => {
        this.#imported++;
        this.#import(e);
      }),
      rpc.on("memory.embedding_progress", (e) => {
        this.#embedding(e.ready, e.queued, false);
        // Nothing tells of a pause, so silence is asked about.
        clearTimeout(this.#quiet);
        if (e.queued > 0) this.#quiet = setTimeout(() => void this.#memory(), QUIET_MS);
      }),
      rpc.on("sandbox.status_changed", (e) => (this.sandbox.data = e.status)),
      rpc.on("schedules.changed", (e) => !e.scheduleId && void this.#pause()),
      rpc.on("system.stopping", () => (this.stopping = true)),
      rpc.on("services.changed", () => void this.loadServices()),
      rpc.on("approvals.changed", (e) => (this.waiting = e.pendingCount)),
      rpc.onReload(() => void this.load()),
    ];
  }

  stop(): void {
    clearTimeout(this.#ends);
    clearTimeout(this.#quiet);
    for (const off of this.#off.splice(0)) off();
  }

  /** Reads everything the frame shows. In recovery mode some of it does not answer, which is no news. */
  async load(): Promise<void> {
    const rpc = this.#rpc;
    this.stopping = false;
    this.migration = null;
    await Promise.all([
      this.status.run((signal) => rpc.call("system.status", {}, { signal })),
      this.loadServices(),
      this.storage.run((signal) => rpc.call("storage.status", {}, { signal })),
      this.sandbox.run((signal) => rpc.call("sandbox.status", {}, { signal })),
      this.#count(),
      this.#runs(),
      this.#pause(),
      this.#memory(),
    ]);
    this.lowSpace = this.storage.data?.lowSpace === true;
    this.held = this.status.data?.background?.reasons.includes("person") === true;
  }

  loadServices(): Promise<void> {
    return this.services.run(async (signal) => (await this.#rpc.call("services.list", {}, { signal })).services);
  }

  async restart(name: string): Promise<void> {
    this.restarting = name;
    try {
      await this.#rpc.call("services.restart", { name });
      toasts.ok(`${name} was restarted`);
    } catch (e) {
      // Restarting the gateway ends the very connection that asked for it.
      if (!(name === "gateway" && e instanceof RpcError && e.kind === "unavailable")) toasts.error(e, `Couldn't restart ${name}`);
    } finally {
      this.restarting = "";
      void this.loadServices();
    }
  }

  /** The address of the gateway, or "" when it does not listen. */
  get url(): string {
    const port = this.services.data?.find((s) => s.name === "gateway")?.port;
    return port ? `http://127.0.0.1:${port}/` : "";
  }

  async #count(): Promise<void> {
    if (!this.#rpc.can("approvals.list")) return;
    try {
      this.waiting = (await this.#rpc.call("approvals.list", { limit: 1 })).pendingCount;
    } catch {
      // The Approvals screen shows why; the frame only lacks its number.
    }
  }

  /** Pauses background work, or resumes it; schedules are part of it. */
  async pauseBackground(how: Params<"app.pause_background">): Promise<void> {
    try {
      this.held = (await this.#rpc.call("app.pause_background", how)).reasons.includes("person");
    } catch (e) {
      toasts.error(e, "resume" in how ? "Couldn't resume background work" : "Couldn't pause background work");
    }
  }

  /** Whether all schedules are paused. A pause that ends by itself is looked at again then. */
  async #pause(): Promise<void> {
    clearTimeout(this.#ends);
    if (!this.#rpc.can("schedules.status")) return;
    try {
      const { pausedAll, pausedUntil } = await this.#rpc.call("schedules.status", {});
      this.paused = pausedAll ? { until: pausedUntil ?? null } : null;
      const left = pausedAll && pausedUntil ? Date.parse(pausedUntil) - Date.now() : -1;
      if (left >= 0) this.#ends = setTimeout(() => void this.#pause(), Math.min(left + 1000, 3_600_000));
    } catch {
      // The Schedules screen shows why.
    }
  }

  /** The composite skills that run already: they go on whether or not somebody looks. */
  async #runs(): Promise<void> {
    if (!this.#rpc.can("skills.history")) return;
    try {
      const pages = await Promise.all(["queued", "running", "waiting"].map((status) => this.#rpc.call("skills.history", { status, limit: MAX_RUNS })));
      const going = pages.flatMap((p) => p.executions).filter((e) => !e.parentExecutionId && e.mode === "live");
      const ids = new Set(going.map((e) => e.executionId));
      this.jobs = this.jobs.filter((j) => !j.composite || ids.has(j.id));
      for (const e of going) this.#compositeJob(e.executionId, e.skillName, steps[e.status === "waiting" ? (e.waitReason ?? "") : e.status] ?? "", Date.parse(e.startedAt ?? e.createdAt));
    } catch {
      // The Skills screen shows why; the frame only lacks its jobs.
    }
  }

  #warnings(): Warning[] {
    const out: Warning[] = [];
    if (this.lowSpace) out.push({ id: "space", text: "Disk space is low", action: "Free space", target: "settings/data" });
    if (this.held) out.push({ id: "paused", text: "Background work is paused", action: "Resume", target: "", run: () => void this.pauseBackground({ resume: true }) });
    for (const d of this.degraded) {
      if (d.area === "backup") out.push({ id: "backup", text: "The automatic backup failed", action: "Back up now", target: "settings/data" });
    }
    return out;
  }

  #progress(e: { id: string; operation: string; step: string; done: number; total: number; finished: boolean; error?: string }): void {
    const progress = e.total > 0 ? Math.min(1, e.done / e.total) : undefined;
    if (e.operation === "migrate" && !this.#rpc.connection.open) this.migration = e.finished ? null : { step: e.step, progress };
    const rest = this.jobs.filter((j) => j.id !== e.id);
    if (e.finished) {
      this.jobs = rest;
      // Whoever asked for it hears of an error from the call itself.
      if (!e.error && e.operation === "backup") void this.storage.run((signal) => this.#rpc.call("storage.status", {}, { signal }));
      return;
    }
    const since = this.jobs.find((j) => j.id === e.id)?.since ?? Date.now();
    this.jobs = [...rest, { id: e.id, title: operations[e.operation] ?? "Working…", step: "", progress, since, target: "settings/data" }];
  }

  /** A run of a tool or a skill, while it goes on. */
  #run(id: string, ended: boolean, job: Pick<Job, "title" | "step" | "target">, cancel: () => Promise<unknown>): void {
    const rest = this.jobs.filter((j) => j.id !== id);
    if (ended) {
      this.jobs = rest;
      return;
    }
    const since = this.jobs.find((j) => j.id === id)?.since ?? Date.now();
    this.jobs = [...rest, { id, ...job, progress: undefined, since, cancel: () => void cancel().catch((err) => toasts.error(err)) }];
  }

  #execution(e: { executionId: string; toolId: string; state: string }): void {
    const ended = ["success", "failure", "timeout", "canceled"].includes(e.state);
    const step = e.state === "waiting" ? "is waiting for an approval" : "";
    this.#run(e.executionId, ended, { title: "Running a tool…", step, target: `tools/${e.toolId}` }, () => this.#rpc.call("tools.cancel", { executionId: e.executionId }));
  }

  /** A run of a composite skill. What runs inside another skill is part of that one. */
  #composite(e: EventData<"skills.run_event">): void {
    const data = (e.data ?? {}) as { skill?: string; trigger?: string; reason?: string };
    const known = this.jobs.some((j) => j.id === e.executionId);
    if (e.type === "run.finished") this.jobs = this.jobs.filter((j) => j.id !== e.executionId);
    else if (e.type === "run.created" && data.trigger !== "skill") this.#compositeJob(e.executionId, data.skill ?? "", "", Date.parse(e.at));
    else if (known && e.type === "run.waiting") this.#compositeJob(e.executionId, "", steps[data.reason ?? ""] ?? "waits");
    else if (known && (e.type === "run.resumed" || e.type === "run.started")) this.#compositeJob(e.executionId, "", "");
  }

  #compositeJob(id: string, name: string, step: string, since = Date.now()): void {
    const known = this.jobs.find((j) => j.id === id);
    const title = name === "" ? (known?.title ?? "Running a skill…") : `Running ${format.visible(name, 40)}…`;
    const cancel = (): void => void this.#rpc.call("skills.cancel", { executionId: id }).catch((err) => toasts.error(err));
    const job: Job = { id, title, step, progress: undefined, since: known?.since ?? since, target: `skills/run/${id}`, cancel, composite: true };
    this.jobs = [...this.jobs.filter((j) => j.id !== id), job];
  }

  /** Imports that run already, and how far meaning search is. */
  async #memory(): Promise<void> {
    if (!this.#rpc.can("memory.imports")) return;
    try {
      const imported = this.#imported;
      const [{ jobs }, e] = await Promise.all([this.#rpc.call("memory.imports", { limit: MAX_RUNS }), this.#rpc.call("memory.embedding_status", {})]);
      // An import that ended meanwhile would be shown for ever by an answer from before.
      if (imported !== this.#imported) return await this.#memory();
      this.jobs = this.jobs.filter((j) => !j.import);
      for (const j of jobs) this.#import(j);
      this.#embedding(e.ready, e.queued + e.stale, e.paused || !e.available);
    } catch {
      // The Memory screen shows why; the frame only lacks its jobs.
    }
  }

  #import(e: { jobId: string; path: string; status: string; progress: number; startedAt?: string }): void {
    const rest = this.jobs.filter((j) => j.id !== e.jobId);
    if (e.status !== "running" && e.status !== "pending") {
      this.jobs = rest;
      return;
    }
    const since = this.jobs.find((j) => j.id === e.jobId)?.since ?? (e.startedAt ? Date.parse(e.startedAt) : Date.now());
    const name = format.visible(e.path.split(/[\\/]/).filter(Boolean).pop() ?? "", 40);
    const cancel = (): void => void this.#rpc.call("memory.import_cancel", { jobId: e.jobId }).catch((err) => toasts.error(err));
    this.jobs = [...rest, { id: e.jobId, title: `Importing ${name}…`, step: e.status === "pending" ? "pending" : "", progress: e.progress, since, target: "memory", cancel, import: true }];
  }

  #embedding(ready: number, waiting: number, still: boolean): void {
    const had = this.jobs.find((j) => j.id === EMBEDDING);
    const rest = this.jobs.filter((j) => j.id !== EMBEDDING);
    const progress = ready / Math.max(1, ready + waiting);
    this.jobs = waiting === 0 || still ? rest : [...rest, { id: EMBEDDING, title: "Semantic search", step: `${Math.floor(progress * 100)} %`, progress, since: had?.since ?? Date.now(), target: "memory" }];
  }

  #skill(e: { executionId: string; skillId: string; status: string; waiting?: string }): void {
    const step = e.waiting === "approval" ? "is waiting for an approval" : e.waiting === "queued" ? "pending" : "";
    this.#run(e.executionId, e.status !== "running", { title: "Running a skill…", step, target: `skills/wasm/${e.skillId}/run` }, () => this.#rpc.call("skills.cancel", { executionId: e.executionId }));
  }
}
