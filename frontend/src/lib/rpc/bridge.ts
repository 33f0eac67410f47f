import type { Transport, TransportHandlers } from "./transport";

/** A file that the user chose in a native dialog. `token` is what methods accept. */
export interface PickedFile {
  path: string;
  name: string;
  size: number;
  token: string;
}

/** The options of a native dialog. */
export interface FileDialog {
  title: string;
  /** Suggested file name for saving. */
  name?: string;
  /** Patterns are like `*.json;*.txt`. */
  filters?: { name: string; pattern: string }[];
  multiple?: boolean;
}

export interface Notice {
  id: string;
  title: string;
  body: string;
  /** Where a click leads. */
  link?: string;
  /** Shown even in quiet hours. */
  test?: boolean;
}

/** The Go struct that the window binds; see desktop.md. */
export interface Bridge {
  Open(): Promise<string>;
  Send(session: string, frame: string): Promise<void>;
  OpenFiles(o: FileDialog): Promise<PickedFile[]>;
  OpenFolder(o: FileDialog): Promise<PickedFile>;
  SaveFile(o: FileDialog): Promise<PickedFile>;
  Notify(n: Notice): Promise<void>;
  Window(action: string): Promise<void>;
  Ready(): Promise<void>;
}

interface WailsWindow {
  go?: { app?: { Bridge?: Bridge } };
  runtime?: {
    EventsOn(name: string, fn: (...args: unknown[]) => void): () => void;
    EventsEmit?(name: string, ...args: unknown[]): void;
    BrowserOpenURL?(url: string): void;
    Quit?(): void;
  };
}

const host = (): WailsWindow => globalThis as unknown as WailsWindow;

/** The bound struct, or null outside the desktop window. */
export const bridge = (): Bridge | null => host().go?.app?.Bridge ?? null;

/**
 * Listens to events of the window itself: `app.navigate` (a link), `backend.failed`, `backend.updating`. Does
 * nothing outside the window.
 */
export function onWindow(event: "app.navigate" | "backend.failed" | "backend.updating", fn: (text: string, ...numbers: number[]) => void): () => void {
  return host().runtime?.EventsOn(event, (text, ...numbers) => void (typeof text === "string" && fn(text, ...numbers.map(Number)))) ?? (() => {});
}

/** Listens to commands of the tray and of the window's menu. */
export function onCommand(fn: (id: string, argument: string) => void): () => void {
  return host().runtime?.EventsOn("app.command", (id, argument) => void (typeof id === "string" && fn(id, typeof argument === "string" ? argument : ""))) ?? (() => {});
}

/** Tells the window whether it has the focus: notifications are only shown while it has not. */
export const reportFocus = (focused: boolean): void => host().runtime?.EventsEmit?.("window.focused", focused);

/** Quits the program from its window. */
export const quitWindow = (): void => host().runtime?.EventsEmit?.("window.quit");

/** Frames over the window's bridge: `Bridge.Send` in, runtime event `rpc` out. */
export class BridgeTransport implements Transport {
  readonly kind = "bridge";
  #session = "";
  #off: (() => void) | null = null;

  async open(h: TransportHandlers): Promise<void> {
    this.close();
    const b = bridge();
    const runtime = host().runtime;
    if (!b || !runtime) throw new Error("The connection to the window is missing.");
    // Frames can arrive before the result of Open, so they are buffered until the id is known.
    const early: [string, string][] = [];
    let session = "";
    const take = (frame: string) => (frame === "" ? h.closed() : h.frame(frame)); // an empty frame ends the session
    this.#off = runtime.EventsOn("rpc", (id, frame) => {
      if (typeof id !== "string" || typeof frame !== "string") return;
      if (!session) early.push([id, frame]);
      else if (id === session) take(frame);
    });
    session = await b.Open();
    this.#session = session;
    for (const [id, frame] of early) if (id === session) take(frame);
  }

  send(frame: string): Promise<void> {
    const b = bridge();
    if (!b || !this.#session) throw new Error("Not connected.");
    return b.Send(this.#session, frame);
  }

  close(): void {
    this.#off?.();
    this.#off = null;
    this.#session = "";
  }
}
