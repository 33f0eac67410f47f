import { common } from "../i18n/common";
import { asError } from "../rpc/errors";
import { nav } from "./nav.svelte";

export type ToastTone = "info" | "ok" | "warn" | "danger";

export interface ToastInit {
  title: string;
  text?: string;
  tone?: ToastTone;
  /** One button beside the text. */
  action?: { label: string; run(): void };
  /** How long it stays; 0 = until dismissed. Default 5 s, errors 8 s. */
  ms?: number;
}

export interface Toast extends Required<Omit<ToastInit, "action">> {
  id: number;
  action: { label: string; run(): void } | undefined;
  /** Whole seconds left of an Undo, else 0. */
  left: number;
}

interface Deferred {
  title: string;
  text?: string;
  /** Does the act. Runs when the time is over, when the toast is dismissed, or when the page goes away. */
  commit(): Promise<unknown> | void;
  /** Puts the screen back as it was. */
  revert(): void;
  /** It is in the Trash, where it can be restored later too. */
  trash?: boolean;
}

export const undoSeconds = 10;

/**
 * Short messages in the corner and the one error funnel.
 *
 * `error(e)` is for every failed call that has no better place.
 * `undo(title, restore)` is for acts that the backend can take back.
 * `deferred(…)` is for acts that it cannot: the act itself waits for 10 s.
 */
export class Toasts {
  list = $state.raw<readonly Toast[]>([]);
  /** How high the messages stand at the foot of the page, which leaves them this room, so that they cover nothing. */
  height = $state(0);
  #next = 1;
  #timers = new Map<number, ReturnType<typeof setInterval>>();
  #undo: { id: number; title: string; trash: boolean; run(): void }[] = [];
  /** What the newest act did that can only be taken back in the Trash now. */
  #trashed = "";
  #commits = new Map<number, () => void>();
  #held = new Set<number>();

  add(init: ToastInit): number {
    const id = this.#next++;
    const tone = init.tone ?? "info";
    const ms = init.ms ?? (tone === "danger" ? 8000 : 5000);
    this.list = [...this.list.slice(-4), { id, title: init.title, text: init.text ?? "", tone, ms, action: init.action, left: 0 }];
    if (ms > 0) this.#count(id, Math.ceil(ms / 1000), () => this.dismiss(id));
    return id;
  }

  ok(title: string, text = ""): number {
    return this.add({ title, text, tone: "ok" });
  }

  /** Shows what went wrong. A cancelled call is no error and shows nothing. */
  error(e: unknown, title = ""): void {
    const err = asError(e);
    if (err.kind === "canceled") return;
    const text = title ? err.message : "";
    const same = this.list.find((t) => t.tone === "danger" && t.title === (title || err.message) && t.text === text);
    if (same) return;
    this.add({ title: title || err.message, text, tone: "danger" });
  }

  /** The act is done; `restore` takes it back. With `trash` the Trash can do so later. */
  undo(title: string, restore: () => Promise<unknown> | void, text = "", trash = false): number {
    return this.#undoable({ title, text, trash, commit: () => {}, revert: () => void this.#guard(restore) });
  }

  /** The act waits 10 s and is done unless the user takes it back. */
  deferred(d: Deferred): number {
    return this.#undoable(d);
  }

  /** Whether `undoLast` has an answer. */
  get undoable(): boolean {
    return this.#undo.length > 0 || this.#trashed !== "";
  }

  /** Takes back the newest act that still can be, or says where. Bound to Ctrl/Cmd+Z outside of text fields. */
  undoLast(): boolean {
    const last = this.#undo.at(-1);
    if (last) last.run();
    else if (this.#trashed !== "" && !this.list.some((t) => t.title === common.undoOver)) this.add({ title: common.undoOver, text: common.undoInTrash(this.#trashed), ms: 8000, action: { label: common.openTrash, run: () => nav.go("trash") } });
    return last !== undefined;
  }

  dismiss(id: number): void {
    clearInterval(this.#timers.get(id));
    this.#timers.delete(id);
    this.#held.delete(id);
    const over = this.#undo.find((u) => u.id === id);
    if (over?.trash) this.#trashed = over.title;
    this.#undo = this.#undo.filter((u) => u !== over);
    this.list = this.list.filter((t) => t.id !== id);
    const commit = this.#commits.get(id);
    this.#commits.delete(id);
    commit?.();
  }

  /** Pauses the countdown while the pointer or focus is on it. */
  hold(id: number, on: boolean): void {
    if (on) this.#held.add(id);
    else this.#held.delete(id);
  }

  /** Does at once what waits. Called when the page goes away. */
  flush(): void {
    for (const id of [...this.#commits.keys()]) this.dismiss(id);
  }

  #undoable(d: Deferred): number {
    const id = this.#next++;
    const run = (): void => {
      this.#commits.delete(id);
      this.#undo = this.#undo.filter((u) => u.id !== id);
      this.dismiss(id);
      d.revert();
    };
    this.#undo.push({ id, title: d.title, trash: d.trash === true, run });
    this.#commits.set(id, () => void this.#guard(d.commit, d.revert));
    this.list = [
      ...this.list.slice(-4),
      { id, title: d.title, text: d.text ?? "", tone: "info", ms: undoSeconds * 1000, action: { label: common.undo, run }, left: undoSeconds },
    ];
    this.#count(id, undoSeconds, () => this.dismiss(id));
    return id;
  }

  async #guard(act: () => Promise<unknown> | void, failed?: () => void): Promise<void> {
    try {
      await act();
    } catch (e) {
      failed?.();
      this.error(e);
    }
  }

  #count(id: number, seconds: number, done: () => void): void {
    let left = seconds;
    this.#timers.set(
      id,
      setInterval(() => {
        if (this.#held.has(id)) return;
        left--;
        this.list = this.list.map((t) => (t.id === id && t.left > 0 ? { ...t, left } : t));
        if (left <= 0) done();
      }, 1000),
    );
  }
}

/** What state classes use of the messages, so that tests can give them something else. */
export interface Notify {
  ok(title: string, text?: string): unknown;
  add(t: ToastInit): unknown;
  error(e: unknown, title?: string): void;
  undo(title: string, restore: () => Promise<unknown> | void, text?: string, trash?: boolean): unknown;
}

/** The page's own messages. */
export const toasts = new Toasts();
