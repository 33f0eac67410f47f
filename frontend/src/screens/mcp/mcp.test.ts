import { beforeEach, describe, expect, it, vi } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { fake, until } from "../../lib/rpc/testing";
import { nav } from "../../lib/ui/nav.svelte";
import type { Notify } from "../../lib/ui/state";
import { commandLine, words } from "./form.svelte";
import { McpScreen } from "./mcp.svelte";
import { undecided } from "./server.svelte";
import type { Row, Tool } from "./types";

const row = (name: string, more: Partial<Row> = {}): Row => ({ name, transport: "stdio", enabled: true, state: "ready", target: `run ${name}`, tools: 2, approved: 1, waiting: 1, tokens: 10, source: "user", ...more });
const tool = (name: string, more: Partial<Tool> = {}): Tool =>
  ({ id: `diary.${name}`, server: "diary", name, function: `mcp_diary_${name}`, title: "", description: "", tier: "side_effecting", hints: { readOnlyHint: false }, tokens: 5, state: "new", ...more }) as Tool;
const refuse = (message: string) => new RpcError({ kind: "denied", message });

function setup() {
  let tools = [tool("write"), tool("find", { hints: { readOnlyHint: true } as Tool["hints"] }), tool("old", { state: "approved" }), tool("broken", { hints: { readOnlyHint: true } as Tool["hints"], problem: "Its schema can't be used." })];
  const server = (name: string) => ({ ...row(name), server: { name, transport: "stdio", command: "run", args: [name], tools: { deny: ["gone"] } }, definitionHash: `hash of ${name}`, needsApproval: false, variables: [], auth: "none" });
  const rpc = fake({
    "mcp.servers": () => ({ servers: [row("diary"), row("calendar", { waiting: 0 }), row("off", { enabled: false })], total: 3 }),
    "mcp.server": (p: { name: string }) => server(p.name),
    "mcp.tools": (p: { offset?: number }) => ({ tools: tools.slice(p.offset ?? 0, (p.offset ?? 0) + 2), total: tools.length }),
    "mcp.logs": (p: { afterSeq: number }) => ({ lines: [{ seq: p.afterSeq + 1, at: "2026-05-01T10:00:00Z", stream: "stderr", text: `line ${p.afterSeq + 1}` }] }),
    "mcp.update": (p: { name: string }) => ({ server: server(p.name), warnings: [] }),
    "mcp.approve_server": (p: { tools: string[] }) => ({ grants: [], tools: p.tools }),
    "mcp.call": () => ({ success: true, output: [{ type: "text", text: "one" }, { type: "link", uri: "https://example.org" }], isError: false, durationMs: 1, executionId: "e" }),
    "mcp.auth_start": () => ({ flowId: "f", authUrl: "javascript:alert(1)", expiresAt: "2026-05-01T10:00:00Z" }),
    "mcp.auth_clear": () => ({ state: "none", revoked: false }),
    "mcp.stop": () => ({ state: "stopped" }),
    "mcp.remove": () => ({ undoToken: "undo" }),
    "mcp.undo": (p: object) => ({ ...server("diary"), ...p }),
    "mcp.sources": () => ({ sources: [] }),
    "mcp.import": (p: { dryRun: boolean; names?: string[] }) => ({ found: [{ name: "a", secrets: [], missing: [] }, { name: "b", conflict: "taken", secrets: [], missing: [] }, { name: "c", skipped: "a part of the program", secrets: [], missing: [] }], added: p.dryRun ? [] : p.names! }),
    "mcp.add": (p: { server: { name: string } }) => ({ server: server(p.server.name), warnings: ["KEY is missing"] }),
    "secrets.set": () => ({}),
    "mcp.exposed": () => ({ enabled: false, tools: [{ kind: "tool", id: "t1", name: "text_counter", readOnly: true, exposedAt: "2026-05-01T10:00:00Z" }] }),
    "mcp.expose": () => ({ enabled: false, tools: [] }),
    "callables.list": () => ({
      callables: [
        { kind: "tool", id: "t1", name: "Text Counter" },
        { kind: "tool", id: "t2", name: "Other", blocked: "foreign" },
        { kind: "builtin", id: "memory.search", name: "memory.search" },
        { kind: "builtin", id: "approvals.list", name: "approvals.list" },
        { kind: "mcp", id: "diary.write", name: "write" },
      ],
      total: 5,
    }),
    "tokens.create": () => ({ token: "t0ken" }),
  });
  const notify = { ok: vi.fn(), error: vi.fn(), undo: vi.fn(), add: vi.fn() };
  const screen = new McpScreen(rpc as never, notify as unknown as Notify);
  return { rpc, notify, screen, setTools: (list: Tool[]) => (tools = list) };
}

beforeEach(() => nav.go("mcp"));

const opened = async (x: ReturnType<typeof setup>) => {
  x.screen.open.show("diary");
  await until(() => x.screen.open.tools.data !== undefined && !x.screen.open.server.busy);
  return x.screen.open;
};

describe("the list of servers", () => {
  it("counts servers with tools to review, shows starts as jobs and follows events", async () => {
    const { rpc, screen } = setup();
    screen.start();
    await until(() => screen.list.page.items.length === 3);
    expect(screen.waiting).toBe(1);
    rpc.emit("mcp.changed", { name: "diary", state: "starting" });
    expect(screen.jobs.all).toHaveLength(1);
    const before = rpc.sent("mcp.servers").length;
    rpc.emit("mcp.changed", { name: "diary", state: "ready" });
    expect(screen.jobs.all).toHaveLength(0);
    await until(() => rpc.sent("mcp.servers").length > before);
    screen.list.stop();
  });
  it("shows a switch at once and takes it back if it is refused", async () => {
    const { rpc, notify, screen } = setup();
    await screen.list.page.reload();
    const diary = screen.list.page.items.find((s) => s.name === "diary")!;
    rpc.failNext("mcp.update", refuse("no"));
    const change = screen.setEnabled(diary, false);
    expect(screen.list.page.items.find((s) => s.name === "diary")!.enabled).toBe(false);
    await change;
    expect(screen.list.page.items.find((s) => s.name === "diary")!.enabled).toBe(true);
    expect(notify.error).toHaveBeenCalledOnce();
  });
});

describe("the open server", () => {
  it("reads all pages of its tools, and reads the server before them, so that what is approved is not newer than what is shown", async () => {
    const x = setup();
    const open = await opened(x);
    expect(open.tools.data!.map((y) => y.name)).toEqual(["write", "find", "old", "broken"]);
    const order = x.rpc.calls.map((c) => c.method);
    expect(order.indexOf("mcp.server")).toBeLessThan(order.indexOf("mcp.tools"));
  });
  it("chooses what waits: all, or only what claims to read, never what can't be used", async () => {
    const open = await opened(setup());
    open.chooseAll();
    expect([...open.chosen]).toEqual(["write", "find"]);
    open.chooseAll(true);
    expect([...open.chosen]).toEqual(["find"]);
    expect([tool("a", { state: "changed" }), tool("b", { state: "removed" })].map(undecided)).toEqual([true, false]);
  });
  it("approves the definition that is shown, and forgets choices that no longer wait", async () => {
    const x = setup();
    const open = await opened(x);
    open.choose("write", true);
    open.choose("find", true);
    open.choose("find", false);
    open.tier = "privileged";
    await open.approve();
    expect(x.rpc.sent("mcp.approve_server")).toEqual([{ name: "diary", definitionHash: "hash of diary", tools: ["write"], tier: "privileged" }]);
    expect(open.chosen.size).toBe(0);
    open.choose("write", true);
    x.setTools([tool("write", { state: "approved" })]);
    await open.read();
    expect(open.chosen.size).toBe(0);
  });
  it("keeps a tool off beside those that are off already, and undoes it", async () => {
    const x = setup();
    const open = await opened(x);
    await open.deny(open.tools.data![0]!, true);
    expect(x.rpc.sent("mcp.update").at(-1)).toEqual({ name: "diary", patch: { tools: { deny: ["gone", "write"] } } });
    await (x.notify.undo.mock.calls[0]![1] as () => Promise<void>)();
    expect(x.rpc.sent("mcp.update").at(-1)).toEqual({ name: "diary", patch: { tools: { deny: ["gone"] } } });
  });
  it("reads only new lines of the log", async () => {
    const x = setup();
    const open = await opened(x);
    await open.readLog();
    await open.readLog();
    expect(open.lines.map((l) => l.seq)).toEqual([1, 2]);
    expect(x.rpc.sent("mcp.logs").map((p) => p.afterSeq)).toEqual([0, 1]);
  });
  it("shows what a call returned, and an error of the tool as an error", async () => {
    const x = setup();
    const open = await opened(x);
    await open.call(open.tools.data![0]!, { text: "a" });
    expect(x.rpc.sent("mcp.call")).toEqual([{ server: "diary", tool: "write", arguments: { text: "a" } }]);
    expect(open.run.result?.output).toBe("one\nhttps://example.org");
    x.rpc.handle({ "mcp.call": (() => ({ success: false, output: [{ type: "text", text: "It is closed." }], isError: true, durationMs: 1, executionId: "e" })) as never });
    await open.call(open.tools.data![0]!, {});
    expect(open.run.result?.error).toBe("It is closed.");
  });
  it("never opens an address of a sign-in that is no web page", async () => {
    const x = setup();
    const open = await opened(x);
    open.clientId = " mine ";
    await open.beginSignIn();
    expect(x.rpc.sent("mcp.auth_start")).toEqual([{ name: "diary", clientId: "mine" }]);
    expect(open.signIn.url).toBe("");
    expect(x.notify.error).toHaveBeenCalledOnce();
    await open.signOut();
    expect(x.notify.ok).toHaveBeenCalledOnce();
  });
  it("leaves nothing of the former server when another one is opened", async () => {
    const open = await opened(setup());
    open.choose("write", true);
    await open.readLog();
    open.toggle("find");
    open.show("calendar");
    expect([open.chosen.size, open.lines.length, open.shown, open.tools.data]).toEqual([0, 0, "", undefined]);
  });
});

describe("the form", () => {
  it("stores secrets first and writes only their names into the entry", async () => {
    const { rpc, notify, screen } = setup();
    const f = screen.form;
    f.begin();
    expect(f.missing).not.toBe("");
    [f.name, f.line] = ["diary", `"my program" --key '' x`];
    f.pairs = [{ name: "DIARY_KEY", value: "s3cret", secret: true }, { name: "MODE", value: "fast", secret: false }, { name: "", value: "left out", secret: false }];
    await screen.save();
    expect(rpc.sent("secrets.set")).toEqual([{ name: "MCP_DIARY_DIARY_KEY", value: "s3cret" }]);
    expect(rpc.sent("mcp.add")).toEqual([{ server: { name: "diary", command: "my program", args: ["--key", "", "x"], env: { DIARY_KEY: "${MCP_DIARY_DIARY_KEY}", MODE: "fast" }, transport: "stdio", trust: "ask", idleMinutes: 10 } }]);
    expect(notify.add).toHaveBeenCalledWith({ title: "KEY is missing", tone: "warn" });
    expect(f.open).toBe(false);
  });
  it("removes with an edit what the entry had, and keeps no value of a secret after a refusal", async () => {
    const { rpc, screen } = setup();
    const f = screen.form;
    f.begin({ name: "diary", transport: "stdio", command: "run", env: { OLD: "1", KEY: "${KEY}" } } as never);
    expect(f.pairs.map((p) => p.secret)).toEqual([false, true]);
    f.pairs = [{ name: "NEW", value: "s3cret", secret: true }];
    rpc.failNext("mcp.update", new RpcError({ kind: "invalid", message: "no", details: { fields: [{ path: "/command", code: "invalid", message: "Not found." }] } } as never));
    expect(await f.save()).toBeNull();
    expect(f.pairs[0]!.value).toBe("${MCP_DIARY_NEW}");
    expect(f.open).toBe(true);
    expect(await f.save()).toEqual({ name: "diary", warnings: [] });
    expect(rpc.sent("mcp.update").at(-1)!.patch).toMatchObject({ url: null, env: { OLD: null, KEY: null, NEW: "${MCP_DIARY_NEW}" } });
  });
  it("splits a command line as it joins it", () => {
    for (const list of [["a", "b c", ""], [`it's`, `"x"`, "back\\slash \\ end"], ["é", "--k=v"]]) expect(words(commandLine(list))).toEqual(list);
  });
});

describe("import and serving", () => {
  it("chooses what can be added, and adds only that", async () => {
    const { rpc, screen } = setup();
    screen.importing.begin();
    await screen.importing.read({ content: "{}" });
    expect([...screen.importing.chosen]).toEqual(["a"]);
    await screen.addImported();
    expect(rpc.sent("mcp.import")).toEqual([{ content: "{}", dryRun: true }, { content: "{}", dryRun: false, names: ["a"] }]);
    rpc.failNext("mcp.import", refuse("line 3"));
    await screen.importing.read({ path: "x" });
    expect(screen.importing.error?.message).toBe("line 3");
  });
  it("offers own tools and the memory search, nothing that decides or belongs to others", async () => {
    const { screen } = setup();
    await screen.serving.read();
    expect(screen.serving.offers.map((o) => `${o.kind} ${o.id} ${o.exposed}`)).toEqual(["tool t1 true", "memory memory.search false"]);
    screen.serving.query = "memory";
    expect(screen.serving.offers).toHaveLength(1);
  });
  it("puts a token into the configuration only after it was created", async () => {
    const { rpc, screen } = setup();
    rpc.handle({ "mcp.exposed": (() => ({ enabled: true, url: "http://127.0.0.1:1/mcp", tools: [] })) as never });
    await screen.serving.read();
    expect(screen.serving.config).toContain("Bearer TOKEN");
    await screen.serving.createToken();
    expect(screen.serving.config).toContain("Bearer t0ken");
  });
});
