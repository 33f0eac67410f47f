import { asError, type RpcError } from "../../../lib/rpc/errors";
import type { Rpc } from "../../../lib/rpc";
import type { Execution } from "./types";

export type Period = "" | "day" | "week" | "month";

const PAGE = 50;
const days: Record<Exclude<Period, "">, number> = { day: 1, week: 7, month: 30 };

/** The runs of one skill, newest first, read page by page. */
export class RunHistory {
  skillId = $state<string | null>(null);
  status = $state("");
  trigger = $state("");
  period = $state<Period>("");
  items = $state.raw<readonly Execution[]>([]);
  /** Bytes that the whole history takes. */
  bytes = $state(0);
  cursor = $state("");
  loaded = $state(false);
  busy = $state(false);
  error = $state.raw<RpcError | null>(null);
  readonly filtered = $derived(this.status !== "" || this.trigger !== "" || this.period !== "");

  readonly #rpc: Rpc;
  readonly #now: () => number;
  #turn = 0;

  constructor(rpc: Rpc, now: () => number = Date.now) {
    this.#rpc = rpc;
    this.#now = now;
  }

  /** Turns to a skill; nothing is read yet. */
  show(skillId: string | null): void {
    this.#turn++;
    this.skillId = skillId;
    this.status = this.trigger = this.period = "";
    this.items = [];
    this.cursor = "";
    this.loaded = this.busy = false;
    this.error = null;
  }

  /** Reads from the start, as much as is shown. */
  async read(): Promise<void> {
    await this.#page("", Math.min(100, Math.max(PAGE, this.items.length)));
  }

  async more(): Promise<void> {
    if (this.cursor === "" || this.busy) return;
    await this.#page(this.cursor, PAGE);
  }

  set(filter: Partial<{ status: string; trigger: string; period: Period }>): void {
    if (filter.status !== undefined) this.status = filter.status;
    if (filter.trigger !== undefined) this.trigger = filter.trigger;
    if (filter.period !== undefined) this.period = filter.period;
    this.items = [];
    this.loaded = false;
    void this.read();
  }

  clear(): void {
    this.set({ status: "", trigger: "", period: "" });
  }

  async #page(cursor: string, limit: number): Promise<void> {
    const skillId = this.skillId;
    if (skillId === null) return;
    const turn = ++this.#turn;
    this.busy = true;
    try {
      const r = await this.#rpc.call("skills.history", {
        skillId,
        limit,
        ...(cursor === "" ? {} : { cursor }),
        ...(this.status === "" ? {} : { status: this.status }),
        ...(this.trigger === "" ? {} : { trigger: this.trigger }),
        ...(this.period === "" ? {} : { from: new Date(this.#now() - days[this.period] * 86_400_000).toISOString() }),
      });
      if (turn !== this.#turn) return;
      this.items = cursor === "" ? r.executions : [...this.items, ...r.executions];
      this.cursor = r.nextCursor ?? "";
      this.bytes = r.bytes;
      this.loaded = true;
      this.error = null;
    } catch (e) {
      if (turn !== this.#turn) return;
      this.error = asError(e);
      this.loaded = true;
    } finally {
      if (turn === this.#turn) this.busy = false;
    }
  }

  /** Keeps a run from being removed, or lets it be. */
  async pin(run: Execution, pinned: boolean): Promise<void> {
    const set = (on: boolean): void => {
      this.items = this.items.map((e) => (e.executionId === run.executionId ? { ...e, pinned: on } : e));
    };
    set(pinned);
    try {
      await this.#rpc.call("skills.pin", { executionId: run.executionId, pinned });
    } catch (e) {
      set(!pinned);
      throw e;
    }
  }

  /** Takes runs out of the list at once; answers how to show them again. */
  drop(before: string | null): () => void {
    const kept = this.items;
    const limit = before === null ? Number.POSITIVE_INFINITY : Date.parse(before);
    this.items = kept.filter((e) => e.pinned || !e.finishedAt || Date.parse(e.createdAt) >= limit);
    return () => (this.items = kept);
  }

  /** Removes runs that have ended. */
  async purge(before: string | null): Promise<number> {
    const skillId = this.skillId;
    const { removed } = await this.#rpc.call("skills.purge_history", { ...(skillId === null ? {} : { skillId }), ...(before === null ? {} : { before }) });
    await this.read();
    return removed;
  }
}
