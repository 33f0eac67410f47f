import type { Result, Rpc } from "../../../lib/rpc";
import type { Notify } from "../../../lib/ui/state";
import { t } from "../messages";

/** The tag of all entries of the sample diary. */
export const sampleTag = "sample-diary";

/** The maximum number of entries per call. */
const batch = 200;
const day = 24 * 3600 * 1000;

/**
 * The entries of a diary file, one per line: how many days before the last Sunday it was written, a tab, and
 * the text. They end shortly before `now`, so that they look like the last year whenever they are loaded.
 */
export function entriesOf(file: string, now: Date): { content: string; occurredAt: string }[] {
  const sunday = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() - now.getUTCDay());
  return file
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [days, content] = line.split("\t") as [string, string];
      const n = Number(days);
      return { content, occurredAt: new Date(sunday - n * day + (7 + ((n * 7) % 15)) * 3600_000).toISOString() };
    });
}

/** A year of a made-up diary, to try Memory and Insights with. It is added and removed only on request. */
export class SampleDiary {
  /** The number of its entries in the memory. */
  count = $state(0);
  busy = $state(false);
  readonly #rpc: Rpc;
  readonly #notify: Notify;
  #reading: Promise<void> | null = null;

  constructor(rpc: Rpc, notify: Notify) {
    this.#rpc = rpc;
    this.#notify = notify;
  }

  start(): void {
    this.#rpc.on("memory.changed", () => {
      if (this.count > 0 && !this.busy) void this.read(); // perhaps the entries were deleted one by one
    });
    this.#rpc.onReload(() => void this.read());
    void this.read();
  }

  /** Reads how many entries there are. Without an answer the last count stays. */
  read(): Promise<void> {
    this.#reading ??= this.#page(1)
      .then((r) => void (this.count = r.total), () => {})
      .finally(() => (this.#reading = null));
    return this.#reading;
  }

  #page(limit: number): Promise<Result<"memory.list">> {
    return this.#rpc.call("memory.list", { filters: { tagsAny: [sampleTag] }, limit });
  }

  /** Adds the diary. Entries that exist are not added again. */
  async load(): Promise<boolean> {
    return this.#work(t.sample.cannotAdd, async () => {
      const { default: file } = await import("./diary.txt?raw");
      const { items } = await this.#rpc.call("memory.add_batch", { items: entriesOf(file, new Date()).map((e) => ({ ...e, tags: [sampleTag] })) });
      this.#notify.ok(t.sample.added(items.filter((i) => !i.error).length), t.sample.addedHelp);
    });
  }

  /** Moves all entries to the trash, with Undo, and removes what was found in them. */
  async remove(): Promise<boolean> {
    return this.#work(t.sample.cannotRemove, async () => {
      const ids: string[] = [];
      const tokens: string[] = [];
      for (let r = await this.#page(batch); r.items.length > 0; r = await this.#page(batch)) {
        const some = r.items.map((m) => m.id);
        tokens.push((await this.#rpc.call("memory.delete", { ids: some })).undoToken ?? "");
        ids.push(...some);
      }
      await this.#findAgain();
      this.#notify.undo(t.sample.removed(ids.length), async () => {
        for (const undoToken of tokens) await this.#rpc.call("memory.undo", { undoToken });
        await Promise.all([this.read(), this.#findAgain()]);
      });
    });
  }

  /** Insights of entries that are gone are removed by the next analysis; those of restored entries return. */
  async #findAgain(): Promise<void> {
    if (this.#rpc.can("memory.synthesize")) await this.#rpc.call("memory.synthesize", { synthesisType: "full_synthesis", limit: 10_000, waitMs: 0 });
  }

  async #work(failed: string, act: () => Promise<void>): Promise<boolean> {
    if (this.busy) return false;
    this.busy = true;
    try {
      await act();
      return true;
    } catch (e) {
      this.#notify.error(e, failed);
      return false;
    } finally {
      this.busy = false;
      await this.read();
    }
  }
}
