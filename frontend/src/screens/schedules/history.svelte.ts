import type { Params, Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import type { Run } from "./types";

const PAGE = 50;
/** Pages that are read to find one run. */
const SEARCHED = 4;

/** Statuses that the runs can be narrowed to. */
export const STATUSES = ["success", "failed", "missed", "skipped", "cancelled", "interrupted", "running", "waiting"] as const;

/** Runs, newest first: of one schedule or of all, filtered, read page by page. */
export class RunHistory {
  runs = $state.raw<readonly Run[]>([]);
  /** Of one schedule; empty: of all. */
  scheduleId = $state("");
  status = $state("");
  /** Local days, `YYYY-MM-DD`; empty for no bound. */
  from = $state("");
  to = $state("");
  readonly load = new Load<true>();
  #next = "";
  #soon: ReturnType<typeof setTimeout> | undefined;
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  readonly filtered = $derived(this.status !== "" || this.from !== "" || this.to !== "");

  /** Reads again as much as is shown. */
  async reload(): Promise<void> {
    const wanted = Math.max(PAGE, this.runs.length);
    await this.load.run(async (signal) => {
      const all: Run[] = [];
      let cursor = "";
      do {
        const r = await this.#rpc.call("schedules.runs", { ...this.#params(), ...(cursor === "" ? {} : { cursor }) }, { signal });
        all.push(...r.runs);
        cursor = r.nextCursor ?? "";
      } while (cursor !== "" && all.length < wanted);
      this.runs = all;
      this.#next = cursor;
      return true;
    });
  }

  /** Empties the list and reads from the start: after a change of filter. */
  restart(): Promise<void> {
    this.runs = [];
    this.load.data = undefined;
    this.load.error = undefined;
    return this.reload();
  }

  async more(): Promise<void> {
    if (this.#next === "" || this.load.busy) return;
    const cursor = this.#next;
    await this.load.run(async (signal) => {
      const r = await this.#rpc.call("schedules.runs", { ...this.#params(), cursor }, { signal });
      const known = new Set(this.runs.map((x) => x.runId));
      this.runs = [...this.runs, ...r.runs.filter((x) => !known.has(x.runId))];
      this.#next = r.nextCursor ?? "";
      return true;
    });
  }

  /** Shows another schedule's runs. */
  show(scheduleId: string): void {
    if (scheduleId === this.scheduleId && !this.load.first) return;
    this.scheduleId = scheduleId;
    this.clear();
  }

  setStatus(status: string): void {
    this.status = status;
    void this.restart();
  }

  setDays(from: string, to: string): void {
    this.from = from;
    this.to = to;
    void this.restart();
  }

  clear(): void {
    this.status = "";
    this.from = this.to = "";
    void this.restart();
  }

  soon(): void {
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => void this.reload(), 80);
  }

  stop(): void {
    clearTimeout(this.#soon);
    this.load.cancel();
  }

  #params(): Params<"schedules.runs"> {
    const p: Params<"schedules.runs"> = { limit: PAGE };
    if (this.scheduleId !== "") p.scheduleId = this.scheduleId;
    if (this.status !== "") p.status = this.status as (typeof STATUSES)[number];
    if (this.from !== "") p.from = new Date(`${this.from}T00:00:00`).toISOString();
    if (this.to !== "") p.to = new Date(`${this.to}T23:59:59.999`).toISOString();
    return p;
  }
}

/** Reads one run. The backend lists runs and does not give one alone, so the newest pages are looked through. */
export async function findRun(rpc: Rpc, scheduleId: string, runId: string, signal: AbortSignal): Promise<Run | null> {
  let cursor = "";
  for (let i = 0; i < SEARCHED; i++) {
    const r = await rpc.call("schedules.runs", { scheduleId, limit: 100, ...(cursor === "" ? {} : { cursor }) }, { signal });
    const hit = r.runs.find((x) => x.runId === runId);
    if (hit) return hit;
    cursor = r.nextCursor ?? "";
    if (cursor === "") break;
  }
  return null;
}
