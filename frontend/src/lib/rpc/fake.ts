/**
 * A backend for tests of state classes: handlers by method name, events on demand.
 *
 *     const rpc = fakeRpc({ "approvals.list": () => ({ approvals: [], total: 0, pendingCount: 0 }) });
 *     const state = new ApprovalsState(rpc);
 *     await state.load();
 *     rpc.emit("approvals.changed", { id: "…", status: "approved", pendingCount: 0 });
 *     expect(rpc.calls.map((c) => c.method)).toEqual(["approvals.list", …]);
 *
 * A method without a handler rejects with `not_found`, so a forgotten one shows.
 */
import { RpcError, canceled } from "./errors";
import type { CallOptions, ConnectionInfo, ConnectionPhase, EventData, EventMeta, EventName, Method, Params, Result, Rpc } from "./types";

export type Handlers = { [M in Method]?: (params: Params<M>) => Result<M> | Promise<Result<M>> };

export interface FakeRpc extends Rpc {
  /** Every call so far, in order. */
  readonly calls: { method: string; params: unknown; options: CallOptions }[];
  /** Parameters of the calls of one method. */
  sent<M extends Method>(method: M): Params<M>[];
  /** Replaces or adds handlers. */
  handle(more: Handlers): void;
  /** Makes the next call of a method reject. */
  failNext(method: Method, error: RpcError): void;
  emit<E extends EventName>(event: E, data: EventData<E>): void;
  /** Runs the reload hooks, as after a gap. */
  reload(): void;
  setPhase(phase: ConnectionPhase): void;
}

export function fakeRpc(handlers: Handlers = {}): FakeRpc {
  const table = new Map<string, (params: never) => unknown>(Object.entries(handlers) as [string, (p: never) => unknown][]);
  const failures = new Map<string, RpcError[]>();
  const listeners = new Map<string, Set<(data: never, meta: EventMeta) => void>>();
  const reloads = new Set<() => void>();
  const calls: FakeRpc["calls"] = [];
  let seq = 0;
  let phase: ConnectionPhase = "open";
  const connection: ConnectionInfo = {
    get phase() {
      return phase;
    },
    get open() {
      return phase === "open";
    },
    lostAt: 0,
    nextAt: 0,
    attempt: 0,
    reason: "",
    version: "test",
    scopes: ["read", "write", "approve", "admin"],
    userName: "Test",
    pipe: "memory",
  };
  return {
    connection,
    calls,
    sent: ((method: string) => calls.filter((c) => c.method === method).map((c) => c.params)) as FakeRpc["sent"],
    handle(more) {
      for (const [k, v] of Object.entries(more)) table.set(k, v as (p: never) => unknown);
    },
    failNext(method, error) {
      failures.set(method, [...(failures.get(method) ?? []), error]);
    },
    emit(event, data) {
      const meta = { seq: ++seq, time: new Date(0).toISOString() };
      for (const fn of [...(listeners.get(event) ?? [])]) fn(data as never, meta);
    },
    reload() {
      for (const fn of [...reloads]) fn();
    },
    setPhase(p) {
      phase = p;
    },
    can: (method) => table.has(method),
    on(event, fn) {
      const set = listeners.get(event) ?? new Set();
      listeners.set(event, set);
      set.add(fn as (data: never, meta: EventMeta) => void);
      return () => set.delete(fn as (data: never, meta: EventMeta) => void);
    },
    onReload(fn) {
      reloads.add(fn);
      return () => reloads.delete(fn);
    },
    async call(method, params, options = {}) {
      calls.push({ method, params: params ?? {}, options });
      await Promise.resolve();
      if (options.signal?.aborted) throw canceled();
      const failure = failures.get(method)?.shift();
      if (failure) throw failure;
      const handler = table.get(method);
      if (!handler) throw new RpcError({ message: `no handler for ${method}`, kind: "not_found", code: "NOT_FOUND" });
      const result = await handler((params ?? {}) as never);
      if (options.signal?.aborted) throw canceled();
      return result as never;
    },
  };
}
