import { common } from "../i18n/common";
import { asError } from "../rpc/errors";
import { nav } from "./nav.svelte";

export type ToastTone = "info" | "ok" | "warn" | "danger";

export interface ToastInit {
  title: string;
  text?: string;
  tone?: ToastTone;
  /** One button next to the text. */
  action?: { label: string; run(): void };
  /** How long it is shown; 0 = until dismissed. Default 5 s, errors 8 s. */
  ms?: number;
}

export interface Toast extends Required<Omit<ToastInit, "action">> {
  id: number;
  action: { label: string; run(): void } | undefined;
  /** Seconds left for an Undo, else 0. */
  left: number;
}

interface Deferred {
  title: string;
  text?: string;
  /** Performs the action. Called when the time is over, when the toast is dismissed, or when the page closes. */
  commit(): Promise<unknown> | void;
  /** Restores the screen. */
  revert(): void;
  /** The item is in the Trash, from which it can be restored later too. */
  trash?: boolean;
}

export const undoSeconds = 10;

/**
 * Short messages in the corner, and the place where all errors are shown.
 *
 * `error(e)` is for every failed call without a better place. `undo(title, restore)` is for actions that
 * the backend can undo. `deferred(…)` is for actions that it cannot undo: the action itself waits for 10 s.
 */
export class Toasts {
  list = $state.raw<readonly Toast[]>([]);
  /** The height of the messages at the bottom of the page, which reserves this space, so that they cover nothing. */
  height = $state(0);
  #next = 1;
  #timers = new Map<number, ReturnType<typeof setInterval>>();
  #undo: { id: number; title: string; trash: boolean; run(): void }[] = [];
  /** The latest action that can now only be undone in the Trash. */
  #trashed = "";
  #commits = new Map<number, () => void>();
  #held = new Set<number>();
  /** Actions that are not done yet but already show, and whether Undo was pressed meanwhile. */
  #running = 0;
  #wanted = false;

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

  /** Shows an error. A canceled call is not an error and shows nothing. */
  error(e: unknown, title = ""): void {
    const err = asError(e);
    if (err.kind === "canceled") return;
    const text = title ? err.message : "";
    const same = this.list.find((t) => t.tone === "danger" && t.title === (title || err.message) && t.text === text);
    if (same) return;
    this.add({ title: title || err.message, text, tone: "danger" });
  }

  /** The action is done; `restore` undoes it. With `trash`, it can be undone later in the Trash. */
  undo(title: string, restore: () => Promise<unknown> | void, text = "", trash = false): number {
    return this.#undoable({ title, text, trash, commit: () => {}, revert: () => void this.#guard(restore) });
  }

  /** The action waits for 10 s and is performed unless the user cancels it. */
  deferred(d: Deferred): number {
    return this.#undoable(d);
  }

  /** Runs an action that shows before the backend has done it and that offers `undo` then. Undo pressed before that waits for it. */
  async during<T>(act: () => Promise<T>): Promise<T> {
    this.#running++;
    try {
      return await act();
    } finally {
      if (--this.#running === 0) this.#wanted = false;
    }
  }

  /** Whether `undoLast` has an effect. */
  get undoable(): boolean {
    return this.#running > 0 || this.#undo.length > 0 || this.#trashed !== "";
  }

  /** Undoes the latest action that can be undone, or shows where to do so. Bound to Ctrl/Cmd+Z outside text fields. */
  undoLast(): boolean {
    if (this.#running > 0) return (this.#wanted = true);
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

  /** Performs waiting actions at once. Called when the page closes. */
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
    if (this.#wanted) {
      this.#wanted = false;
      run();
    }
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

/** The messages that state classes use, so that tests can replace them. */
export interface Notify {
  ok(title: string, text?: string): unknown;
  add(t: ToastInit): unknown;
  error(e: unknown, title?: string): void;
  undo(title: string, restore: () => Promise<unknown> | void, text?: string, trash?: boolean): unknown;
  during?<T>(act: () => Promise<T>): Promise<T>;
}

/** The page's own messages. */
export const toasts = new Toasts();
