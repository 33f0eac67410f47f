import { common as t } from "../i18n/common";
import { RpcError, type Item, type Params, type Result, type Rpc } from "../rpc";
import { JobList, Load, toasts } from "../ui/state";

export type ServiceInfo = Item<"services.list", "services">;
export type StorageStatus = Result<"storage.status">;

/** A condition that stays until someone acts; the status bar shows the action that helps. */
export interface Warning {
  id: string;
  text: string;
  action: string;
  target: string;
  /** The action, if it is not a link. */
  run?: () => void;
}

/**
 * The frame's state about the program itself: services, storage, background work. Domains contribute through
 * their screens.
 */
export class System {
  readonly status = new Load<Result<"system.status">>();
  readonly services = new Load<ServiceInfo[]>();
  readonly storage = new Load<StorageStatus>();
  /** Work on the data: backups, exports, checks. */
  readonly jobs = new JobList();
  lowSpace = $state(false);
  /** A person has paused background work. */
  held = $state(false);
  stopping = $state(false);
  restarting = $state("");
  /** The migration at start, while it runs. */
  migration = $state.raw<{ step: string; progress: number | undefined } | null>(null);
  /** Why the backend behind this window could not start, or "". */
  failure = $state("");
  readonly recovery = $derived(this.storage.data?.recovery ?? null);
  readonly locked = $derived(this.storage.data?.sealed === "locked");
  readonly degraded = $derived(this.status.data?.degraded ?? []);
  readonly failed = $derived((this.services.data ?? []).filter((s) => s.error));
  readonly warnings = $derived.by(() => this.#warnings());
  #rpc: Rpc;
  #off: (() => void)[] = [];

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Follows events. */
  listen(): void {
    const rpc = this.#rpc;
    this.#off = [
      rpc.on("storage.low_space", (e) => (this.lowSpace = e.low)),
      rpc.on("app.background_changed", (e) => (this.held = e.state.reasons.includes("person"))),
      rpc.on("storage.recovery", () => void this.load()),
      rpc.on("storage.backup_progress", (e) => this.#progress(e)),
      rpc.on("system.stopping", () => (this.stopping = true)),
      rpc.on("services.changed", () => void this.loadServices()),
      rpc.onReload(() => void this.load()),
    ];
  }

  /** Shows the migration before the backend responds; the first response ends it. */
  updating(step: string, done: number, total: number): void {
    const steps: Record<string, string> = t.updateSteps;
    this.migration = { step: steps[step] ?? t.preparing, progress: done > 0 && total > 0 ? Math.min(1, done / total) : undefined };
  }

  stop(): void {
    for (const off of this.#off.splice(0)) off();
  }

  /** Reads everything that the frame shows. In recovery mode some of it fails, which is expected. */
  async load(): Promise<void> {
    const rpc = this.#rpc;
    this.stopping = false;
    this.migration = null;
    await Promise.all([
      this.status.run((signal) => rpc.call("system.status", {}, { signal })),
      this.loadServices(),
      this.storage.run((signal) => rpc.call("storage.status", {}, { signal })),
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
      toasts.ok(t.wasRestarted(name));
    } catch (e) {
      // Restarting the gateway ends the connection that requested it.
      if (!(name === "gateway" && e instanceof RpcError && e.kind === "unavailable")) toasts.error(e, t.restartFailed(name));
    } finally {
      this.restarting = "";
      void this.loadServices();
    }
  }

  /** The address of the gateway, or "" if it does not listen. */
  get url(): string {
    const port = this.services.data?.find((s) => s.name === "gateway")?.port;
    return port ? `http://127.0.0.1:${port}/` : "";
  }

  /** Pauses background work, or resumes it; schedules are part of it. */
  async pauseBackground(how: Params<"app.pause_background">): Promise<void> {
    try {
      this.held = (await this.#rpc.call("app.pause_background", how)).reasons.includes("person");
    } catch (e) {
      toasts.error(e, "resume" in how ? t.resumeFailed : t.pauseFailed);
    }
  }

  #warnings(): Warning[] {
    const out: Warning[] = [];
    if (this.lowSpace) out.push({ id: "space", text: t.lowSpace, action: t.freeSpace, target: "settings/data" });
    if (this.held) out.push({ id: "paused", text: t.backgroundPaused, action: t.resume, target: "", run: () => void this.pauseBackground({ resume: true }) });
    for (const d of this.degraded) {
      if (d.area === "backup") out.push({ id: "backup", text: t.backupFailed, action: t.backUpNow, target: "settings/data" });
    }
    return out;
  }

  #progress(e: { id: string; operation: string; step: string; done: number; total: number; finished: boolean; error?: string }): void {
    const progress = e.total > 0 ? Math.min(1, e.done / e.total) : undefined;
    if (e.finished) {
      this.jobs.remove(e.id);
      // The caller who requested it gets the error from the call itself.
      if (!e.error && e.operation === "backup") void this.storage.run((signal) => this.#rpc.call("storage.status", {}, { signal }));
      return;
    }
    const operations: Record<string, string> = t.operations;
    this.jobs.put({ id: e.id, title: operations[e.operation] ?? t.working, step: "", progress, target: "settings/data" });
  }
}
