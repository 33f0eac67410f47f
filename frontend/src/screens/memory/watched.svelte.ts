import { asError, type Item, type Params, type Rpc } from "../../lib/rpc";
import { Load, type Notify } from "../../lib/ui/state";
import { t } from "./messages";
import { baseName } from "./words";

export type WatchedFolder = Item<"memory.watch_list", "folders">;
export type WatchParams = Params<"memory.watch_add">;

/** The folders of notes that are imported again when they change. */
export class WatchedFolders {
  readonly list = new Load<readonly WatchedFolder[]>();
  /** The folder that is being changed. */
  busy = $state("");
  readonly #rpc: Rpc;
  readonly #notify: Notify;
  #offs: (() => void)[] = [];

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
  }

  /** Folders that need attention: the folder is missing, or an import failed. */
  readonly broken = $derived.by(() => (this.list.data ?? []).filter((w) => w.state === "missing" || w.state === "failed"));

  /** Follows the folders, for the lifetime of the page. */
  start(): void {
    if (this.#offs.length > 0) return;
    this.#offs = [this.#rpc.on("memory.watch_changed", () => void this.read()), this.#rpc.onReload(() => void this.read())];
    void this.read();
  }

  stop(): void {
    for (const off of this.#offs.splice(0)) off();
  }

  read(): Promise<void> {
    return this.list.run(async (signal) => (await this.#rpc.call("memory.watch_list", {}, { signal })).folders);
  }

  /** Adds a watched folder. It throws if the backend refuses it. */
  async add(p: WatchParams): Promise<WatchedFolder> {
    const w = await this.#rpc.call("memory.watch_add", p);
    await this.read();
    return w;
  }

  /** Pauses a folder, or resumes it and retries what failed. */
  async pause(w: WatchedFolder, on: boolean): Promise<void> {
    await this.#change(w, t.watchFailed(baseName(w.path)), () => this.#rpc.call(on ? "memory.watch_pause" : "memory.watch_resume", { watchId: w.watchId }));
  }

  /** Stops watching a folder, with Undo. Its notes stay in memory. */
  async remove(w: WatchedFolder): Promise<void> {
    const name = baseName(w.path);
    const done = await this.#change(w, t.watchFailed(name), () => this.#rpc.call("memory.watch_remove", { watchId: w.watchId }));
    if (done) this.#notify.undo(t.unwatched(name), async () => void (await this.add({ path: w.path, format: w.format, tags: w.tags, untrusted: w.untrusted })), t.unwatchedText);
  }

  async #change(w: WatchedFolder, failed: string, act: () => Promise<unknown>): Promise<boolean> {
    this.busy = w.watchId;
    try {
      await act();
      await this.read();
      return true;
    } catch (e) {
      this.#notify.error(asError(e), failed);
      return false;
    } finally {
      this.busy = "";
    }
  }
}
