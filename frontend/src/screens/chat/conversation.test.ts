import { expect, test } from "vitest";
import { fake, until } from "../../lib/rpc/testing";
import { Conversation } from "./conversation.svelte";

test("a turn can be stopped as soon as its text streams, before a read names it", async () => {
  let answer: (get: unknown) => void = () => {};
  const idle = { session: { id: "s" }, queue: [] };
  let get: unknown = idle;
  const rpc = fake({ "chat.get": () => get, "chat.messages": () => ({ messages: [], more: false }), "chat.cancel": () => ({}) });
  const c = new Conversation(rpc as never, "s", { error: () => {}, add: () => 0 });
  await until(() => c.chat.session !== null);
  expect(c.active).toBe(false);

  get = new Promise((done) => (answer = done)); // the read takes long
  rpc.emit("chat.turn_started", { sessionId: "s", turnId: "t", seq: 1 });
  rpc.emit("chat.assistant_delta", { sessionId: "s", turnId: "t", attempt: 0, offset: 0, delta: "Hello" });
  await until(() => c.chat.live?.text === "Hello");
  expect(c.chat.turn).toBe(null);
  expect(c.active).toBe(true);

  answer(idle); // it has ended
  await until(() => !c.active);
  c.stop();
});

test("a retry that is asked for twice is sent once", async () => {
  const asked: unknown[] = [];
  let known: (page: unknown) => void = () => {};
  let page: unknown = { messages: [], more: false };
  const rpc = fake({ "chat.get": () => ({ session: { id: "s" }, queue: [] }), "chat.messages": () => page, "chat.retry": (p: unknown) => (asked.push(p), { turnId: "u", state: "running" }) });
  const c = new Conversation(rpc as never, "s", { error: () => {}, add: () => 0 });
  await until(() => c.chat.session !== null);
  page = new Promise((done) => (known = done)); // the new turn is not known yet
  const first = c.retry("t");
  expect(await c.retry("before")).toBe(false);
  known({ messages: [], more: false });
  expect(await first).toBe(true);
  expect(asked).toEqual([{ turnId: "t" }]);
  c.stop();
});
