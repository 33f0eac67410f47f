import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { fakeRpc, type FakeRpc } from "../../lib/rpc/fake";
import { toasts } from "../../lib/ui/state";
import { ConfigState, fixedBy, labelOf, shown, written } from "./config.svelte";
import { DataState } from "./data.svelte";
import { GatewayState } from "./gateway.svelte";
import { KeysState, placeWord } from "./keys.svelte";
import { modelRef, ModelsState, serviceTitle, type Provider } from "./models.svelte";
import { SandboxState, type SandboxStatus } from "./sandbox.svelte";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  for (const t of toasts.list) toasts.dismiss(t.id);
  vi.useRealTimers();
});

function config(): { rpc: FakeRpc; c: ConfigState } {
  const values: Record<string, unknown> = { "log.level": "info", "history.max_age_days": 90, "gateway.max_payload": 16777216, "gateway.addr": "127.0.0.1:18789" };
  const sources: Record<string, string> = { "log.level": "default", "history.max_age_days": "file", "gateway.max_payload": "default", "gateway.addr": "environment" };
  const rpc = fakeRpc({
    "config.schema": () =>
      ({
        properties: {
          "log.level": { type: "string", enum: ["debug", "info"], description: "How much is logged.", default: "info", "x-env": "HELIX_LOG_LEVEL" },
          "history.max_age_days": { type: "integer", "x-unit": "d", default: 90, description: "Days that runs are kept." },
          "gateway.max_payload": { type: "integer", "x-unit": "bytes", default: 16777216, "x-restart": true },
          "gateway.addr": { type: "string", "x-env": "HELIX_GATEWAY_ADDR", "x-restart": true },
        },
      }) as never,
    "config.get": () => ({ values: { ...values }, sources: { ...sources } }) as never,
    "config.set": (p) => {
      const entries = Object.entries(p.values as Record<string, unknown>);
      for (const [k, v] of entries) {
        values[k] = v;
        sources[k] = v === null ? "default" : "file";
      }
      return { applied: entries.map(([k]) => k), restart: entries.map(([k]) => k).filter((k) => k.startsWith("gateway")) };
    },
  });
  return { rpc, c: new ConfigState(rpc) };
}

describe("ConfigState", () => {
  it("joins schema, values and sources", async () => {
    const { c } = config();
    await c.load();
    expect(c.all).toHaveLength(4);
    expect(c.pick(["log.level", "no.such"]).map((s) => [s.label, s.value, s.source])).toEqual([["Log level", "info", "default"]]);
    expect(c.groups("runs").flatMap((g) => g.settings.map((s) => s.key))).toEqual(["history.max_age_days"]);
    expect(fixedBy(c.pick(["gateway.addr"])[0]!)).toBe("Set by the variable HELIX_GATEWAY_ADDR.");
    expect(fixedBy(c.pick(["log.level"])[0]!)).toBe("");
  });

  it("saves, resets, and remembers what needs a restart", async () => {
    const { rpc, c } = config();
    await c.load();
    expect(await c.set("gateway.max_payload", "32 MiB")).toBe(true);
    expect(c.restart).toEqual(["gateway.max_payload"]);
    expect(c.saved).toBe("gateway.max_payload");
    await c.set("history.max_age_days", null);
    expect(rpc.sent("config.set")).toEqual([{ values: { "gateway.max_payload": "32 MiB" } }, { values: { "history.max_age_days": null } }]);
    expect(c.restart).toEqual(["gateway.max_payload"]);
  });

  it("keeps the reason beside the field when a value is refused", async () => {
    const { rpc, c } = config();
    await c.load();
    rpc.failNext("config.set", new RpcError({ message: "history.max_age_days cannot be 0: it must be 1 to 3650 (d).", kind: "invalid" }));
    expect(await c.set("history.max_age_days", 0)).toBe(false);
    expect(c.problems["history.max_age_days"]).toContain("1 to 3650");
    expect(c.pick(["history.max_age_days"])[0]!.value).toBe(90);
    await c.set("history.max_age_days", 30);
    expect(c.problems).toEqual({});
  });

  it("follows changes made elsewhere", async () => {
    const { rpc, c } = config();
    await c.load();
    await rpc.call("config.set", { values: { "log.level": "debug" } });
    rpc.emit("config.changed", { keys: ["log.level"] });
    await vi.advanceTimersByTimeAsync(0);
    expect(c.pick(["log.level"])[0]!.value).toBe("debug");
  });

  it("writes values so that they read back as the same", () => {
    const size = { type: "integer", unit: "bytes" } as const;
    expect([16777216, 1500, 10737418240, 0].map((v) => shown(size, v))).toEqual(["16 MiB", "1500", "10 GiB", "0"]);
    expect(written({ type: "array" }, " http://a\n\nhttp://b, http://c ")).toEqual(["http://a", "http://b", "http://c"]);
    expect(written({ type: "integer" }, "45")).toBe(45);
    expect(written({ type: "integer" }, "16 MiB")).toBe("16 MiB");
    expect(labelOf("gateway.call_timeout_s")).toBe("Call timeout");
  });
});

describe("GatewayState", () => {
  const setup = (): { rpc: FakeRpc; s: GatewayState } => {
    const tokens = [{ id: "t1", name: "Build script", scopes: ["read"], createdAt: "2026-01-01T00:00:00Z" }];
    const rpc = fakeRpc({
      "tokens.list": () => ({ tokens: [...tokens], total: tokens.length }) as never,
      "sessions.list": () => ({ sessions: [{ sessionId: "s1" }, { sessionId: "s2", current: true }], total: 2 }) as never,
      "tokens.create": () => ({ id: "t2", token: "f".repeat(64) }) as never,
      "tokens.revoke": () => {
        tokens.length = 0;
        return {} as never;
      },
      "sessions.close": () => ({}) as never,
    });
    return { rpc, s: new GatewayState(rpc) };
  };

  it("shows a new token once", async () => {
    const { rpc, s } = setup();
    await s.load();
    await s.create("CI", ["read", "write"], 30);
    expect(s.made).toEqual({ name: "CI", token: "f".repeat(64) });
    const sent = rpc.sent("tokens.create")[0]!;
    expect(sent.scopes).toEqual(["read", "write"]);
    expect(new Date(sent.expiresAt!).getTime()).toBeGreaterThan(Date.now() + 29 * 86_400_000);
    await s.create("CI", ["read"], 0);
    expect(rpc.sent("tokens.create")[1]).not.toHaveProperty("expiresAt");
  });

  it("revokes after 10 s, or not at all", async () => {
    const { rpc, s } = setup();
    await s.load();
    s.revoke(s.shown[0]!);
    expect(s.shown).toEqual([]);
    toasts.undoLast();
    expect(s.shown).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(rpc.sent("tokens.revoke")).toEqual([]);
    s.revoke(s.shown[0]!);
    await vi.advanceTimersByTimeAsync(10_500);
    expect(rpc.sent("tokens.revoke")).toEqual([{ id: "t1" }]);
    expect(s.shown).toEqual([]);
  });

  it("replaces the root token only after 10 s", async () => {
    const { rpc, s } = setup();
    rpc.handle({ "tokens.rotate_root": () => ({}) as never });
    s.rotateRoot();
    toasts.undoLast();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(rpc.sent("tokens.rotate_root")).toEqual([]);
    s.rotateRoot();
    await vi.advanceTimersByTimeAsync(10_500);
    expect(rpc.sent("tokens.rotate_root")).toHaveLength(1);
  });

  it("closes a session", async () => {
    const { rpc, s } = setup();
    await s.load();
    await s.close(s.sessions.items[0]!);
    expect(rpc.sent("sessions.close")).toEqual([{ sessionId: "s1" }]);
    expect(s.sessions.items).toHaveLength(1);
  });

  it("asks for nothing that the session may not see", async () => {
    const rpc = fakeRpc({});
    const s = new GatewayState(rpc);
    await s.load();
    expect(rpc.calls).toEqual([]);
  });
});

describe("DataState", () => {
  const setup = (): { rpc: FakeRpc; s: DataState } => {
    const rpc = fakeRpc({
      "storage.status": () => ({ path: "/d/helix.db", sizeBytes: 300, walBytes: 100, blobBytes: 0, freeBytes: 1000, tables: [] }) as never,
      "storage.backups": () => ({ backups: [{ path: "/b/1.zip", name: "1.zip", sizeBytes: 600, createdAt: "2026-01-01T00:00:00Z", hasKey: true }], total: 1 }) as never,
      "storage.prune": (p) => ({ tables: p.dryRun ? [{ table: "custom_tool_usage", rows: 12, bytes: 3072 }] : [] }) as never,
      "storage.restore": () => ({ replacedPath: "", rows: { tools: 5 }, newer: { tools: 2 }, createdAt: "2026-01-01T00:00:00Z" }) as never,
      "storage.import": (p) => ({ inserted: { tools: p.dryRun ? 3 : 3 }, skipped: { tools: 1 } }) as never,
      "storage.verify_backup": () => ({ ok: true, problems: [] }) as never,
    });
    return { rpc, s: new DataState(rpc) };
  };

  it("counts sizes and what retention would remove", async () => {
    const { s } = setup();
    await s.load();
    expect(s.total).toBe(1000);
    expect(s.parts.map((p) => Math.round(p.share * 100))).toEqual([30, 10, 0, 60]);
    expect(s.pruneText).toBe("With these values, 12 rows (3.0 KiB) would be removed now: 12 in custom_tool_usage.");
  });

  it("counts again when a retention setting changes", async () => {
    const { rpc, s } = setup();
    await s.load();
    rpc.emit("config.changed", { keys: ["log.level"] });
    expect(rpc.sent("storage.prune")).toHaveLength(1);
    rpc.emit("config.changed", { keys: ["history.max_rows"] });
    expect(rpc.sent("storage.prune")).toEqual([{ dryRun: true }, { dryRun: true }]);
  });

  it("looks before it restores", async () => {
    const { rpc, s } = setup();
    await s.load();
    await s.look(s.backups.items[0]!, "pass");
    expect([s.reviewRows, s.reviewNewer]).toEqual([5, 2]);
    expect(await s.restore("pass")).toBe(true);
    expect(rpc.sent("storage.restore")).toEqual([
      { path: "/b/1.zip", dryRun: true, passphrase: "pass" },
      { path: "/b/1.zip", passphrase: "pass" },
    ]);
  });

  it("says what is wrong with a backup and restores nothing", async () => {
    const { rpc, s } = setup();
    await s.load();
    rpc.failNext("storage.restore", new RpcError({ message: "helix.db has another checksum.", kind: "invalid" }));
    await s.look(s.backups.items[0]!);
    expect(s.review?.error?.message).toContain("checksum");
    expect(s.review?.result).toBeNull();
  });

  it("imports only after a look", async () => {
    const { rpc, s } = setup();
    await s.import("/in");
    expect([s.importNew, s.importKnown]).toEqual([3, 1]);
    await s.import("/in", true);
    expect(rpc.sent("storage.import")).toEqual([
      { dir: "/in", dryRun: true },
      { dir: "/in", dryRun: false },
    ]);
  });

  it("answers a place that is taken with a text, and tells other failures at once", async () => {
    const { rpc, s } = setup();
    const taken = new RpcError({ kind: "conflict", message: "A file with that name already exists." });
    rpc.failNext("storage.backup", taken);
    expect(await s.backup({ path: "/b/1.zip", blobs: true, passphrase: "" })).toBe("A file with that name already exists.");
    rpc.failNext("storage.export", taken);
    expect(await s.export("/b")).toBe("A file with that name already exists.");
    expect(toasts.list).toEqual([]);
    rpc.failNext("storage.backup", taken);
    expect(await s.backup({ blobs: true, passphrase: "" })).toBe(false);
    expect(toasts.list[0]?.title).toBe("Couldn't make the backup");
    s.stop();
  });

  it("marks a verified backup", async () => {
    const { s } = setup();
    await s.load();
    await s.verify(s.backups.items[0]!);
    expect(s.verified["/b/1.zip"]).toEqual({ busy: false, ok: true, problems: [] });
  });
});

describe("KeysState", () => {
  const groups = Array.from({ length: 24 }, (_, i) => (4096 + i).toString(16).toUpperCase());
  const setup = (random = 0.5): { rpc: FakeRpc; s: KeysState } => {
    const secrets = [{ name: "API_KEY", createdAt: "", setAt: "", usedBy: [] }];
    const rpc = fakeRpc({
      "keys.status": () => ({ state: "keyring", locked: false, current: 1, keys: [], pending: 0, canMove: false }) as never,
      "keys.export_recovery": () => ({ code: groups.join("-"), groups }) as never,
      "secrets.list": () => ({ secrets: [...secrets], total: secrets.length }) as never,
      "secrets.delete": () => {
        secrets.length = 0;
        return {} as never;
      },
    });
    return { rpc, s: new KeysState(rpc, () => random) };
  };

  it("unlocks, and moves the key into the keyring", async () => {
    const { rpc, s } = setup();
    rpc.handle({ "keys.unlock": () => ({}) as never, "keys.move_to_keyring": () => ({}) as never });
    await s.unlock();
    await s.moveToKeyring();
    expect(rpc.sent("keys.unlock")).toHaveLength(1);
    expect(rpc.sent("keys.move_to_keyring")).toHaveLength(1);
    expect(rpc.sent("keys.status")).toHaveLength(2);
    rpc.failNext("keys.unlock", new RpcError({ kind: "unavailable", message: "The key is not in the keyring." } as never));
    await s.unlock();
    expect(s.problem).toContain("not in the keyring");
    expect(s.busy).toBe("");
  });

  it("asks for two different groups of the code and drops it when confirmed", async () => {
    for (const random of [0, 0.3, 0.5, 0.999]) {
      const { s } = setup(random);
      await s.showRecovery();
      const [i, j] = s.recovery!.ask;
      expect(i).not.toBe(j);
      expect(s.confirms(groups[i]!.toLowerCase(), ` ${groups[j]} `)).toBe(true);
      expect(s.confirms(groups[j]!, groups[i]!)).toBe(false);
      expect(s.confirms("", "")).toBe(false);
      s.closeRecovery(true);
      expect(s.recovery).toBeNull();
    }
  });

  it("deletes a secret only after 10 s", async () => {
    const { rpc, s } = setup();
    await s.load();
    s.deleteSecret(s.shown[0]!);
    expect(s.shown).toEqual([]);
    expect(rpc.sent("secrets.delete")).toEqual([]);
    await vi.advanceTimersByTimeAsync(10_500);
    expect(rpc.sent("secrets.delete")).toEqual([{ name: "API_KEY" }]);
  });

  it("says where the key lives", () => {
    expect(placeWord("file, unprotected").tone).toBe("warn");
    expect(placeWord("locked").tone).toBe("danger");
    expect(placeWord("keyring").tone).toBe("ok");
  });
});

describe("SandboxState", () => {
  const status = (over: Partial<SandboxStatus> = {}): SandboxStatus => ({
    minIsolation: "process",
    isolation: "process+landlock",
    reasons: ["bwrap_missing"],
    profiles: [],
    engine: { name: "quickjs-ng", version: "0.17", sha256: "ab" },
    ready: true,
    cpuMeter: "thread",
    snapshot: "cow",
    pool: { idle: 4, busy: 0, queued: 0, discarded: 0 },
    tiers: [
      { tier: "t0", available: true, reasons: [] },
      { tier: "t1", available: true, reasons: ["bwrap_missing"] },
    ],
    cache: { bytes: 1024, modules: 1 },
    ...over,
  });

  it("follows the engine, and says when modules of others do not run", async () => {
    const rpc = fakeRpc({ "sandbox.status": () => status() });
    const s = new SandboxState(rpc);
    expect(s.refused).toBe("");
    await s.load();
    expect(s.status.data?.pool.idle).toBe(4);
    expect(s.refused).toBe("");
    rpc.emit("sandbox.status_changed", { status: status({ minIsolation: "process+landlock+bwrap" }) });
    expect(s.refused).toContain("isolation is weaker");
    rpc.emit("sandbox.status_changed", { status: status({ tiers: [{ tier: "t1", available: false, reasons: ["worker_unavailable"] }] }) });
    expect(s.refused).toContain("never run unsandboxed");
    s.stop();
  });

  it("clears the cache, and tells what that was worth", async () => {
    let cleared = { bytes: 2_621_440, modules: 1 };
    const rpc = fakeRpc({ "sandbox.status": () => status({ cache: { bytes: 0, modules: 0 } }), "sandbox.clear_cache": () => cleared });
    const s = new SandboxState(rpc);
    await s.clear();
    expect(toasts.list.at(-1)?.title).toBe("Cleared 2.5 MiB");
    expect(s.status.data?.cache.modules).toBe(0);
    cleared = { bytes: 0, modules: 0 };
    await s.clear();
    expect(toasts.list.at(-1)?.title).toBe("Nothing to clear");
    rpc.failNext("sandbox.clear_cache", new RpcError({ kind: "unavailable", message: "The folder cannot be written." }));
    await s.clear();
    expect(toasts.list.at(-1)?.title).toBe("Couldn't clear the cache");
    expect(s.clearing).toBe(false);
    s.stop();
  });
});

describe("models", () => {
  it("names a model with the service that was chosen, unless one was typed with it", () => {
    const services = ["openai", "openrouter"];
    expect([modelRef("openai", "small", services), modelRef("openai", "openrouter/qwen/qwen3", services), modelRef("openrouter", "qwen/qwen3", services)]).toEqual(["openai/small", "openrouter/qwen/qwen3", "openrouter/qwen/qwen3"]);
  });

  it("offers only services that can be asked, and shows those without a key last", async () => {
    const service = (name: string, state: string, enabled = true) => ({ name, state, enabled }) as Provider;
    const rpc = fakeRpc({
      "providers.list": () => ({ providers: [service("openai", "no_key"), service("ollama", "ready"), service("gemini", "disabled", false), service("local", "unreachable")] }),
      "providers.roles": () => ({ roles: [] }),
      "providers.models": () => ({ models: [{ ref: "ollama/qwen3" }], total: 1 }) as never,
    });
    const s = new ModelsState(rpc);
    await s.load();
    expect(s.shown.map((p) => p.name)).toEqual(["ollama", "gemini", "local", "openai"]);
    expect([s.usable, s.models.data]).toEqual([["ollama", "local"], ["ollama/qwen3"]]);
    // A new service replaces only one that isn't in use.
    expect(["ollama", "local", "openai", "mine"].filter((name) => s.taken(name))).toEqual(["ollama", "local"]);
    expect(["openai", "my_server"].map(serviceTitle)).toEqual(["OpenAI", "my_server"]);
    s.stop();
  });

  it("sends a real message only when asked to, and to a model that is in use", async () => {
    const p = { name: "openai", state: "ready", enabled: true } as Provider;
    const sent: unknown[] = [];
    const rpc = fakeRpc({
      "providers.list": () => ({ providers: [p] }),
      "providers.roles": () => ({ roles: [{ role: "chat", chain: ["other/a", "openai/one"], problems: [] }] }) as never,
      "providers.models": () => ({ models: [], total: 0 }),
      "providers.test": (q) => (sent.push(q), { steps: [{ step: "key", ok: true, ms: 1, message: "" }], costMicros: 0 }) as never,
    });
    const s = new ModelsState(rpc);
    await s.load();
    await s.test(p);
    await s.test(p, s.modelOf(p));
    expect(sent).toEqual([{ name: "openai" }, { name: "openai", model: "one", call: true }]);
    expect(s.modelOf({ ...p, name: "open" })).toBe("");
    s.stop();
  });
});
