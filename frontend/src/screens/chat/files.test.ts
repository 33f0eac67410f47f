import { describe, expect, it, vi } from "vitest";
import { fake, until } from "../../lib/rpc/testing";
import { ChatScreen } from "./chat.svelte";
import { Composer, type Keep } from "./composer.svelte";
import { importChat, transferOf, type Attached, type Transfer } from "./files.svelte";

const keep = (): Keep & { map: Map<string, string> } => {
  const map = new Map<string, string>();
  return { map, getItem: (k) => map.get(k) ?? null, setItem: (k, v) => void map.set(k, v), removeItem: (k) => void map.delete(k) };
};
const file = (name: string, size = 3): File => new File([new Uint8Array(size)], name);
const attached = (name: string): Attached => ({ blob: `blob of ${name}`, name, mime: "text/plain", bytes: 3 });
const sends: Transfer = (f) => Promise.resolve(attached(f.name));

function setUp(transfer: Transfer) {
  const told: string[] = [];
  const sent: unknown[] = [];
  const notify = { ok: vi.fn(), undo: vi.fn(), add: (x: { text?: string }) => void told.push(x.text ?? ""), error: (e: unknown) => void told.push((e as Error).message) };
  const rpc = fake({});
  const store = keep();
  const screen = new ChatScreen(rpc as never, store, notify as never, () => {}, transfer);
  return { screen, told, sent, store };
}

describe("the last message", () => {
  it("may still be waiting for its turn", () => {
    const { screen } = setUp(sends);
    const said = { id: "m", role: "user", parts: [{ kind: "text", text: "First" }] };
    screen.conversation = { stop() {}, chat: { messages: [said], queue: [] } } as never;
    expect(screen.lastText).toBe("First");
    screen.conversation = { stop() {}, chat: { messages: [said], queue: [{ turnId: "t", text: "Second" }] } } as never;
    expect(screen.lastText).toBe("Second");
  });
});

describe("files of a message", () => {
  it("go with it, and are gone from the draft once it was sent", async () => {
    const { screen, sent, told } = setUp(sends);
    screen.conversation = { stop() {}, send: (text: string, o: object) => (sent.push({ text, ...o }), Promise.resolve(true)) } as never;
    await screen.attach([file("a.txt"), file("b.txt"), file("a.txt")]);
    expect(screen.composer.draft.files.map((f) => f.name)).toEqual(["a.txt", "b.txt"]);
    screen.composer.remove("blob of b.txt");
    await screen.send();
    expect(told).toEqual([]);
    expect(sent).toEqual([{ text: "", attachments: [{ blob: "blob of a.txt", name: "a.txt" }] }]);
    expect(screen.composer.empty).toBe(true);
  });

  it("and a text that is written while another message is sent stay, and go next if that was asked for", async () => {
    const { screen, sent } = setUp(sends);
    let taken = (): void => {};
    screen.conversation = { stop() {}, send: (text: string) => (sent.push(text), new Promise((done) => (taken = () => done(true)))) } as never;
    screen.composer.set({ text: "First" });
    const first = screen.send();
    screen.composer.set({ text: "First\nSecond" });
    await screen.attach([file("a.txt")]);
    taken();
    await first;
    expect([screen.composer.draft.text, screen.composer.draft.files.length, sent]).toEqual(["Second", 1, ["First"]]);
    const second = screen.send();
    screen.composer.set({ text: "Third" });
    await screen.send();
    taken();
    await until(() => sent.length === 3);
    taken();
    await second;
    expect([sent, screen.composer.empty]).toEqual([["First", "Second", "Third"], true]);
  });

  it("are refused by name beyond four and beyond 10 MB; the others stay", async () => {
    const { screen, told } = setUp(sends);
    await screen.attach([file("big.txt", 10_000_001), ...["1", "2", "3", "4", "5"].map((n) => file(n))]);
    expect(screen.composer.draft.files.map((f) => f.name)).toEqual(["1", "2", "3", "4"]);
    expect(told).toEqual([expect.stringContaining("big.txt"), expect.stringContaining("Couldn't attach 5: a message can have at most")]);
  });

  it("that fail or are canceled leave the draft as it was", async () => {
    const gate: { release?: () => void } = {};
    const { screen, told } = setUp((f, signal) =>
      f.name === "bad" ? Promise.reject(new Error("bad can't be attached")) : new Promise((done, fail) => ((gate.release = () => done(attached(f.name))), signal.addEventListener("abort", () => fail(new Error("canceled"))))),
    );
    screen.composer.set({ text: "Hello" });
    const both = screen.attach([file("bad"), file("slow")]);
    await until(() => told.length === 1);
    await screen.send(); // it waits for the files
    expect(screen.composer.draft.text).toBe("Hello");
    screen.composer.sending[0]!.cancel();
    await both;
    expect([screen.composer.sending.length, screen.composer.draft.files.length, told]).toEqual([0, 0, ["bad can't be attached"]]);
  });

  it("survive a restart with the draft", async () => {
    const store = keep();
    await new Composer(store, "s1").attach(file("a.txt"), sends);
    expect(new Composer(store, "s1").draft.files).toEqual([attached("a.txt")]);
  });

  it("are uploaded by the browser, with their progress", async () => {
    const calls: unknown[] = [];
    const rpc = fake({ "chat.attach": (p: unknown) => (calls.push(p), attached("a.txt")) } as never);
    const parts: number[] = [];
    const up = { send: (_: unknown, __: AbortSignal, progress: (n: number) => void) => (progress(0.5), Promise.resolve({ token: "pick:1", name: "a.txt", size: 3 })) };
    await transferOf(rpc as never, up as never)(file("a.txt"), new AbortController().signal, (n) => parts.push(n));
    const imports: unknown[] = [];
    await importChat(fake({ "chat.import": (p: unknown) => (imports.push(p), {}) } as never) as never, file("chat.jsonl", 20_000_000), sends, up as never);
    expect(imports).toEqual([{ path: "pick:1" }]);
    expect([calls, parts]).toEqual([[{ name: "a.txt", path: "pick:1" }], [0.5]]);
  });
});
