import { common } from "../../lib/i18n/common";
import type { Rpc } from "../../lib/rpc";
import { clock, day, dayName } from "../../lib/ui/format";

/** Whether all schedules are paused, for the status bar, whichever screen is open. */
export class Pause {
  /** The end of the pause; null for one without an end; undefined while there is none. */
  until = $state<string | null | undefined>(undefined);
  #rpc: Rpc | null = null;
  #end: ReturnType<typeof setTimeout> | undefined;

  get active(): boolean {
    return this.until !== undefined;
  }
  /** When it ends, in words, or "". */
  get end(): string {
    if (!this.until) return "";
    return `${dayName(this.until) === common.today ? "" : `${day(this.until)}, `}${clock(this.until).slice(0, 5)}`;
  }

  start(rpc: Rpc): void {
    this.#rpc = rpc;
    rpc.on("schedules.changed", (e) => !e.scheduleId && void this.read());
    rpc.onReload(() => void this.read());
    void this.read();
  }

  stop(): void {
    clearTimeout(this.#end);
  }

  /** Reads the state, and again when a pause ends automatically. */
  async read(): Promise<void> {
    clearTimeout(this.#end);
    try {
      const status = await this.#rpc?.call("schedules.status", {});
      this.until = status?.pausedAll ? (status.pausedUntil ?? null) : undefined;
      const left = this.until ? Date.parse(this.until) - Date.now() : -1;
      if (left >= 0) this.#end = setTimeout(() => void this.read(), Math.min(left + 1000, 3_600_000));
    } catch {
      // The Schedules screen shows the error.
    }
  }
}

export const pause = new Pause();
