/** State of the Sync screen, without a DOM. */
import { ListState, route } from "../../lib/list/state";
import type { Rpc } from "../../lib/rpc";
import { Load, nav, type Notify } from "../../lib/ui/state";
import { Connecting } from "./connecting.svelte";
import { t } from "./messages";
import type { SyncStatus } from "./status.svelte";
import { views, type Choice, type Conflict, type DeadLetter, type Device, type View } from "./types";
import { mergeable, resolvedText, textOf } from "./words";

export type Messages = Pick<Notify, "error" | "ok" | "undo"> & { deferred(d: { title: string; text?: string; commit(): Promise<unknown> | void; revert(): void }): unknown };

/** How many conflicts a call resolves, between which a person can stop. */
const limit = 500;

export class SyncScreen {
  readonly list: ListState<Conflict, { status: string }>;
  readonly devices = new Load<readonly Device[]>();
  readonly letters = new Load<readonly DeadLetter[]>();
  readonly connecting: Connecting;
  readonly status: SyncStatus;
  busy = $state(false);
  /** The manually merged text of the open conflict; null while it is not being edited. */
  merged = $state<string | null>(null);
  mergeError = $state("");
  /** Devices whose access is about to end. */
  leaving = $state.raw<ReadonlySet<string>>(new Set());
  disconnecting = $state(false);
  /** Stops resolving all conflicts, while that takes more than one call. The resolved ones stay so. */
  stopResolving = $state.raw<(() => void) | null>(null);
  readonly #rpc: Rpc;
  readonly #notify: Messages;
  /** Functions that undo resolutions, newest last. U calls the last one. */
  #undo: (() => Promise<void>)[] = [];

  constructor(rpc: Rpc, notify: Messages, status: SyncStatus) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.status = status;
    this.connecting = new Connecting(rpc, status);
    this.list = new ListState<Conflict, { status: string }>({
      id: (c) => c.id,
      route: route("sync", views.slice(1)),
      filters: { status: "" },
      read: async ({ filters, offset, limit, signal }) => {
        const r = await rpc.call("sync.conflicts", { offset, limit, ...(filters.status === "" ? {} : { status: filters.status }) }, { signal });
        return { items: r.conflicts, total: r.total };
      },
    });
  }

  start(): void {
    this.list.start(
      this.#rpc,
      ["sync.conflict"],
      this.#rpc.on("sync.dead_letter", () => void this.readLetters()),
      this.#rpc.onReload(() => this.view === "devices" && void this.readDevices()),
    );
    void this.list.page.reload();
    void this.readLetters();
    void this.readDevices();
  }

  readLetters(): Promise<void> {
    return this.letters.run(async (signal) => (await this.#rpc.call("sync.dead_letters", {}, { signal })).deadLetters);
  }
  /** Reads the devices from the hub, and the conflicts again if device names were missing. */
  async readDevices(): Promise<void> {
    if (!this.status.connected) return this.devices.clear();
    await this.devices.run(async (signal) => (await this.#rpc.call("sync.devices", {}, { signal })).devices);
    void this.status.load();
    if (this.list.rows.some((c) => c.mineDevice === "" || c.theirsDevice === "")) await this.list.page.reload();
  }

  /** The view that the address selects. */
  get view(): View {
    return views.find((v) => v === nav.rest[0]) ?? "conflicts";
  }

  async #act(act: () => Promise<unknown>, failed: string): Promise<boolean> {
    this.busy = true;
    try {
      await act();
      return true;
    } catch (e) {
      await this.status.load();
      // Don't repeat an error that the banner shows.
      if (nav.screen !== "sync" || !this.status.stopped) this.#notify.error(e, failed);
      return false;
    } finally {
      this.busy = false;
      void this.status.load();
    }
  }

  async syncNow(): Promise<void> {
    await this.#act(async () => {
      const r = await this.#rpc.call("sync.coordinate", {});
      this.#notify.ok(t.exchanged(r.pushed, r.pulled + r.merged));
      void this.readDevices();
    }, t.syncFailed);
  }
  async setPaused(on: boolean): Promise<void> {
    await this.#act(() => this.#rpc.call(on ? "sync.pause" : "sync.resume", {}), on ? t.pauseFailed : t.resumeFailed);
  }
  async disconnect(): Promise<void> {
    if (!(await this.#act(() => this.#rpc.call("sync.disconnect", {}), t.disconnectFailed))) return;
    this.disconnecting = false;
    this.#undo = [];
    nav.go("sync", "replace");
    this.devices.clear();
    this.#notify.ok(t.disconnected);
  }

  /** Resolves a conflict. Undo reopens it. */
  async resolve(c: Conflict, choice: Choice, value?: unknown): Promise<boolean> {
    this.merged = null;
    this.list.hide(c.id);
    let token = "";
    try {
      token = (await this.#rpc.call("sync.resolve", { conflictId: c.id, choice, ...(choice === "merged" ? { value } : {}) })).undoToken;
    } catch (e) {
      this.#notify.error(e, t.resolveFailed(1));
    }
    await this.list.unhide(c.id);
    void this.status.load();
    if (token === "") return false;
    this.#offerUndo([token], resolvedText(c, choice, this.name(c)), c.id);
    return true;
  }

  #offerUndo(tokens: readonly string[], title: string, select?: string): void {
    const undo = async (): Promise<void> => {
      this.#undo = this.#undo.filter((u) => u !== undo);
      for (const undoToken of [...tokens].reverse()) await this.#rpc.call("sync.undo_resolve", { undoToken });
      await this.list.page.reload();
      if (select !== undefined) this.list.select(select, "replace");
    };
    this.#undo.push(undo);
    this.#notify.undo(title, undo);
  }

  /** Undoes the latest resolution. The backend allows it for ten minutes; the message is shown for ten seconds. */
  async undoLast(): Promise<void> {
    const undo = this.#undo.at(-1);
    if (undo === undefined) return;
    try {
      await undo();
      this.#notify.ok(t.reopened);
    } catch (e) {
      this.#notify.error(e, t.undoFailed);
    }
  }
  get undoable(): boolean {
    return this.#undo.length > 0;
  }

  /** Resolves all open conflicts, or those of a table, with the same choice. Undo reopens them. */
  async resolveAll(choice: Choice, tableName?: string): Promise<void> {
    let stopped = false;
    let resolved = 0;
    const tokens: string[] = [];
    this.merged = null;
    try {
      for (let last = limit; last >= limit && !stopped; ) {
        const r = await this.#rpc.call("sync.resolve", { all: true, choice, limit, ...(tableName === undefined ? {} : { tableName }) });
        last = r.resolved;
        resolved += last;
        if (r.undoToken !== "") tokens.push(r.undoToken);
        if (last >= limit) this.stopResolving = () => (stopped = true);
        await this.status.load();
      }
    } catch (e) {
      this.#notify.error(e, t.resolveAllFailed);
    }
    this.stopResolving = null;
    await this.list.page.reload();
    if (resolved > 0) this.#offerUndo(tokens, t.resolvedMany(resolved));
  }

  /** Starts editing a merged text, beginning with the current value. */
  edit(c: Conflict): void {
    this.mergeError = "";
    this.merged = textOf(c, c.suggested === "theirs" ? c.theirs : c.mine);
  }
  async saveMerged(c: Conflict): Promise<void> {
    const text = this.merged;
    if (text === null || !mergeable(c)) return;
    if (c.fieldType === "json") {
      try {
        JSON.parse(text);
      } catch {
        this.mergeError = t.notJson;
        return;
      }
    }
    if (!(await this.resolve(c, "merged", text))) this.merged = text;
  }

  async retry(d: DeadLetter): Promise<void> {
    const ok = await this.#act(async () => {
      await this.#rpc.call("sync.retry_dead_letter", { id: d.id });
      await this.#rpc.call("sync.coordinate", {});
    }, t.retryFailed);
    await this.readLetters();
    if (ok && !this.letters.data?.some((x) => x.rowId === d.rowId)) this.#notify.ok(t.nowSynced);
  }
  async discard(d: DeadLetter): Promise<void> {
    await this.#act(async () => {
      const { path } = await this.#rpc.call("sync.discard_dead_letter", { id: d.id });
      this.#notify.ok(t.discarded, t.copyIn(path));
    }, t.discardFailed);
    await this.readLetters();
  }

  async rename(d: Device, name: string): Promise<boolean> {
    const ok = await this.#act(() => this.#rpc.call("sync.rename_device", { id: d.id, name }), t.renameFailed);
    await this.readDevices();
    return ok;
  }
  /** Revokes a device after ten seconds, unless the person undoes it. */
  revoke(d: Device): void {
    const put = (on: boolean): void => {
      const ids = new Set(this.leaving);
      if (on) ids.add(d.id);
      else ids.delete(d.id);
      this.leaving = ids;
    };
    put(true);
    this.#notify.deferred({
      title: t.removing(d.name || t.noName),
      commit: async () => {
        await this.#rpc.call("sync.revoke_device", { id: d.id });
        await this.readDevices();
        put(false);
      },
      revert: () => put(false),
    });
  }

  readonly name = (c: Conflict): string => c.title || t.untitled;
}
