import type { Rpc } from "../../lib/rpc";
import type { ToastInit } from "../../lib/ui/toasts.svelte";
import type { Notice } from "./types";

/** Where notices are shown. */
export interface NoticePlace {
  /** In the corner of the page. */
  toast(t: ToastInit): void;
  /** By the desktop; false when there is none or the page is in front anyway. */
  desktop(n: Notice): boolean;
  /** Goes to what the notice is about. */
  open(scheduleId: string, runId: string): void;
}

/** So many are shown one by one; more are summed up. */
const SHOWN = 3;

const tones: Record<string, ToastInit["tone"]> = { success: "ok", warning: "warn", error: "danger" };

/** Shows what schedules have to say, each once, and tells the backend that it was shown. */
export class Notices {
  readonly #seen = new Set<string>();
  readonly #rpc: Rpc;
  readonly #place: NoticePlace;
  #off: (() => void)[] = [];

  constructor(rpc: Rpc, place: NoticePlace) {
    this.#rpc = rpc;
    this.#place = place;
  }

  /** Shows what waits, then what comes. A session that may not take notices leaves them to one that may. */
  start(): void {
    if (this.#off.length > 0 || !this.#rpc.can("schedules.take_notices")) return;
    this.#off = [this.#rpc.on("schedules.notification", (n) => void this.show([n])), this.#rpc.onReload(() => void this.#read())];
    void this.#read();
  }

  stop(): void {
    for (const off of this.#off.splice(0)) off();
  }

  async #read(): Promise<void> {
    try {
      await this.show((await this.#rpc.call("schedules.notices", {})).notices);
    } catch {
      // They wait until the next start; the runs themselves are in the history.
    }
  }

  async show(all: readonly Notice[]): Promise<void> {
    const fresh = all.filter((n) => !this.#seen.has(n.noticeId));
    if (fresh.length === 0) return;
    for (const n of fresh) this.#seen.add(n.noticeId);
    if (fresh.length > SHOWN) {
      const bad = fresh.filter((n) => n.level === "error").length;
      this.#place.toast({ title: `${fresh.length} notices of schedules`, text: fresh.map((n) => n.title).slice(0, SHOWN).join(" · ") + " …", tone: bad > 0 ? "danger" : "info", ms: 15_000, action: { label: "Show", run: () => this.#place.open("", "") } });
    } else {
      for (const n of fresh) {
        if (this.#place.desktop(n)) continue;
        this.#place.toast({ title: n.title, text: n.body, tone: tones[n.level] ?? "info", ms: 15_000, action: { label: "Show", run: () => this.#place.open(n.scheduleId, n.runId ?? "") } });
      }
    }
    try {
      await this.#rpc.call("schedules.take_notices", { noticeIds: fresh.map((n) => n.noticeId) });
    } catch {
      // Shown here all the same; at worst they come once more after the next start.
    }
  }
}
