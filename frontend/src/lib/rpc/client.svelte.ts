import { pause } from "./backoff";
import { RpcError, canceled, fromWire, isSignedOut } from "./errors";
import { FrameLog } from "./log";
import { allows, isRead } from "./reads";
import type { Transport } from "./transport";
import type { CallOptions, ConnectionInfo, ConnectionPhase, EventMeta, EventName, Method, Rpc } from "./types";

/** The reactive state of the connection; only the client changes it. */
class Connection implements ConnectionInfo {
  phase = $state<ConnectionPhase>("starting");
  lostAt = $state(0);
  nextAt = $state(0);
  attempt = $state(0);
  reason = $state("");
  version = $state("");
  scopes = $state.raw<readonly string[]>([]);
  methods = $state.raw<ReadonlySet<string> | null>(null);
  userName = $state("");
  pipe = $state("");
  get open(): boolean {
    return this.phase === "open";
  }
}

interface Pending {
  method: string;
  params: unknown;
  options: CallOptions;
  resolve(value: unknown): void;
  reject(e: RpcError): void;
  sent: boolean;
  off(): void;
}

interface Hello {
  server?: { version?: string };
  user?: { displayName?: string };
  scopes?: string[];
  features?: { methods?: string[] };
}

interface Position {
  epoch: string;
  seq: number;
  gap?: boolean;
}

export interface ClientOptions {
  /** Sent in `connect` as a label. */
  version?: string;
  locale?: string;
  /** For tests: the source of the jitter of reconnect delays. */
  random?: () => number;
}

const maxWaiting = 256;
/** Rows that arrive together from other devices cause one reload. */
const deltaMs = 50;
/** After this time without frames, a pipe with pending calls is probed, and given up after that much more. */
const silence = { ask: 15_000, giveUp: 10_000, every: 5_000 };
const noAnswer =
  "The connection was lost before the answer arrived. Check whether it was done before you try again.";

/**
 * The JSON-RPC client of the interface. It connects, repeats calls that are safe to repeat, follows events
 * without duplicates or gaps, and reports a gap if there was one. It does not use a DOM; the transport is
 * passed in.
 */
export class RpcClient implements Rpc {
  readonly connection = new Connection();
  readonly log = new FrameLog();
  #transport: Transport;
  #options: ClientOptions;
  #pending = new Map<number, Pending>();
  #waiting: Pending[] = [];
  #ordered = new Map<string, Promise<unknown>>(); // ends of the last calls in order
  #listeners = new Map<string, Set<(data: never, meta: EventMeta) => void>>();
  #reloads = new Set<() => void>();
  #delta: ReturnType<typeof setTimeout> | undefined;
  #next = 1;
  #epoch: string | undefined;
  #seq = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #life = 0;
  #heard = 0;
  #watch: ReturnType<typeof setInterval> | undefined;

  constructor(transport: Transport, options: ClientOptions = {}) {
    this.#transport = transport;
    this.#options = options;
    this.connection.pipe = transport.kind;
  }

  /** Connects and stays connected until stop. */
  start(): void {
    if (this.connection.phase === "starting") this.connection.phase = "reconnecting";
    void this.#attempt(++this.#life);
  }

  /** Ends the session without reconnecting. Pending calls reject. */
  stop(): void {
    this.#life++;
    clearTimeout(this.#timer);
    clearInterval(this.#watch);
    this.#transport.close();
    this.connection.phase = "stopped";
    this.#failAll(new RpcError({ message: "Helix is closed.", kind: "unavailable", code: "UNAVAILABLE" }));
  }

  /** Retries now instead of at the planned time. */
  retryNow(): void {
    if (this.connection.phase !== "reconnecting") return;
    clearTimeout(this.#timer);
    void this.#attempt(++this.#life);
  }

  can(method: Method): boolean {
    return (this.connection.methods?.has(method) ?? false) && allows(this.connection.scopes, method);
  }

  // The implementation uses plain values: the method table types the callers.
  call(method: string, params: unknown = {}, options: CallOptions = {}): Promise<never> {
    const { inOrder } = options;
    if (inOrder === undefined) return this.#call(method, params, options);
    const call = (): Promise<never> => this.#call(method, params, options);
    const before = this.#ordered.get(inOrder);
    const answer = before ? before.then(call) : call();
    const end = answer.then(() => {}, () => {}).then(() => {
      if (this.#ordered.get(inOrder) === end) this.#ordered.delete(inOrder);
    });
    this.#ordered.set(inOrder, end);
    return answer;
  }

  #call(method: string, params: unknown, options: CallOptions): Promise<never> {
    return new Promise<unknown>((resolve, reject) => {
      const p: Pending = { method, params, options, resolve, reject, sent: false, off: () => {} };
      const { signal } = options;
      if (signal?.aborted) return reject(canceled());
      if (signal) {
        const abort = (): void => this.#abort(p);
        signal.addEventListener("abort", abort, { once: true });
        p.off = () => signal.removeEventListener("abort", abort);
      }
      if (this.connection.open) return this.#send(p);
      if (this.connection.phase === "signed-out" || this.connection.phase === "stopped") {
        return this.#settle(p, this.#offline("The session has ended."));
      }
      if (!this.#repeatable(p)) return this.#settle(p, this.#offline("Helix is not connected. Nothing was changed."));
      if (this.#waiting.length >= maxWaiting) return this.#settle(p, this.#offline("Too many calls are waiting for the connection."));
      this.#waiting.push(p);
    }) as Promise<never>;
  }

  on(event: EventName, fn: (data: never, meta: EventMeta) => void): () => void {
    const set = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, set);
    set.add(fn);
    return () => set.delete(fn);
  }

  onReload(fn: () => void): () => void {
    this.#reloads.add(fn);
    return () => this.#reloads.delete(fn);
  }

  #offline(message: string): RpcError {
    return new RpcError({ message, kind: "unavailable", code: "UNAVAILABLE", retryable: true });
  }

  #repeatable(p: Pending): boolean {
    return isRead(p.method) || p.options.idempotencyKey !== undefined;
  }

  #settle(p: Pending, e: RpcError): void {
    p.off();
    p.reject(e);
  }

  #abort(p: Pending): void {
    const i = this.#waiting.indexOf(p);
    if (i >= 0) this.#waiting.splice(i, 1);
    for (const [id, q] of this.#pending) {
      if (q !== p) continue;
      this.#pending.delete(id);
      this.#write({ jsonrpc: "2.0", method: "rpc.cancel", params: { ids: [id] } }, "rpc.cancel", "notification");
    }
    this.#settle(p, canceled());
  }

  #send(p: Pending): void {
    const id = this.#next++;
    const { idempotencyKey, deadlineMs } = p.options;
    const meta = idempotencyKey !== undefined || deadlineMs !== undefined ? { _meta: { idempotencyKey, deadlineMs } } : {};
    p.sent = true;
    this.#pending.set(id, p);
    const refused = (e: unknown): void => {
      if (this.#pending.delete(id)) this.#settle(p, this.#offline(e instanceof Error ? e.message : String(e)));
    };
    this.#write({ jsonrpc: "2.0", id, method: p.method, params: { ...(p.params as object), ...meta } }, p.method, "call", refused);
  }

  #write(frame: object, name: string, kind: "call" | "notification", refused: (e: unknown) => void = () => {}): void {
    const text = JSON.stringify(frame);
    this.log.add("out", frame, name, kind, text.length);
    void (async () => this.#transport.send(text))().catch(refused);
  }

  async #attempt(life: number): Promise<void> {
    const c = this.connection;
    c.nextAt = 0;
    try {
      await this.#transport.open({
        frame: (text) => life === this.#life && this.#frame(text),
        closed: (code) => life === this.#life && this.#lost(life, code),
      });
      if (life !== this.#life) return;
      await this.#handshake();
      if (life !== this.#life) return;
      c.phase = "open";
      this.#startWatch(life);
      c.lostAt = 0;
      c.attempt = 0;
      c.reason = "";
      const waiting = this.#waiting.splice(0);
      for (const p of waiting) this.#send(p);
    } catch (e) {
      if (life !== this.#life) return;
      this.#transport.close();
      if (isSignedOut(e)) {
        c.phase = "signed-out";
        c.reason = (e as Error).message;
        this.#failAll(e as RpcError);
        return;
      }
      this.#later(life, e instanceof Error ? e.message : String(e));
    }
  }

  async #handshake(): Promise<void> {
    const token = this.#transport.token?.();
    const hello = (await this.#direct("connect", {
      minProtocol: 1,
      maxProtocol: 1,
      client: {
        id: "helix-ui",
        version: this.#options.version ?? "dev",
        platform: "web",
        mode: this.#transport.kind === "bridge" ? "window" : "browser",
        displayName: this.#transport.kind === "bridge" ? "Helix window" : "Helix in a browser",
      },
      scopes: ["read", "write", "approve", "admin"],
      ...(token ? { auth: { token } } : {}),
      locale: this.#options.locale ?? "en",
    })) as Hello;
    const c = this.connection;
    c.version = hello.server?.version ?? "";
    c.userName = hello.user?.displayName ?? "";
    c.scopes = hello.scopes ?? [];
    c.methods = new Set(hello.features?.methods ?? []);
    const topics = ["*"];
    const first = this.#epoch === undefined;
    // A resume replays its events before it returns, so they have been counted by then.
    const position = first
      ? ((await this.#direct("events.subscribe", { topics })) as Position)
      : ((await this.#direct("events.resume", { epoch: this.#epoch, afterSeq: this.#seq, topics })) as Position);
    const gap = position.gap === true;
    if (first || gap) this.#seq = position.seq;
    this.#epoch = position.epoch;
    // Screens read again only once calls are possible.
    if (gap) queueMicrotask(() => this.#reload());
  }

  /**
   * Not every pipe reports that its other end is gone. While calls are pending and nothing arrives, a small
   * call is sent; if it is not answered, the pipe counts as lost.
   */
  #startWatch(life: number): void {
    clearInterval(this.#watch);
    this.#heard = Date.now();
    this.#watch = setInterval(() => {
      const silent = Date.now() - this.#heard;
      if (life !== this.#life || this.connection.phase !== "open") return clearInterval(this.#watch);
      if (this.#pending.size === 0) this.#heard = Date.now();
      else if (silent > silence.ask + silence.giveUp) {
        this.#transport.close();
        this.#lost(life);
      } else if (silent > silence.ask) this.#direct("session.get", {}).catch(() => {});
    }, silence.every);
  }

  /** A call of the handshake itself, never queued or repeated. */
  #direct(method: string, params: unknown): Promise<unknown> {
    return new Promise((resolve, reject) =>
      this.#send({ method, params, options: {}, resolve, reject, sent: true, off: () => {} }),
    );
  }

  #reload(): void {
    for (const fn of [...this.#reloads]) fn();
  }

  #lost(life: number, code?: number): void {
    const why = code === 1013 ? "The backend ended this session because it was too slow." : "The connection to the backend was lost.";
    for (const [id, p] of this.#pending) {
      this.#pending.delete(id);
      const handshake = p.method === "connect" || p.method.startsWith("events.");
      if (!handshake && this.#repeatable(p) && this.#waiting.length < maxWaiting) this.#waiting.push(p);
      else this.#settle(p, this.#offline(handshake ? why : noAnswer));
    }
    // A loss during the handshake is handled by the code that awaits the handshake.
    if (this.connection.phase === "open") this.#later(life, why);
  }

  #later(life: number, reason: string): void {
    const c = this.connection;
    clearInterval(this.#watch);
    if (c.phase === "open" || c.lostAt === 0) c.lostAt = Date.now();
    c.phase = "reconnecting";
    c.reason = reason;
    const wait = pause(c.attempt++, this.#options.random?.());
    c.nextAt = Date.now() + wait;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => life === this.#life && void this.#attempt(++this.#life), wait);
  }

  #failAll(e: RpcError): void {
    const all = [...this.#waiting.splice(0), ...this.#pending.values()];
    this.#pending.clear();
    for (const p of all) this.#settle(p, e);
  }

  #frame(text: string): void {
    this.#heard = Date.now();
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      return;
    }
    for (const m of Array.isArray(body) ? body : [body]) this.#message(m as Record<string, unknown>, text.length);
  }

  #message(m: Record<string, unknown>, bytes: number): void {
    if (typeof m.method === "string") {
      this.log.add("in", m, m.method, "event", bytes);
      this.#event(m.method, (m.params ?? {}) as Record<string, unknown>);
      return;
    }
    const p = this.#pending.get(m.id as number);
    const failed = m.error !== undefined && m.error !== null;
    this.log.add("in", m, p?.method ?? "", failed ? "error" : "result", bytes);
    if (!p) return;
    this.#pending.delete(m.id as number);
    p.off();
    if (failed) p.reject(fromWire(m.error as { code: number; message: string; data?: unknown }));
    else p.resolve(m.result);
  }

  #event(name: string, params: Record<string, unknown>): void {
    if (name === "events.gap") {
      const to = (params.data as { toSeq?: number } | undefined)?.toSeq ?? params.seq;
      if (typeof to === "number") this.#seq = Math.max(this.#seq, to);
      this.#reload();
      return;
    }
    const seq = typeof params.seq === "number" ? params.seq : 0;
    if (seq > 0) {
      if (seq <= this.#seq) return;
      this.#seq = seq;
    }
    // Rows of other devices may be of any screen.
    if (name === "sync.delta") {
      clearTimeout(this.#delta);
      this.#delta = setTimeout(() => this.#reload(), deltaMs);
    }
    const set = this.#listeners.get(name);
    if (!set) return;
    const meta: EventMeta = { seq, time: String(params.time ?? "") };
    for (const fn of [...set]) fn(params.data as never, meta);
  }
}
