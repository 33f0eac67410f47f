import { ListState } from "../../lib/list/state";
import type { Rpc } from "../../lib/rpc";
import { nav, toasts, type Notify } from "../../lib/ui/state";
import { AddChannel } from "./adding.svelte";
import { channelAt, channelRoute } from "./address";
import { OpenChannel } from "./channel.svelte";
import { t } from "./messages";
import type { Channel } from "./types";

/** The Channels screen: the channels, the open one and the sheet that adds one. */
export class ChannelsScreen {
  readonly list: ListState<Channel>;
  readonly open: OpenChannel;
  readonly adding: AddChannel;
  readonly #rpc: Rpc;
  readonly #notify: Notify;

  constructor(rpc: Rpc, notify: Notify = toasts) {
    this.#rpc = rpc;
    this.#notify = notify;
    this.open = new OpenChannel(rpc, notify);
    this.adding = new AddChannel(rpc, (id) => this.#added(id));
    this.list = new ListState<Channel>({
      id: (c) => c.id,
      route: channelRoute,
      read: async ({ query, signal }) => {
        const q = query.toLowerCase();
        const items = (await rpc.call("channels.list", {}, { signal })).channels.filter((c) => `${c.name}\n${c.kind}\n${c.account ?? ""}`.toLowerCase().includes(q));
        return { items, total: items.length };
      },
    });
  }

  start(): void {
    const changed = ({ id }: { id: string }): void => {
      this.open.changed(id);
      void this.adding.changed(id);
    };
    this.list.start(
      this.#rpc,
      ["channels.changed", "channels.message", "channels.rejected"],
      this.#rpc.on("channels.changed", changed),
      this.#rpc.on("channels.message", changed),
      this.#rpc.on("channels.rejected", changed),
      this.#rpc.onReload(() => void this.open.read()),
    );
    void this.list.page.reload();
  }

  #added(id: string): void {
    void this.list.page.reload();
    nav.go(channelAt(id));
  }

  /** Channels that need a person. */
  get failed(): number {
    return this.list.page.items.filter((c) => c.state === "error").length;
  }

  async setEnabled(c: Channel, enabled: boolean): Promise<void> {
    // Shown at once, so that the same key pressed again turns it back.
    this.list.put({ ...c, enabled, state: enabled ? "disconnected" : "disabled" });
    await this.#change(c, () => this.#rpc.call("channels.set_enabled", { id: c.id, enabled }, { inOrder: c.id }));
  }

  takeOver(c: Channel): Promise<void> {
    return this.#change(c, async () => (await this.#rpc.call("channels.update", { id: c.id, patch: { takeOver: true } })).channel);
  }

  async #change(c: Channel, act: () => Promise<Channel>): Promise<void> {
    try {
      this.list.put(await act());
    } catch (e) {
      this.list.put(c);
      this.#notify.error(e, t.notSaved(c.name));
    }
    if (this.open.id === c.id) void this.open.read();
  }

  remove(c: Channel): Promise<boolean> {
    let undoToken = "";
    return this.list.remove(
      c.id,
      {
        act: async () => void ({ undoToken } = await this.#rpc.call("channels.remove", { id: c.id })),
        restore: () => this.#rpc.call("channels.undo", { undoToken }),
        done: t.removed(c.name),
        failed: t.removeFailed(c.name),
      },
      this.#notify,
    );
  }
}
