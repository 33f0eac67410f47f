import type { EventData, Item, Result, Rpc } from "../../lib/rpc";
import { JobList, Load, type Notify } from "../../lib/ui/state";
import { Deferred } from "./deferred.svelte";
import { t } from "./messages";

export type ContainerStatus = Result<"container.status">;
export type Pull = Item<"container.pulls", "pulls">;
export type Image = Item<"container.images", "images">;
export type Volume = Item<"container.volumes", "volumes">;
export type Running = ContainerStatus["running"][number];
type Reason = ContainerStatus["tiers"][number]["reasons"][number];

/** Where the status bar leads. */
const target = "settings/containers";

/** A reason in the language of the interface. The backend's own text says more, but only in English. */
export function reasonText(r: Reason): { text: string; help: string } {
  return t.containers.reasons[r.code] ?? { text: r.message, help: r.hint };
}

/** Runs in containers and pulls of images, for the status bar. */
export class ContainerJobs extends JobList {
  #rpc: Rpc | null = null;
  readonly #notify: Notify;

  constructor(notify: Notify) {
    super();
    this.#notify = notify;
  }

  start(rpc: Rpc): void {
    this.#rpc = rpc;
    rpc.on("container.run", (e) => this.#run(e));
    rpc.on("container.pull", (e) => {
      this.#pull(e);
      if (e.status === "done") this.#notify.ok(t.containers.pulled(e.ref), e.image?.digest ?? "");
      if (e.status === "failed") this.#notify.add({ title: t.containers.pullFailed(e.ref), tone: "danger" });
    });
    rpc.onReload(() => void this.read());
    void this.read();
  }

  /** Reads what started earlier. */
  async read(): Promise<void> {
    const rpc = this.#rpc;
    if (!rpc?.can("container.pulls")) return;
    try {
      const [{ pulls }, { running }] = await Promise.all([rpc.call("container.pulls", {}), rpc.call("container.status", {})]);
      this.retain(() => false);
      for (const p of pulls) this.#pull(p);
      for (const r of running) if (!r.session) this.#run(r);
    } catch {
      // The page shows the error; the status bar only lacks these jobs.
    }
  }

  #run(e: { runId: string; name: string; phase: string }): void {
    if (e.phase === "removed") return this.remove(e.runId);
    const cancel = (): void => void this.#rpc?.call("container.kill", { runId: e.runId }).catch((err) => this.#notify.error(err));
    this.put({ id: e.runId, title: t.containers.runs(e.name), step: t.containers.phases[e.phase] ?? "", target, cancel });
  }

  #pull(e: Pull): void {
    if (e.status !== "running") return this.remove(e.jobId);
    const cancel = (): void => void this.#rpc?.call("container.pull_cancel", { jobId: e.jobId }).catch((err) => this.#notify.error(err));
    this.put({ id: e.jobId, title: t.containers.pulling(e.ref), step: "", progress: e.size > 0 ? e.done / e.size : undefined, target, since: Date.parse(e.startedAt), cancel });
  }
}

/** Settings › Containers: the engine, images, volumes and what runs. */
export class ContainersState {
  readonly status = new Load<ContainerStatus>();
  readonly images = new Load<readonly Image[]>();
  readonly volumes = new Load<readonly Volume[]>();
  readonly pulls = new Load<readonly Pull[]>();
  readonly removing = new Deferred();
  readonly restoring = new Deferred();
  checking = $state(false);
  starting = $state(false);
  readonly #rpc: Rpc;
  readonly #notify: Notify;
  readonly #off: (() => void)[];

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.#off = [
      rpc.on("container.status_changed", () => void this.load()),
      rpc.on("container.run", (e) => {
        if (["create", "running", "removed"].includes(e.phase)) void this.readStatus();
      }),
      rpc.on("container.pull", (e) => this.#pulled(e)),
      rpc.onReload(() => void this.load()),
    ];
  }

  stop(): void {
    for (const off of this.#off) off();
  }

  /** Reads everything; images and volumes only if there is an engine. */
  async load(): Promise<void> {
    await this.readStatus();
    if (!this.status.data?.engine) return;
    await Promise.all([this.readImages(), this.readVolumes(), this.pulls.run(async (signal) => (await this.#rpc.call("container.pulls", {}, { signal })).pulls)]);
  }
  readStatus(): Promise<void> {
    return this.status.run((signal) => this.#rpc.call("container.status", {}, { signal }));
  }
  readImages(): Promise<void> {
    return this.images.run(async (signal) => (await this.#rpc.call("container.images", {}, { signal })).images);
  }
  readVolumes(): Promise<void> {
    return this.volumes.run(async (signal) => (await this.#rpc.call("container.volumes", {}, { signal })).volumes);
  }

  /** Looks for an engine again. */
  async recheck(): Promise<void> {
    if (this.checking) return;
    this.checking = true;
    try {
      this.status.cancel();
      this.status.data = await this.#rpc.call("container.recheck", {});
      this.status.error = undefined;
      await this.load();
    } catch (e) {
      this.#notify.error(e, t.containers.checkFailed);
    } finally {
      this.checking = false;
    }
  }

  /** Starts to pull an image; false if the backend refused. */
  async pull(ref: string, digest: string): Promise<boolean> {
    this.starting = true;
    try {
      await this.#rpc.call("container.image_pull", { ref, ...(digest ? { digest } : {}) });
      return true;
    } catch (e) {
      this.#notify.error(e, t.containers.pullFailed(ref));
      return false;
    } finally {
      this.starting = false;
    }
  }
  cancelPull(p: Pull): void {
    this.#rpc.call("container.pull_cancel", { jobId: p.jobId }).catch((e) => this.#notify.error(e));
  }
  /** Pulls in progress, and those that failed since the last one of the same image. */
  get shownPulls(): readonly Pull[] {
    const all = this.pulls.data ?? [];
    return all.filter((p, i) => p.status === "running" || (p.status === "failed" && all.findIndex((x) => x.ref === p.ref) === i));
  }
  #pulled(e: EventData<"container.pull">): void {
    const rest = (this.pulls.data ?? []).filter((p) => p.jobId !== e.jobId);
    this.pulls.data = [e, ...rest].sort((a, b) => Date.parse(b.startedAt) - Date.parse(a.startedAt));
    if (e.status === "done") void this.readImages();
  }

  /** Removes an image after the time for Undo. */
  removeImage(i: Image): void {
    this.removing.add(i.ref, t.containers.imageRemoved(i.ref), "", () =>
      this.#rpc.call("container.image_remove", { ref: i.ref }).then(() => this.readImages(), (e) => this.#notify.error(e, t.containers.removeFailed(i.ref))),
    );
  }
  /** Removes a volume without a tool after the time for Undo. */
  removeVolume(v: Volume): void {
    this.removing.add(v.name, t.containers.volumeRemoved, v.name, () =>
      this.#rpc.call("container.volume_remove", { name: v.name }).then(() => this.readVolumes(), (e) => this.#notify.error(e, t.containers.removeFailed(v.name))),
    );
  }
  /** Brings back the copy of a tool's data after the time for Undo. */
  restore(v: Volume): void {
    const toolId = v.copyOf;
    if (!toolId) return;
    this.restoring.add(v.name, t.containers.restored(v.tool ?? ""), t.containers.restoredText, () =>
      this.#rpc.call("container.restore_state", { toolId }).then(() => this.readVolumes(), (e) => this.#notify.error(e, t.containers.restoreFailed(v.tool ?? ""))),
    );
  }

  /** Ends a run or a shell session. */
  async kill(r: Running): Promise<void> {
    try {
      if (r.session) await this.#rpc.call("shell.kill", { sessionId: r.runId });
      else await this.#rpc.call("container.kill", { runId: r.runId });
      await this.readStatus();
    } catch (e) {
      this.#notify.error(e, t.containers.killFailed(r.name));
    }
  }
}
