/** The state of sync, for the status bar, the rail and the screen. */
import { Load } from "../../lib/ui/load.svelte";
import type { EventName, Rpc } from "../../lib/rpc";
import type { Status } from "./types";

const events: readonly EventName[] = ["sync.status", "sync.conflict", "sync.dead_letter", "sync.delta"];
/** While offline, the number of waiting changes is read at most once a second. */
const soonMs = 100;
const waitingMs = 1000;
/** Readings that the curve of the lag shows. */
const readings = 60;

export class SyncStatus {
  readonly read = new Load<Status>();
  /** Progress of the first copy. */
  progress = $state.raw<Status["initial"]>();
  /** Changes that this device was behind the hub or had yet to send, at the latest readings. */
  lags = $state.raw<readonly number[]>([]);
  #rpc: Rpc | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When this page first saw the first copy running, for the job in the status bar. */
  #began = 0;

  get data(): Status | undefined {
    return this.read.data;
  }
  get connected(): boolean {
    return this.data !== undefined && this.data.state !== "off";
  }
  /** Whether an error, which the banner shows, prevents syncing. */
  get stopped(): boolean {
    return this.data?.error !== undefined;
  }
  /** Number of conflicts and unsynced items, which a person has to decide. */
  get open(): number {
    return this.data ? this.data.conflicts + this.data.failedCount : 0;
  }
  get began(): number {
    return this.data?.state === "initial" ? (this.#began ||= Date.now()) : (this.#began = 0);
  }

  start(rpc: Rpc): void {
    if (this.#rpc) return;
    this.#rpc = rpc;
    for (const e of events) rpc.on(e, () => this.soon());
    rpc.on("sync.progress", (p) => {
      this.progress = p;
      if (this.data?.state !== "initial") this.soon();
    });
    rpc.onReload(() => void this.load());
    void this.load();
  }

  async load(): Promise<void> {
    const rpc = this.#rpc;
    if (!rpc) return;
    await this.read.run((signal) => rpc.call("sync.status", {}, { signal }));
    const s = this.data;
    if (!s) return;
    this.progress = s.initial;
    this.lags = [...this.lags, Math.max(0, Number(s.head) - Number(s.cursor)) + s.queueLength].slice(-readings);
  }

  soon(): void {
    this.#timer ??= setTimeout(
      () => {
        this.#timer = undefined;
        void this.load();
      },
      this.data?.isOnline === false ? waitingMs : soonMs,
    );
  }
}
