import { describe, expect, it } from "vitest";
import { nav } from "../../../lib/ui/state";
import { RpcError } from "../../../lib/rpc/errors";
import { isolationWords, reasonWords } from "../../../lib/run/isolation";
import { row } from "../fixtures";
import { ToolsScreen } from "../tools.svelte";
import { execution, fake, module, result, until } from "./fixtures";
import { rowOf } from "./module";
import { groupImports, nameFromFile } from "./words";

function setup() {
  let rows = [module(), module({ id: "s2", name: "Second" })];
  const said: string[] = [];
  let undo: (() => Promise<unknown> | void) | null = null;
  const rpc = fake({
    "tools.list": () => ({ tools: [], total: 0 }),
    "skills.list_wasm": (p: { query?: string; enabled?: boolean; limit: number; offset: number }) => {
      const hits = rows.filter((r) => (!p.query || r.name.toLowerCase().includes(p.query.toLowerCase())) && (p.enabled === undefined || r.isEnabled === p.enabled));
      return { skills: hits.slice(p.offset, p.offset + p.limit), total: hits.length, limit: p.limit, offset: p.offset };
    },
    "skills.get_wasm": (p: { skillId: string; report?: boolean }) => {
      const found = rows.find((r) => r.id === p.skillId);
      if (!found) throw new RpcError({ kind: "not_found", message: "No such skill." });
      return { skill: found };
    },
    "skills.update_wasm": (p: { skillId: string; patch: object }) => {
      rows = rows.map((r) => (r.id === p.skillId ? { ...r, ...p.patch } : r));
      return { skill: rows.find((r) => r.id === p.skillId), suspendedGrants: [] };
    },
    "skills.delete_wasm": (p: { skillId: string }) => {
      rows = rows.filter((r) => r.id !== p.skillId);
      return { undoUntil: "" };
    },
    "skills.restore_wasm": () => {
      rows = [module(), ...rows];
      return { skill: rows[0] };
    },
    "skills.wasm_executions": (p: { before?: string; limit: number; status?: string }) => {
      const all = Array.from({ length: 160 }, (_, i) => execution({ id: `e${160 - i}`, status: i % 2 ? "failure" : "success" })).filter((e) => !p.status || e.status === p.status);
      const from = p.before ? all.findIndex((e) => e.id === p.before) + 1 : 0;
      return { executions: all.slice(from, from + p.limit), more: from + p.limit < all.length };
    },
    "skills.execute": () => result(),
    "skills.sign_wasm": () => ({ signature: "", fingerprint: "" }),
    "permissions.preview": () => ({ steps: [], hosts: [], secrets: [], unattended: "ok" }),
    "permissions.list": () => ({ grants: [{ id: "g1", state: "active" }, { id: "g2", state: "revoked" }], denials: [] }),
  });
  const store = { getItem: () => null, setItem: () => {}, removeItem: () => {} };
  const screen = new ToolsScreen(rpc as never, store, {
    ok: (title) => said.push(title),
    error: (_e, title = "") => said.push(title),
    undo: (title, restore) => {
      said.push(title);
      undo = restore as typeof undo;
    },
  }, () => {});
  screen.start();
  return { rpc, screen, said, undo: () => undo?.(), rows: () => rows };
}

describe("the list", () => {
  it("is read, searched, filtered, and read again when a skill changes", async () => {
    const { rpc, screen } = setup();
    const { list } = screen;
    expect(list.bare).toBe(false);
    await list.page.reload();
    expect(list.rows.map((r) => r.name)).toEqual(["Word count", "Second"]);
    list.search("sec");
    await until(() => list.rows.length === 1);
    list.setFilter("status", "disabled");
    await until(() => list.rows.length === 0 && !list.page.busy);
    expect(list.filtered).toBe(true);
    expect(list.bare).toBe(false);
    list.clearFilters();
    await until(() => list.rows.length === 2);
    const before = rpc.sent("skills.list_wasm").length;
    rpc.emit("skills.wasm_changed", { skillId: "s1", kind: "used" });
    rpc.emit("skills.wasm_changed", { skillId: "s1", kind: "used" });
    await until(() => rpc.sent("skills.list_wasm").length === before + 1);
    screen.stop();
  });

  it("has nothing to filter only when it is empty and everything is asked for", async () => {
    const { rpc, screen } = setup();
    rpc.handle({ "skills.list_wasm": () => ({ skills: [], total: 0, limit: 50, offset: 0 }) });
    await screen.list.page.reload();
    expect(screen.list.bare).toBe(true);
    screen.stop();
  });
});

describe("code and modules in one list", () => {
  const code = Array.from({ length: 150 }, (_, i) => row({ id: `c${i}`, name: `Code ${i}`, updatedAt: `2026-01-01T00:${String(Math.floor((149 - i) / 60)).padStart(2, "0")}:${String((149 - i) % 60).padStart(2, "0")}Z` }));
  function both() {
    const s = setup();
    s.rpc.handle({
      "tools.list": (p: { offset: number; limit: number; enabled?: boolean }) => {
        const hits = code.filter((r) => p.enabled === undefined || r.isEnabled === p.enabled);
        return { tools: hits.slice(p.offset, p.offset + p.limit), total: hits.length };
      },
      "skills.list_wasm": () => ({ skills: [module({ id: "new", updatedAt: "2026-02-01T00:00:00Z" }), module({ id: "mid", updatedAt: "2026-01-01T00:01:00Z", isEnabled: false }), module({ id: "old", updatedAt: "2025-01-01T00:00:00Z" })], total: 3 }),
    });
    return s;
  }
  const keys = (screen: ToolsScreen): string[] => screen.list.rows.map((r) => screen.list.id(r));

  it("stand in one order, over the borders of pages, each once", async () => {
    const { screen } = both();
    await screen.list.page.reload();
    expect(keys(screen)).toHaveLength(100);
    expect(keys(screen)[0]).toBe("wasm/new");
    expect(screen.list.total).toBe(153);
    while (screen.list.rows.length < 153) await screen.list.page.more();
    expect(new Set(keys(screen)).size).toBe(153);
    expect(keys(screen).at(-1)).toBe("wasm/old");
    const times = screen.list.rows.map((r) => r.updatedAt);
    expect(times).toEqual([...times].sort().reverse());
    await screen.list.page.reload();
    expect(new Set(keys(screen)).size).toBe(153);
    screen.stop();
  });

  it("can be narrowed to one kind and to a state", async () => {
    const { screen } = both();
    screen.list.setFilter("kind", "wasm");
    await until(() => screen.list.page.loaded && screen.list.rows.length === 3);
    screen.list.setFilter("status", "disabled");
    await until(() => screen.list.rows.length === 1 && keys(screen)[0] === "wasm/mid");
    screen.list.clearFilters();
    screen.list.setFilter("kind", "code");
    await until(() => screen.list.page.loaded && screen.list.rows.length === 100 && screen.list.total === 150);
    screen.stop();
  });
});

describe("what can be done with a skill", () => {
  it("deletes at once and brings back with Undo", async () => {
    const { screen, said, undo, rows } = setup();
    await screen.list.page.reload();
    nav.go("tools/wasm/s1");
    await screen.remove(rowOf(module()));
    expect(said).toEqual(["Moved Word count to Trash"]);
    expect(screen.list.rows.map((r) => r.id)).toEqual(["s2"]);
    expect(screen.list.selectedId).toBe("wasm/s2");
    await undo();
    expect(rows()).toHaveLength(2);
    await until(() => screen.list.rows.length === 2);
    expect(screen.list.selectedId).toBe("wasm/s1");
    screen.stop();
  });

  it("shows a row again that was not deleted", async () => {
    const { rpc, screen, said } = setup();
    await screen.list.page.reload();
    rpc.failNext("skills.delete_wasm", new RpcError({ kind: "unavailable", message: "Not now." }));
    await screen.remove(rowOf(module()));
    expect(said).toEqual(["Couldn't delete Word count"]);
    expect(screen.list.rows).toHaveLength(2);
    screen.stop();
  });

  it("disables with Undo", async () => {
    const { screen, said, undo, rows } = setup();
    await screen.setEnabled(rowOf(module()), false);
    expect(rows()[0]!.isEnabled).toBe(false);
    expect(said).toEqual(["Disabled Word count"]);
    await undo();
    expect(rows()[0]!.isEnabled).toBe(true);
    screen.stop();
  });

  it("saves an edit and takes it back", async () => {
    const { screen, said, undo, rows } = setup();
    screen.modules.form.edit(module());
    screen.modules.form.timeout = "0.7";
    expect((await screen.modules.save())?.timeoutMs).toBe(700);
    expect(said).toEqual(["Saved Word count"]);
    await undo();
    expect(rows()[0]!.timeoutMs).toBe(5000);
    screen.stop();
  });

  it("signs, and says what that means", async () => {
    const { rpc, screen, said } = setup();
    await screen.modules.sign(module());
    expect(rpc.sent("skills.sign_wasm")).toEqual([{ skillId: "s1" }]);
    expect(said).toEqual(["Signed Word count"]);
    screen.stop();
  });
});

describe("the inspector", () => {
  it("reads what a tab shows when it is shown, and older runs on demand", async () => {
    const { rpc, screen } = setup();
    const { inspector } = screen;
    inspector.show("wasm/s1");
    await until(() => inspector.module.data !== undefined);
    expect(rpc.sent("skills.wasm_executions")).toEqual([]);
    inspector.setTab("history");
    await until(() => inspector.history?.page.loaded === true);
    const history = inspector.history!;
    expect(history.rows).toHaveLength(100);
    await history.page.more();
    expect(history.rows).toHaveLength(160);
    const read = rpc.sent("skills.wasm_executions").length;
    await history.page.more();
    expect(rpc.sent("skills.wasm_executions")).toHaveLength(read);
    history.setFilter("status", "failure");
    await until(() => history.page.loaded && history.rows.every((e) => e.status === "failure"));
    inspector.setTab("permissions");
    await until(() => inspector.permissions.held.data !== undefined);
    expect(inspector.permissions.held.data?.grants.map((g) => g.id)).toEqual(["g1"]);
    screen.stop();
  });

  it("reads again when a run of its skill ends, and only then", async () => {
    const { rpc, screen } = setup();
    const { inspector } = screen;
    inspector.show("wasm/s1");
    inspector.setTab("history");
    await until(() => inspector.history?.page.loaded === true);
    const before = rpc.sent("skills.wasm_executions").length;
    rpc.emit("skills.execution_changed", { executionId: "e9", skillId: "s1", status: "running", seq: 1 });
    rpc.emit("skills.execution_changed", { executionId: "e9", skillId: "s2", status: "success", seq: 2 });
    rpc.emit("skills.execution_changed", { executionId: "e9", skillId: "s1", status: "success", seq: 2 });
    await until(() => rpc.sent("skills.wasm_executions").length > before);
    expect(rpc.sent("skills.wasm_executions")).toHaveLength(before + 1);
    screen.stop();
  });

  it("says that a skill is gone", async () => {
    const { screen } = setup();
    screen.inspector.show("wasm/nowhere");
    await until(() => screen.inspector.module.error !== undefined);
    expect(screen.inspector.module.error?.kind).toBe("not_found");
    screen.stop();
  });
});

describe("words", () => {
  it("make a name from a file", () => {
    expect(nameFromFile("word_count-1.2.wasm")).toBe("word count-1.2");
    expect(nameFromFile("C:\\x\\Zähler (neu).WASM")).toBe("Zähler neu");
    expect(nameFromFile("💥.wasm")).toBe("Skill");
  });
  it("group imports by where they come from", () => {
    expect(groupImports(["wasi_snapshot_preview1.fd_read", "helix.call", "wasi_snapshot_preview1.fd_write"]).map((g) => g.names)).toEqual([["fd_read", "fd_write"], ["call"]]);
  });
  it("know each isolation and each missing layer, and show what they do not know", () => {
    for (const i of ["inprocess", "process", "process+landlock", "process+landlock+bwrap"]) expect(isolationWords(i).text).not.toBe("");
    for (const r of ["landlock_unavailable", "landlock_partial", "bwrap_missing", "bwrap_blocked", "jobobject_failed", "worker_unavailable", "below_min_isolation"]) expect(reasonWords(r).help, r).not.toBe("");
    expect(reasonWords("some_new_reason").text).toBe("some new reason");
  });
});
