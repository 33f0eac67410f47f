import { describe, expect, it } from "vitest";
import { entriesOf } from "./entries";
import { empty, hasGap, next, type Chat, type Fact } from "./state";
import type { Get, Message, Part } from "./types";

const session = { id: "s" } as Get["session"];
const message = (seq: number, role: string, turnId: string, text = "", parts: Part[] = [{ kind: "text", text }]): Message => ({ id: `m${seq}`, seq, sessionId: "s", turnId, role, parts, at: "2026-01-01T00:00:00Z" });
const fold = (...facts: Fact[]): Chat => facts.reduce(next, empty);
const delta = (offset: number, text: string, attempt = 1): Fact => ({ type: "delta", turnId: "t", attempt, offset, delta: text });
const call = (turn: number): Fact => ({ type: "progress", turnId: "t", kind: "provider_call", message: "", turn, maxTurns: 100 });
const get = (epoch: number, steps: number, text?: string, attempt = 1): Fact => ({
  type: "get",
  epoch,
  get: { session, activeTurn: { turnId: "t", state: "running", steps, approvals: [] } as unknown as NonNullable<Get["activeTurn"]>, queue: [], lastSeq: 0, ...(text === undefined ? {} : { partial: { turnId: "t", attempt, text } }) },
});

it("a turn shows the tool that runs long, and the service that it waits for until the next event", () => {
  const progress = (kind: string, message: string): Fact => ({ type: "progress", turnId: "t", kind, message, turn: 1, maxTurns: 100 });
  let c = fold(call(1));
  for (const [kind, message, tool, waiting] of [
    ["waiting_rate", "a", "", "a"],
    ["waiting_rate", "", "", ""],
    ["tool_execution", "web_fetch", "web_fetch", ""],
    ["tool_heartbeat", "web_fetch", "web_fetch", ""],
    ["waiting_rate", "a", "", "a"],
    ["provider_call", "", "", ""],
  ] as const) {
    c = next(c, progress(kind, message));
    expect([c.tool, c.waiting]).toEqual([tool, waiting]);
  }
});

describe("the answer that streams", () => {
  it("is what the deltas say, each once", () => {
    const c = fold(call(1), delta(0, "Grüße "), delta(8, "aus "), delta(0, "Grüße "), delta(12, "Köln"));
    expect([c.live?.text, c.live?.bytes, hasGap(c)]).toEqual(["Grüße aus Köln", 17, false]);
  });

  it("waits for what is missing", () => {
    const c = fold(call(1), delta(0, "one "), delta(8, "three"));
    expect([c.live?.text, hasGap(c)]).toEqual(["one ", true]);
    expect(next(c, delta(4, "two ")).live?.text).toBe("one two three");
    expect(next(c, get(1, 1, "one two ")).live?.text).toBe("one two three");
  });

  it("starts again when an attempt is discarded", () => {
    const c = fold(call(1), delta(0, "wrong"), { type: "discarded", turnId: "t", attempt: 1 }, delta(5, " still", 1), delta(0, "right", 2));
    expect([c.live?.text, c.live?.restarted]).toEqual(["right", true]);
  });

  it("gives way to its message, and not to that of the step before", () => {
    let c = fold(call(1), delta(0, "first"), call(2), delta(0, "second"));
    expect([c.live?.before, c.live?.text]).toEqual(["first", "second"]);
    c = next(c, { type: "messages", messages: [message(1, "user", "t"), message(2, "assistant", "t", "first")] });
    expect([c.live?.before, c.live?.text]).toEqual(["", "second"]);
    expect(next(c, { type: "messages", messages: [message(3, "tool", "t"), message(4, "assistant", "t", "second")] }).live).toBeNull();
  });

  it("takes nothing from an answer about another call of the model", () => {
    const c = fold(call(1), delta(0, "first"), call(2), get(1, 1, "first"));
    expect(c.live?.text).toBe("");
  });
});

describe("messages", () => {
  it("without content are not shown", () => {
    const c = fold({ type: "messages", messages: [message(1, "user", "a", "Hello"), message(2, "assistant", "a"), message(3, "assistant", "a", "", []), message(4, "assistant", "a", "Yes")] });
    expect(entriesOf(c, new Set()).map((e) => [e.id, e.kind === "answer" && e.first])).toEqual([["m1", false], ["m4", true]]);
  });

  it("are kept in the order of the log, each once, in their newest form", () => {
    const c = fold({ type: "messages", messages: [message(5, "user", "a"), message(6, "assistant", "a", "x")] }, { type: "older", messages: [message(2, "user", "b")], more: false }, { type: "messages", messages: [{ ...message(6, "assistant", "a", "x"), hidden: true }] });
    expect(c.messages.map((m) => [m.seq, m.hidden ?? false])).toEqual([[2, false], [5, false], [6, true]]);
    expect(next(c, { type: "retried", turnId: "a" }).messages.map((m) => m.hidden ?? false)).toEqual([false, true, true]);
  });
});

/** A generator of numbers that gives the same ones for a seed. */
function random(seed: number): (n: number) => number {
  return (n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * n);
  };
}

const words = ["a ", "Grüße ", "日本 ", "🙂 ", "word ", "é"];
const size = (s: string): number => new TextEncoder().encode(s).length;

// A backend and a connection: events are delivered in order and lost while the connection is down,
// an answer to chat.get is made at some time and delivered behind the events that were published before it.
function run(seed: number): void {
  const rnd = random(seed);
  let c = empty;
  let open = true;
  const wire: (() => void)[] = [];
  const stored: Message[] = [];
  let steps = 0;
  let attempt = 0;
  let said = "";
  let partial: { attempt: number; text: string } | null = null;
  let active = true;
  let asked = false;

  const take = (f: Fact): void => {
    c = next(c, f);
    // What is shown is always a beginning of something that was really said.
    if (c.live && !c.live.unsure) expect(history.some((h) => h.startsWith(c.live!.text)), `“${c.live.text}” of ${JSON.stringify(history)}`).toBe(true);
  };
  const history: string[] = [""];
  const publish = (f: Fact): void => {
    if (open) wire.push(() => take(f));
  };
  const deliver = (n: number): void => {
    for (; n > 0 && wire.length > 0; n--) wire.shift()!();
    if (hasGap(c) && open && !asked) ask();
  };
  const ask = (): void => {
    asked = true;
    const epoch = c.epoch;
    const now = get(epoch, steps, partial?.text, partial?.attempt) as Extract<Fact, { type: "get" }>;
    const g = active ? now.get : { session, queue: [], lastSeq: 0 };
    // Messages are read after it.
    const answer = (): void => {
      const messages = [...stored];
      wire.push(() => {
        asked = false;
        take({ type: "messages", messages });
        take({ ...now, get: g });
      });
    };
    if (rnd(3) === 0) answer();
    else pending.push(answer);
  };
  const pending: (() => void)[] = [];
  const sometimes = (): void => {
    if (rnd(4) === 0) pending.shift()?.();
    deliver(rnd(4));
    if (rnd(12) === 0) {
      open = false;
      wire.length = 0;
      pending.length = 0;
      asked = false;
    } else if (!open && rnd(3) === 0) {
      open = true;
      take({ type: "lost" });
      ask();
    }
  };

  const count = 1 + rnd(3);
  for (let s = 1; s <= count; s++) {
    publish(call(s));
    steps = s;
    attempt = 1;
    for (;;) {
      said = "";
      history.push("");
      const at = history.length - 1;
      for (let i = rnd(12); i > 0; i--) {
        const d = words[rnd(words.length)]!;
        publish(delta(size(said), d, attempt));
        said += d;
        history[at] = said;
        if (rnd(5) === 0) sometimes(); // published, and not yet part of what chat.get says
        partial = { attempt, text: said };
        sometimes();
      }
      if (rnd(5) !== 0) break;
      partial = null;
      publish({ type: "discarded", turnId: "t", attempt });
      attempt++;
      sometimes();
    }
    if (s < count) {
      partial = null;
      stored.push(message(s, "assistant", "t", said));
    } else partial = { attempt, text: said };
    sometimes();
  }
  // At rest with an open connection, in the last step, before its message is there.
  if (!open) {
    open = true;
    take({ type: "lost" });
    ask();
  }
  for (let i = 0; i < 50; i++) {
    pending.shift()?.();
    deliver(10);
  }
  if (!asked) ask();
  for (let i = 0; i < 5; i++) {
    pending.shift()?.();
    deliver(10);
  }
  expect(c.live?.text ?? "").toBe(said);
  expect(hasGap(c)).toBe(false);
  stored.push(message(count, "assistant", "t", said));
  active = false;
  ask();
  pending.shift()?.();
  deliver(10);
  expect(c.live).toBeNull();
  expect(c.messages).toHaveLength(count);
}

it("any cut and any reconnect give the text once", () => {
  for (let seed = 1; seed <= 2000; seed++) run(seed);
});

describe("subagents", () => {
  it("stand with the call that started them", () => {
    const part = { kind: "toolCall", tool: "delegate_to_agent", callId: "c1" } as Part;
    const node = { sessionId: "x", turnId: "y", parentTurnId: "t", callId: "c1", goal: "Look", state: "running", steps: 1, costMicros: 0, children: [] };
    const c = fold({ type: "messages", messages: [message(1, "user", "t"), message(2, "assistant", "t", "", [part])] });
    const at = (turn: string) => entriesOf(c, new Set(), [{ ...node, parentTurnId: turn }]).flatMap((e) => (e.kind === "answer" ? e.calls.map((x) => x.node?.goal) : []));
    expect([at("t"), at("another")]).toEqual([["Look"], [undefined]]);
  });
});
