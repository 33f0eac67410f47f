import type { Rpc } from "../../lib/rpc";
import type { ToastInit } from "../../lib/ui/toasts.svelte";
import { t } from "./messages";
import type { Notice } from "./types";

/** Where notices are shown. */
export interface NoticePlace {
  /** In the corner of the page. */
  toast(t: ToastInit): void;
  /** By the desktop; false if there is none or the page is in front anyway. */
  desktop(n: Notice): boolean;
  /** Opens what the notice is about. */
  open(scheduleId: string, runId: string): void;
}

/** This many are shown individually; more are combined. */
const SHOWN = 3;

/** The user's notification settings. */
interface Preferences {
  enabled: boolean;
  /** Show details on the desktop, not only the title. */
  preview: boolean;
  /** Quiet hours such as "22:00-07:00", in local time; "" for none. */
  quiet: string;
}

const keys = ["notifications.enabled", "notifications.preview", "notifications.quiet"];

/** Milliseconds until the quiet hours around `now` end; 0 outside of them. */
export function quietFor(quiet: string, now: Date): number {
  const m = /^(\d\d):(\d\d)-(\d\d):(\d\d)$/.exec(quiet);
  if (!m) return 0;
  const [from, to] = [Number(m[1]) * 60 + Number(m[2]), Number(m[3]) * 60 + Number(m[4])];
  const minute = now.getHours() * 60 + now.getMinutes();
  const inside = from <= to ? minute >= from && minute < to : minute >= from || minute < to;
  if (!inside) return 0;
  const end = new Date(now);
  end.setHours(Math.floor(to / 60), to % 60, 0, 0);
  if (end <= now) end.setDate(end.getDate() + 1);
  return end.getTime() - now.getTime();
}

const tones: Record<string, ToastInit["tone"]> = { success: "ok", warning: "warn", error: "danger" };

/**
 * Shows the notices of schedules, each once, as the notification settings allow. Notices that arrive in quiet
 * hours remain in the backend and are shown when those hours end.
 */
export class Notices {
  readonly #seen = new Set<string>();
  readonly #rpc: Rpc;
  readonly #place: NoticePlace;
  readonly #now: () => Date;
  #preferences: Preferences = { enabled: true, preview: false, quiet: "" };
  #later: ReturnType<typeof setTimeout> | undefined;
  #off: (() => void)[] = [];

  constructor(rpc: Rpc, place: NoticePlace, now: () => Date = () => new Date()) {
    this.#rpc = rpc;
    this.#place = place;
    this.#now = now;
  }

  /** Shows waiting notices, then new ones. A session that may not take notices leaves them to another one. */
  start(): void {
    if (this.#off.length > 0 || !this.#rpc.can("schedules.take_notices")) return;
    this.#off = [
      this.#rpc.on("schedules.notification", (n) => void this.show([n])),
      this.#rpc.on("config.changed", (e) => e.keys.some((k) => keys.includes(k)) && void this.#load()),
      this.#rpc.onReload(() => void this.#load()),
    ];
    void this.#load();
  }

  stop(): void {
    clearTimeout(this.#later);
    for (const off of this.#off.splice(0)) off();
  }

  async #load(): Promise<void> {
    try {
      const { values } = await this.#rpc.call("config.get", { keys });
      this.#preferences = {
        enabled: values["notifications.enabled"] !== false,
        preview: values["notifications.preview"] === true,
        quiet: String(values["notifications.quiet"] ?? ""),
      };
    } catch {
      // A session that may not read settings uses the defaults.
    }
    await this.#read();
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
    const { enabled, preview, quiet } = this.#preferences;
    const wait = enabled ? quietFor(quiet, this.#now()) : 0;
    if (wait > 0) {
      clearTimeout(this.#later);
      this.#later = setTimeout(() => void this.#read(), wait);
      return;
    }
    for (const n of fresh) this.#seen.add(n.noticeId);
    if (!enabled) {
      // They are in the run history.
    } else if (fresh.length > SHOWN) {
      const bad = fresh.filter((n) => n.level === "error").length;
      this.#place.toast({ title: t.notices(fresh.length), text: fresh.map((n) => n.title).slice(0, SHOWN).join(" · ") + " …", tone: bad > 0 ? "danger" : "info", ms: 15_000, action: { label: t.show, run: () => this.#place.open("", "") } });
    } else {
      for (const n of fresh) {
        if (this.#place.desktop(preview ? n : { ...n, body: "" })) continue;
        this.#place.toast({ title: n.title, text: n.body, tone: tones[n.level] ?? "info", ms: 15_000, action: { label: t.show, run: () => this.#place.open(n.scheduleId, n.runId ?? "") } });
      }
    }
    try {
      await this.#rpc.call("schedules.take_notices", { noticeIds: fresh.map((n) => n.noticeId) });
    } catch {
      // Shown here nevertheless; at worst they are shown again after the next start.
    }
  }
}
