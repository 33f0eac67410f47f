import { beforeEach, describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { fakeRpc } from "../../lib/rpc/fake";
import { nav } from "../../lib/ui/state";
import { Connecting } from "./connecting.svelte";
import { SyncStatus } from "./status.svelte";
import { SyncScreen } from "./sync.svelte";
import type { Conflict, Status } from "./types";
import { mergeable, stateText, textOf } from "./words";

const conflict = (id: string, more: Partial<Conflict> = {}): Conflict => ({
  id,
  tableName: "memories",
  rowId: `row-${id}`,
  title: id,
  kind: "field_conflict",
  strategy: "three_way_merge",
  field: "content",
  fieldType: "text",
  base: "red",
  mine: "blue",
  theirs: "green",
  mineDevice: "desk",
  theirsDevice: "laptop",
  mineAt: null,
  theirsAt: null,
  suggested: "theirs",
  canKeepBoth: true,
  status: "open",
  createdAt: "2026-05-01T00:00:00Z",
  ...more,
});
const status = (more: Partial<Status> = {}): Status => ({ state: "live", isOnline: true, isSyncing: false, queueLength: 0, failedCount: 0, conflicts: 0, lastSyncTime: null, lastChange: null, devices: 2, cursor: "0", head: "0", clockOffsetMs: 0, ...more });

it("says whether embeddings are sent, in the state", () => {
  const text = (embeddings: NonNullable<Status["hub"]>["embeddings"]): string => stateText(status({ hub: { host: "hub:1", schemaVersion: 1, encrypted: false, vectors: true, embeddings } }), 0);
  expect(text("sent")).toContain("embeddings sent");
  expect(text("encrypted")).toContain("your texts are encrypted");
  expect(text("off")).not.toContain("embeddings");
});

describe("the first copy", () => {
  it("shows rows, rate and time left", () => {
    const initial = { table: "memories", rows: 12300, of: 100000, bytesPerSecond: 1572864, etaMs: 8000 };
    const text = stateText(status({ state: "initial", initial }), 0);
    for (const part of ["12,300 of 100,000 items", "1.5 MiB/s", "left"]) expect(text).toContain(part);
  });
  it("follows the progress and keeps the latest lags", async () => {
    let head = 10;
    const rpc = fakeRpc({ "sync.status": () => status({ state: "initial", head: String(head), cursor: "4", queueLength: 1 }) });
    const s = new SyncStatus();
    s.start(rpc);
    await s.load();
    expect(s.lags.at(-1)).toBe(7);
    rpc.emit("sync.progress", { table: "memories", rows: 1, of: 2, bytesPerSecond: 3, etaMs: 4 });
    expect(s.progress?.rows).toBe(1);
    head = 2;
    await s.load();
    expect(s.lags.at(-1)).toBe(1);
  });
});

async function setup(all: Conflict[] = ["a", "b", "c"].map((id) => conflict(id))) {
  let open = all;
  const resolved: [string, string, unknown][] = [];
  const said: string[] = [];
  let undo: () => unknown = () => {};
  let commit: () => unknown = () => {};
  let revert: () => void = () => {};
  const rpc = fakeRpc({
    "sync.status": () => status({ conflicts: open.length }),
    "sync.conflicts": (p) => {
      const of = open.filter((c) => (p.tableName ?? c.tableName) === c.tableName);
      return { conflicts: of.slice(p.offset ?? 0, (p.offset ?? 0) + (p.limit ?? 50)), total: of.length };
    },
    "sync.resolve": (p) => {
      const of = open.filter((c) => (p.all ? (p.tableName ?? c.tableName) === c.tableName && (p.choice !== "both" || c.canKeepBoth) : c.id === p.conflictId)).slice(0, p.limit ?? 1);
      for (const c of of) resolved.push([c.id, p.choice, p.value]);
      open = open.filter((c) => !of.includes(c));
      return { rowId: "", undoToken: of.length === 0 ? "" : of.map((c) => c.id).join(" "), resolved: of.length, skipped: 0 };
    },
    "sync.undo_resolve": (p) => {
      const back = p.undoToken.split(" ");
      open = all.filter((c) => open.includes(c) || back.includes(c.id));
      return { rowId: "", undoToken: "", resolved: back.length, skipped: 0 };
    },
    "sync.devices": () => ({ devices: [] }),
    "sync.revoke_device": () => ({}),
    "sync.dead_letters": () => ({ deadLetters: [] }),
    "sync.sign_in": () => ({}),
    "sync.setup": () => ({ userId: "", deviceId: "", site: 1, migrations: 1, encrypted: true, vectors: false, checks: 3 }),
  });
  const state = new SyncStatus();
  state.start(rpc);
  await state.load();
  const s = new SyncScreen(
    rpc,
    {
      ok: (title) => said.push(title),
      error: (_e, title = "") => void said.push(title),
      undo: (title, restore) => {
        undo = restore;
        return said.push(title);
      },
      deferred: (d) => {
        ({ commit, revert } = d);
        return said.push(d.title);
      },
    },
    state,
  );
  await s.list.page.reload();
  return { s, rpc, said, resolved, state, undo: () => undo(), commit: () => commit(), revert: () => revert(), ids: () => s.list.rows.map((c) => c.id) };
}

beforeEach(() => nav.go("sync"));

describe("the conflict inbox", () => {
  it("resolves a conflict, selects the next one, and U opens it again", async () => {
    const { s, said, resolved, ids } = await setup();
    s.list.select("a");
    await s.resolve(s.list.selected!, "mine");
    expect([resolved, said, s.list.selectedId, ids()]).toEqual([[["a", "mine", undefined]], ["Kept mine: a"], "b", ["b", "c"]]);
    await s.undoLast();
    expect([ids(), s.list.selectedId, s.undoable]).toEqual([["a", "b", "c"], "a", false]);
  });

  it("resolves all of one table, however many there are, and one Undo opens all again", async () => {
    const many = [...Array.from({ length: 1100 }, (_, i) => conflict(`m${i}`)), conflict("t", { tableName: "custom_tools" }), conflict("one", { canKeepBoth: false })];
    const { s, said, resolved, rpc, undo, ids, state } = await setup(many);
    await s.resolveAll("both", "memories");
    expect([resolved.length, said, ids()]).toEqual([1100, ["Resolved 1,100 conflicts"], ["t", "one"]]);
    expect(rpc.sent("sync.resolve")).toHaveLength(3);
    await undo();
    await state.load();
    expect([rpc.sent("sync.undo_resolve").length, state.data?.conflicts]).toEqual([3, 1102]);
  });

  it("stops resolving all between two calls, and Undo opens what was resolved", async () => {
    const { s, said, resolved, undo, state } = await setup(Array.from({ length: 1100 }, (_, i) => conflict(`m${i}`)));
    const load = state.load.bind(state);
    state.load = async () => {
      await load();
      s.stopResolving?.();
    };
    await s.resolveAll("theirs");
    expect([resolved.length, said, s.stopResolving]).toEqual([500, ["Resolved 500 conflicts"], null]);
    await undo();
    await state.load();
    expect(state.data?.conflicts).toBe(1100);
  });

  it("puts back what the backend refuses to resolve", async () => {
    const { s, said, rpc, ids } = await setup();
    rpc.failNext("sync.resolve", new RpcError({ kind: "conflict", message: "Already resolved on laptop." }));
    expect(await s.resolve(s.list.rows[0]!, "theirs")).toBe(false);
    expect([said, ids(), s.undoable]).toEqual([["Couldn't resolve 1 conflict"], ["a", "b", "c"], false]);
  });

  it("edits from what is shown, and keeps a text that is not accepted", async () => {
    const json = conflict("j", { fieldType: "json", mine: '{"a":1}', theirs: '{"a":2}' });
    const { s, resolved } = await setup([json]);
    s.edit(json);
    expect(s.merged).toBe('{\n  "a": 2\n}');
    s.merged = "{";
    await s.saveMerged(json);
    expect([s.mergeError, s.merged, resolved]).toEqual(["This is not JSON.", "{", []]);
    s.merged = "{}";
    await s.saveMerged(json);
    expect([resolved, s.merged]).toEqual([[["j", "merged", "{}"]], null]);
  });

  it("shows values as people read them", () => {
    const tool = conflict("t", { fieldType: "definition" });
    expect(textOf(tool, { code: "return 1", definition_hash: "x", capabilities: '["a"]' })).toBe('code:\nreturn 1\n\npermissions:\n[\n  "a"\n]');
    expect([textOf(conflict("d", { fieldType: "deleted" }), null), textOf(conflict("d", { fieldType: "deleted", itemText: "green" }), null)]).toEqual(["Edited and kept", "green"]);
    expect([textOf(conflict("b", { fieldType: "boolean" }), true), textOf(conflict("n"), null)]).toEqual(["yes", ""]);
    expect([mergeable(tool), mergeable(conflict("n"))]).toEqual([false, true]);
  });
});

describe("devices", () => {
  it("lose their access only when the time to undo is over", async () => {
    const { s, rpc, commit, revert } = await setup();
    const d = { id: "d", name: "laptop" } as never;
    s.revoke(d);
    expect([s.leaving.has("d"), rpc.sent("sync.revoke_device")]).toEqual([true, []]);
    revert();
    expect(s.leaving.size).toBe(0);
    s.revoke(d);
    await commit();
    expect([rpc.sent("sync.revoke_device"), s.leaving.size]).toEqual([[{ id: "d" }], 0]);
  });
});

describe("connecting", () => {
  it("forgets the connection string as soon as it was used, and says what was refused", async () => {
    const { s, rpc } = await setup();
    const c = s.connecting;
    c.begin("hub");
    c.secret = " postgres://x ";
    await c.next();
    expect([c.step, rpc.sent("sync.setup")]).toEqual(["encryption", []]);
    rpc.failNext("sync.setup", new RpcError({ kind: "unavailable", message: "Couldn't reach the hub." }));
    await c.next();
    expect([c.step, c.error, c.secret]).toEqual(["address", "Couldn't reach the hub.", " postgres://x "]);
    await c.next();
    await c.next();
    expect([c.step, c.secret, rpc.sent("sync.setup").at(-1)]).toEqual(["done", "", { adminDsn: "postgres://x", encrypt: true }]);
  });
});

describe("connecting through a project", () => {
  it("asks for the code from the e-mail, and again when it was refused", async () => {
    const { s, rpc } = await setup();
    const c = s.connecting;
    c.begin("hub");
    c.secret = "postgres://x";
    c.choose("project");
    expect([c.secret, c.filled, c.steps]).toEqual(["", false, ["address", "mail", "encryption", "working", "done"]]);
    c.project = { url: " https://abc.supabase.co ", publishableKey: "sb_secret_x", email: "a@example.com" };
    rpc.failNext("sync.sign_in", new RpcError({ kind: "invalid", message: "This is a secret key.", details: { field: "publishableKey", code: "invalid" } }));
    await c.next();
    expect([c.step, c.errorOf("url"), c.errorOf("publishableKey")]).toEqual(["address", "", "This is a secret key."]);
    c.project.publishableKey = "sb_publishable_x";
    await c.next();
    const project = { url: "https://abc.supabase.co", publishableKey: "sb_publishable_x", email: "a@example.com" };
    expect([c.step, c.filled, rpc.sent("sync.sign_in").at(-1)]).toEqual(["mail", false, project]);
    c.secret = "000000";
    await c.next();
    c.back();
    expect(c.step).toBe("mail");
    await c.next();
    rpc.failNext("sync.setup", new RpcError({ kind: "denied", message: "The code is wrong." }));
    await c.next();
    expect([c.step, c.error]).toEqual(["mail", "The code is wrong."]);
    c.secret = " 123456 ";
    await c.next();
    await c.next();
    expect([c.step, c.secret, rpc.sent("sync.setup").at(-1)]).toEqual(["done", "", { project, code: "123456", encrypt: true }]);
  });
});

describe("joining", () => {
  it("is done when the answer is lost with the connection but the device has joined", async () => {
    let joined = false;
    const rpc = fakeRpc({ "sync.status": () => status(joined ? { hub: { host: "hub:1", schemaVersion: 1, encrypted: true, vectors: true, embeddings: "off" } } : { state: "off" }) });
    const state = new SyncStatus();
    state.start(rpc);
    await state.load();
    const c = new Connecting(rpc, state);
    c.begin("code");
    c.secret = "helix-sync:x";
    const lost = new RpcError({ kind: "unavailable", message: "The connection was lost before the answer arrived." });
    rpc.failNext("sync.enroll", lost);
    await c.next();
    expect([c.step, c.error, c.secret]).toEqual(["address", lost.message, "helix-sync:x"]);
    joined = true;
    rpc.failNext("sync.enroll", lost);
    await c.next();
    expect([c.step, c.error, c.secret, c.result]).toEqual(["done", "", "", { encrypted: true, checks: 0, vectors: true }]);
  });
});

describe("the state in words", () => {
  const now = Date.parse("2026-05-01T00:00:10Z");
  it("says what happens, how many devices there are and when something last changed", () => {
    expect(stateText(status({ devices: 3, lastChange: "2026-05-01T00:00:06Z" }), now)).toBe("Up to date · 3 devices · last change 4 s ago");
    expect(stateText(status({ queueLength: 1 }), now)).toBe("1 change waiting · 2 devices");
    expect(stateText(status({ state: "offline", queueLength: 2 }), now)).toBe("Offline · 2 changes waiting · 2 devices");
    expect(stateText(status({ state: "paused", devices: 0 }), now)).toBe("Paused");
  });
});
