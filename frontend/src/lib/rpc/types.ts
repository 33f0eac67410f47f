import type { Events, Methods } from "./schema.gen";

/** The name of a method that the backend registers. */
export type Method = keyof Methods & string;
/** The parameters of a method. */
export type Params<M extends Method> = Methods[M]["params"];
/** The result of a method. */
export type Result<M extends Method> = Methods[M]["result"];
/** The name of an event. */
export type EventName = keyof Events & string;
/** The data of an event. */
export type EventData<E extends EventName> = Events[E];
/** One element of a list inside a result: `Item<"approvals.list", "approvals">`. */
export type Item<M extends Method, K extends keyof Result<M>> = NonNullable<Result<M>[K]> extends readonly (infer T)[] ? T : never;

export interface CallOptions {
  /** Aborting sends `rpc.cancel`; the call rejects with kind `canceled`. */
  signal?: AbortSignal;
  /** Makes repeating safe: the backend runs the call only once per key. */
  idempotencyKey?: string;
  /** Calls with the same text are sent one after the other: of a switch pressed twice, the second press must win. */
  inOrder?: string;
  /** Can only shorten the method's own deadline. Milliseconds. */
  deadlineMs?: number;
}

export interface EventMeta {
  seq: number;
  time: string;
}

export type ConnectionPhase = "starting" | "open" | "reconnecting" | "signed-out" | "stopped";

/** The state of the connection as the frame shows it. Reactive. */
export interface ConnectionInfo {
  readonly phase: ConnectionPhase;
  /** Whether calls that change something are possible now. */
  readonly open: boolean;
  /** Epoch ms when the connection was lost, 0 while connected. */
  readonly lostAt: number;
  /** Epoch ms of the next attempt while reconnecting. */
  readonly nextAt: number;
  readonly attempt: number;
  /** Why the last attempt failed, or why the session ended. */
  readonly reason: string;
  readonly version: string;
  readonly scopes: readonly string[];
  readonly userName: string;
  readonly pipe: string;
}

/** The interface for screens and state classes. `fakeRpc` in fake.ts implements it for tests. */
export interface Rpc {
  /** Calls a method. Rejects with RpcError. Read calls wait for a reconnect and are repeated; others fail at once. */
  call<M extends Method>(method: M, params?: Params<M>, options?: CallOptions): Promise<Result<M>>;
  /** Listens to an event; returns a function that stops it. */
  on<E extends EventName>(event: E, fn: (data: EventData<E>, meta: EventMeta) => void): () => void;
  /** Called after events were lost (gap or backend restart): read again what is shown. */
  onReload(fn: () => void): () => void;
  /** Whether the backend registers this method and the session's scope allows it. */
  can(method: Method): boolean;
  readonly connection: ConnectionInfo;
}
