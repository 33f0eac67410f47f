import { beforeEach, describe, expect, it, vi } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { fake, until } from "../../lib/rpc/testing";
import { nav } from "../../lib/ui/nav.svelte";
import type { Notify } from "../../lib/ui/state";
import { channelAt, tabOf } from "./address";
import { ChannelsScreen } from "./channels.svelte";
import type { Channel, Rejection } from "./types";
import { curlExample, lastMessage } from "./words";

const channel = (more: Partial<Channel> = {}): Channel => ({ id: "c1", kind: "telegram", name: "Phone", config: {}, enabled: true, state: "connected", here: true, queued: 0, rejected24h: 0, ...more });
const sender = (senderId: string, more: object = {}) => ({ senderId, label: "", contextIds: [], role: "chat", addedBy: "pairing", addedAt: "2026-05-01T10:00:00Z", ...more });

function setup() {
  let senders: object[] = [];
  const rpc = fake({
    "channels.list": () => ({ channels: [channel(), channel({ id: "c2", kind: "webhook", name: "Bridge", state: "error", error: "gone" })] }),
    "channels.get": (p: { id: string }) => channel({ id: p.id }),
    "channels.senders": () => ({ senders }),
    "channels.sessions": () => ({ bindings: [{ contextId: "-100", sessionId: "s", title: "A chat", lastAt: "2026-05-01T10:00:00Z" }] }),
    "channels.queue": () => ({ messages: [] }),
    "channels.rejected": () => ({ entries: [] }),
    "channels.routes": () => ({ routes: [] }),
    "channels.add": (p: { kind: string }) => ({ channel: channel({ kind: p.kind }), ...(p.kind === "webhook" ? { secret: "s3cret" } : {}) }),
    "channels.update": () => ({ channel: channel() }),
    "channels.test": () => ({ ok: false, steps: [{ step: "connect", ok: true, ms: 1 }, { step: "senders", ok: false, ms: 0, error: "Nobody" }] }),
    "channels.pair": () => ({ code: "ABCDEFGH", expiresAt: "2026-05-01T10:10:00Z" }),
    "channels.allow": (p: { senderId: string }) => ({ senders: (senders = [...senders, sender(p.senderId)]) }),
    "channels.disallow": () => ({ senders: (senders = []) }),
    "channels.set_enabled": (p: { enabled: boolean }) => channel({ enabled: p.enabled, state: p.enabled ? "connected" : "disabled" }),
  });
  const notify = { ok: vi.fn(), error: vi.fn(), undo: vi.fn(), add: vi.fn() };
  const screen = new ChannelsScreen(rpc as never, notify as unknown as Notify);
  return { rpc, notify, screen, pairedAs: (id: string) => (senders = [sender(id, { label: "Ada" })]) };
}

beforeEach(() => nav.go("channels"));

describe("the list of channels", () => {
  it("counts those with an error and follows events", async () => {
    const { rpc, screen } = setup();
    screen.start();
    await until(() => screen.list.page.items.length === 2);
    expect(screen.failed).toBe(1);
    const before = rpc.sent("channels.list").length;
    rpc.emit("channels.rejected", { id: "c1", count: 1 });
    await until(() => rpc.sent("channels.list").length > before);
    screen.list.stop();
  });
  it("shows a switch at once and takes it back if it is refused", async () => {
    const { rpc, notify, screen } = setup();
    await screen.list.page.reload();
    rpc.failNext("channels.set_enabled", new RpcError({ kind: "conflict", message: "It runs elsewhere." }));
    const change = screen.setEnabled(screen.list.page.items[0]!, false);
    expect(screen.list.page.items[0]!.state).toBe("disabled");
    await change;
    expect(screen.list.page.items[0]!.state).toBe("connected");
    expect(notify.error).toHaveBeenCalledOnce();
  });
});

describe("the open channel", () => {
  it("hides the code once somebody was paired with it", async () => {
    const { screen, pairedAs } = setup();
    screen.open.show("c1");
    await until(() => screen.open.senders.data !== undefined);
    await screen.open.pair();
    expect(screen.open.code?.code).toBe("ABCDEFGH");
    pairedAs("42");
    screen.open.changed("c1");
    await until(() => screen.open.code === null);
  });
  it("offers the conversations of senders of a bot for notifications, each once", async () => {
    const { screen, pairedAs } = setup();
    pairedAs("42");
    screen.open.show("c1");
    await until(() => screen.open.contexts.length === 2);
    expect(screen.open.contexts).toEqual(["-100", "42"]);
    expect(screen.open.contextName("42")).toBe("Ada");
  });
  it("allows a rejected sender in the group that it wrote in", async () => {
    const { rpc, screen, pairedAs } = setup();
    pairedAs("42");
    screen.open.show("c1");
    await until(() => screen.open.senders.data?.length === 1);
    await screen.open.allowRejected({ senderId: "42", context: "-7", reason: "context" } as Rejection);
    await screen.open.allowRejected({ senderId: "666", context: "666", reason: "not_allowed" } as Rejection);
    expect(rpc.sent("channels.allow")).toMatchObject([{ senderId: "42", label: "Ada", contextIds: ["-7"] }, { senderId: "666", contextIds: [] }]);
  });
  it("offers to undo that a sender was removed", async () => {
    const { rpc, notify, screen, pairedAs } = setup();
    pairedAs("42");
    screen.open.show("c1");
    await until(() => screen.open.senders.data?.length === 1);
    await screen.open.disallow(screen.open.senders.data![0]!);
    expect(screen.open.senders.data).toEqual([]);
    await notify.undo.mock.calls[0]![1]();
    expect(rpc.sent("channels.allow")).toMatchObject([{ id: "c1", senderId: "42", label: "Ada", role: "chat" }]);
  });
});

describe("adding a channel", () => {
  it("tests a Telegram bot, then pairs, and notices who was paired", async () => {
    const { rpc, screen, pairedAs } = setup();
    const a = screen.adding;
    a.begin("telegram");
    expect(a.missing).not.toBe("");
    a.token = " 1:abc ";
    await a.save();
    expect(rpc.sent("channels.add")).toEqual([{ kind: "telegram", name: "Telegram", config: {}, token: "1:abc" }]);
    expect([a.step, a.works]).toEqual(["test", true]);
    await a.pair();
    expect(a.step).toBe("pair");
    await a.changed("c1");
    expect(a.paired).toBe("");
    pairedAs("42");
    await a.changed("c1");
    expect(a.paired).toBe("Ada");
    a.close();
    expect(a.token).toBe("");
  });
  it("changes the token of the channel after a failed test instead of adding another", async () => {
    const { rpc, screen } = setup();
    const a = screen.adding;
    a.begin("telegram");
    a.token = "wrong";
    rpc.handle({ "channels.test": () => ({ ok: false, steps: [{ step: "connect", ok: false, ms: 1, error: "token refused" }] }) });
    await a.save();
    expect(a.works).toBe(false);
    a.back();
    a.token = "right";
    await a.save();
    expect(rpc.sent("channels.add")).toHaveLength(1);
    expect(rpc.sent("channels.update")).toMatchObject([{ id: "c1", patch: { token: "right" } }]);
  });
  it("shows the secret of a webhook once, and the reason next to a refused field", async () => {
    const { rpc, screen } = setup();
    const a = screen.adding;
    a.begin("webhook");
    a.url = "ftp://x";
    rpc.failNext("channels.add", new RpcError({ kind: "invalid", message: "url must be https", details: { field: "config.url", code: "invalid" } }));
    await a.save();
    expect([a.step, a.refused.url]).toEqual(["settings", "url must be https"]);
    a.url = "https://example.com";
    await a.save();
    expect([a.step, a.secret]).toEqual(["secret", "s3cret"]);
    a.close();
    expect(a.secret).toBe("");
  });
});

describe("words", () => {
  it("know the addresses of the parts", () => {
    expect(channelAt("c1")).toBe("channels/c1");
    expect(tabOf(["c1", "queue"])).toBe("queue");
    expect(tabOf(["c1", "nowhere"])).toBe("senders");
  });
  it("take the later of the last messages", () => {
    expect(lastMessage(channel())).toBeUndefined();
    expect(lastMessage(channel({ lastIn: "2026-05-01T10:00:00Z", lastOut: "2026-05-01T09:59:59.5Z" }))).toBe("2026-05-01T10:00:00Z");
  });
  it("give an example without the secret once it is gone", () => {
    expect(curlExample("http://127.0.0.1:1/hooks/x", "abc")).toContain("SECRET='abc'");
    expect(curlExample("http://127.0.0.1:1/hooks/x", "")).toContain("YOUR SECRET");
  });
});
