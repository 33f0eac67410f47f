import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { pause } from "./backoff";
import { RpcClient } from "./client.svelte";
import { RpcError } from "./errors";
import type { Transport, TransportHandlers } from "./transport";

vi.mock("./schema.gen", () => ({ scopes: { "a.read": "read", "a.write": "write", "a.admin": "admin" } }));

interface Frame {
  id?: number;
  method: string;
  params: Record<string, unknown>;
}

/** A server side that the test writes by hand. */
class Pipe implements Transport {
  readonly kind = "memory";
  h!: TransportHandlers;
  sent: Frame[] = [];
  opens = 0;
  refuse = false;
  epoch = "e1";
  seq = 0;
  gap = false;
  signedOut = false;

  async open(h: TransportHandlers): Promise<void> {
    this.opens++;
    if (this.refuse) throw new Error("no");
    this.h = h;
  }
  send(text: string): void {
    const f = JSON.parse(text) as Frame;
    this.sent.push(f);
    if (f.method === "connect") {
      if (this.signedOut) return this.answer(f.id!, undefined, { code: -32001, message: "The session is not valid.", data: { kind: "denied", code: "UNAUTHORIZED" } });
      return this.answer(f.id!, { server: { version: "1.2.3" }, user: { displayName: "Ada" }, scopes: ["read", "write"], features: { methods: ["a.read", "a.write", "a.admin"] } });
    }
    if (f.method === "events.subscribe") return this.answer(f.id!, { epoch: this.epoch, seq: this.seq });
    if (f.method === "events.resume") return this.answer(f.id!, { epoch: this.epoch, seq: this.seq, replayed: 0, gap: this.gap });
  }
  close(): void {}
  token(): string {
    return "secret-token";
  }
  answer(id: number, result: unknown, error?: unknown): void {
    queueMicrotask(() => this.h.frame(JSON.stringify(error ? { jsonrpc: "2.0", id, error } : { jsonrpc: "2.0", id, result })));
  }
  event(method: string, seq: number, data: unknown): void {
    this.h.frame(JSON.stringify({ jsonrpc: "2.0", method, params: { seq, time: "2026-01-01T00:00:00Z", data } }));
  }
  last(method: string): Frame {
    return this.sent.filter((f) => f.method === method).at(-1)!;
  }
}

const settle = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);
async function connected(): Promise<{ pipe: Pipe; client: RpcClient }> {
  const pipe = new Pipe();
  const client = new RpcClient(pipe, { random: () => 0.5 });
  client.start();
  await settle();
  expect(client.connection.phase).toBe("open");
  return { pipe, client };
}

describe("RpcClient", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("greets, subscribes and knows what it may call", async () => {
    const { pipe, client } = await connected();
    expect(pipe.last("connect").params.auth).toEqual({ token: "secret-token" });
    expect(client.connection.version).toBe("1.2.3");
    expect(client.can("a.read" as never)).toBe(true);
    expect(client.can("a.admin" as never)).toBe(false);
    expect(client.can("a.other" as never)).toBe(false);
  });

  it("resolves results and rejects errors with their kind", async () => {
    const { pipe, client } = await connected();
    const ok = client.call("a.read", { x: 1 });
    const bad = client.call("a.write");
    const [first, second] = pipe.sent.slice(-2) as [Frame, Frame];
    pipe.answer(second.id!, undefined, { code: -32004, message: "Changed meanwhile.", data: { kind: "conflict", code: "CONFLICT", details: { v: 2 }, requestId: "r1" } });
    pipe.answer(first.id!, { y: 2 });
    await expect(ok).resolves.toEqual({ y: 2 });
    await expect(bad).rejects.toMatchObject({ kind: "conflict", details: { v: 2 }, requestId: "r1" });
  });

  it("cancels through the signal and tells the backend", async () => {
    const { pipe, client } = await connected();
    const abort = new AbortController();
    const call = client.call("a.read", {}, { signal: abort.signal });
    const id = pipe.last("a.read").id;
    abort.abort();
    await expect(call).rejects.toMatchObject({ kind: "canceled" });
    expect(pipe.last("rpc.cancel").params).toEqual({ ids: [id] });
  });

  it("sends calls in order one after the other, also after one that failed", async () => {
    const { pipe, client } = await connected();
    const order = { inOrder: "a switch" };
    const calls = [1, 2, 3].map((n) => client.call("a.write", { n }, order));
    const other = client.call("a.write", { n: 9 }, { inOrder: "another" });
    const sent = (): unknown[] => pipe.sent.filter((f) => f.method === "a.write").map((f) => f.params.n);
    const answered = calls.map((c) => c.catch((e: RpcError) => e.kind));
    expect(sent()).toEqual([1, 9]);
    pipe.answer(pipe.last("a.write").id!, 9);
    await other;
    pipe.answer(pipe.sent.find((f) => f.params.n === 1)!.id!, undefined, { code: -32004, message: "No.", data: { kind: "conflict", code: "CONFLICT" } });
    expect(await answered[0]).toBe("conflict");
    await vi.advanceTimersByTimeAsync(0);
    expect(sent()).toEqual([1, 9, 2]);
    pipe.answer(pipe.last("a.write").id!, 2);
    expect(await answered[1]).toBe(2);
    await vi.advanceTimersByTimeAsync(0);
    pipe.answer(pipe.last("a.write").id!, 3);
    expect(await answered[2]).toBe(3);
    const later = client.call("a.write", { n: 4 }, order);
    expect(sent()).toEqual([1, 9, 2, 3, 4]);
    pipe.answer(pipe.last("a.write").id!, 4);
    await later;
  });

  it("repeats reads after a reconnect, and never a write without a key", async () => {
    const { pipe, client } = await connected();
    const read = client.call("a.read");
    const keyed = client.call("a.write", { n: 1 }, { idempotencyKey: "k" });
    const write = client.call("a.write").catch((e: RpcError) => e);
    pipe.h.closed(1006);
    expect(client.connection.phase).toBe("reconnecting");
    expect(((await write) as RpcError).kind).toBe("unavailable");
    const offline = client.call("a.write").catch((e: RpcError) => e.message);
    expect(await offline).toContain("Nothing was changed");
    const before = pipe.sent.length;
    await vi.advanceTimersByTimeAsync(250);
    expect(client.connection.phase).toBe("open");
    const repeated = pipe.sent.slice(before).filter((f) => f.method.startsWith("a."));
    expect(repeated.map((f) => f.method)).toEqual(["a.read", "a.write"]);
    for (const f of repeated) pipe.answer(f.id!, "done");
    await expect(read).resolves.toBe("done");
    await expect(keyed).resolves.toBe("done");
  });

  it("waits longer after each failure, up to the ceiling", async () => {
    const { pipe, client } = await connected();
    pipe.refuse = true;
    pipe.h.closed();
    const times: number[] = [];
    for (let i = 0; i < 12; i++) {
      const start = Date.now();
      const opens = pipe.opens;
      while (pipe.opens === opens) await vi.advanceTimersToNextTimerAsync();
      times.push(Date.now() - start);
    }
    expect(times.slice(0, 3)).toEqual([250, 425, 722]);
    expect(times.at(-1)).toBe(15000);
    expect(pause(3, 0)).toBe(Math.round(250 * 1.7 ** 3 * 0.8));
    expect(pause(3, 1)).toBe(Math.round(250 * 1.7 ** 3 * 1.2));
    pipe.refuse = false;
    client.retryNow();
    await settle();
    expect(client.connection.phase).toBe("open");
    expect(client.connection.attempt).toBe(0);
  });

  it("resumes after the last event it saw and drops doubles", async () => {
    const { pipe, client } = await connected();
    const seen: unknown[] = [];
    client.on("a.changed" as never, (d) => void seen.push(d));
    pipe.event("a.changed", 1, "one");
    pipe.event("a.changed", 2, "two");
    pipe.event("a.changed", 2, "two again");
    pipe.h.closed();
    await vi.advanceTimersByTimeAsync(250);
    expect(pipe.last("events.resume").params).toEqual({ epoch: "e1", afterSeq: 2, topics: ["*"] });
    pipe.event("a.changed", 3, "three");
    expect(seen).toEqual(["one", "two", "three"]);
  });

  it("asks screens to read again after a gap, and only then", async () => {
    const { pipe, client } = await connected();
    let reloads = 0;
    client.onReload(() => reloads++);
    pipe.h.closed();
    await vi.advanceTimersByTimeAsync(250);
    expect(reloads).toBe(0);
    pipe.h.closed();
    pipe.gap = true;
    pipe.epoch = "e2";
    pipe.seq = 0;
    await vi.advanceTimersByTimeAsync(250);
    expect(reloads).toBe(1);
    const seen: unknown[] = [];
    client.on("a.changed" as never, (d) => void seen.push(d));
    pipe.event("a.changed", 1, "new epoch");
    expect(seen).toEqual(["new epoch"]);
    pipe.event("events.gap", 9, { fromSeq: 2, toSeq: 9 });
    expect(reloads).toBe(2);
    pipe.event("a.changed", 9, "late");
    expect(seen).toHaveLength(1);
  });

  it("asks screens once to read again when rows of other devices came", async () => {
    const { pipe, client } = await connected();
    let reloads = 0;
    client.onReload(() => reloads++);
    for (const seq of [1, 2, 3]) pipe.event("sync.delta", seq, { rows: 1 });
    expect(reloads).toBe(0);
    await vi.advanceTimersByTimeAsync(60);
    expect(reloads).toBe(1);
  });

  it("stops trying when the session is not accepted", async () => {
    const { pipe, client } = await connected();
    pipe.signedOut = true;
    const waiting = client.call("a.read");
    const rejected = expect(waiting).rejects.toMatchObject({ kind: "denied" });
    pipe.h.closed();
    await vi.advanceTimersByTimeAsync(250);
    await rejected;
    expect(client.connection.phase).toBe("signed-out");
    await vi.advanceTimersByTimeAsync(60_000);
    expect(pipe.opens).toBe(2);
  });

  it("keeps the last 200 frames without secrets", async () => {
    const { pipe, client } = await connected();
    expect(JSON.stringify(client.log.entries)).not.toContain("secret-token");
    void client.call("secrets.set", { name: "API_KEY", value: "hunter2" }).catch(() => {});
    pipe.answer(pipe.last("secrets.set").id!, {});
    void client.call("tokens.create", { name: "ci" });
    pipe.answer(pipe.last("tokens.create").id!, { id: "1", token: "tok-123" });
    await settle();
    const text = JSON.stringify(client.log.entries);
    expect(text).not.toContain("hunter2");
    expect(text).not.toContain("tok-123");
    expect(text).toContain("API_KEY");
    for (let i = 1; i <= 300; i++) pipe.event("a.changed", i, i);
    expect(client.log.entries).toHaveLength(200);
    expect(client.log.entries.at(-1)!.text).toContain("300");
  });

  it("notices a pipe that went silent, and no other", async () => {
    const { pipe, client } = await connected();
    const slow = client.call("a.read");
    await vi.advanceTimersByTimeAsync(20_000);
    const ask = pipe.last("session.get");
    pipe.answer(ask.id!, {});
    await vi.advanceTimersByTimeAsync(14_000);
    expect(client.connection.phase).toBe("open");
    await vi.advanceTimersByTimeAsync(20_000);
    expect(pipe.opens).toBe(2);
    pipe.answer(pipe.last("a.read").id!, "at last");
    await expect(slow).resolves.toBe("at last");
    const opens = pipe.opens;
    await vi.advanceTimersByTimeAsync(120_000);
    expect(pipe.opens).toBe(opens);
  });

  it("ends waiting calls when it is stopped", async () => {
    const { client } = await connected();
    const call = client.call("a.read").catch((e: RpcError) => e.kind);
    client.stop();
    expect(await call).toBe("unavailable");
  });
});
