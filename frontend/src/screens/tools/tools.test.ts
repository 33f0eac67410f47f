import { beforeEach, describe, expect, it } from "vitest";
import { nav } from "../../lib/ui/state";
import { RpcError } from "../../lib/rpc/errors";
import { approval, fake, result, row, tool, until, validation } from "./fixtures";
import { ToolsScreen, type PickFile } from "./tools.svelte";
import type { RunResult } from "./types";

function setup(pick: PickFile | null = null) {
  let rows = [row(), row({ id: "t2", name: "Second" })];
  let done: (r: RunResult) => void = () => {};
  const rpc = fake({
    "tools.list": (p: { query?: string; limit: number; offset: number }) => {
      const hits = rows.filter((r) => !p.query || r.name.toLowerCase().includes(p.query.toLowerCase()));
      return { tools: hits.slice(p.offset, p.offset + p.limit), total: hits.length, limit: p.limit, offset: p.offset };
    },
    "tools.search": () => ({ tools: [], total: 0, hub: false }),
    "tools.templates": () => ({ templates: [] }),
    "tools.get": (p: { toolId: string }) => ({ tool: tool({ id: p.toolId }) }),
    "tools.validate": () => validation(),
    "tools.delete": (p: { toolId: string }) => {
      rows = rows.filter((r) => r.id !== p.toolId);
      return { undoUntil: "" };
    },
    "tools.restore": (p: { toolId: string }) => {
      rows = [row({ id: p.toolId }), ...rows];
      return { tool: tool({ id: p.toolId }) };
    },
    "tools.clone": () => {
      rows = [...rows, row({ id: "t3", name: "Text Counter (Clone)" })];
      return { tool: tool({ id: "t3", name: "Text Counter (Clone)" }) };
    },
    "tools.export": () => ({ bundle: { format: "helix-tools" } }),
    "tools.capabilities": () => ({ requested: [], grants: [], denied: [] }),
    "tools.execute_custom": () => new Promise<RunResult>((r) => (done = r)),
    "approvals.get": () => ({ ...approval(), history: [] }),
    "approvals.decide": () => ({ status: "approved", grants: [] }),
  });
  const said: string[] = [];
  const undos: (() => unknown)[] = [];
  const files: [string, string][] = [];
  const screen = new ToolsScreen(
    rpc,
    new (class {
      getItem = () => null;
      setItem = () => {};
      removeItem = () => {};
    })(),
    { ok: (t) => said.push(t), error: (e, t) => said.push(`error: ${t ?? ""} ${(e as Error).message}`), undo: (t, fn) => (said.push(t), undos.push(fn)) },
    (name, text) => files.push([name, text]),
    pick,
  );
  screen.start();
  void screen.list.page.reload();
  return { rpc, screen, said, undos, files, finish: (r: Partial<RunResult> = {}) => done(result(r)) };
}

beforeEach(() => nav.go("tools"));

describe("the screen", () => {
  it("deletes at once and brings everything back on Undo", async () => {
    const { screen, said, undos, rpc } = setup();
    await until(() => screen.list.rows.length === 2);
    await screen.remove(row());
    expect(screen.list.rows.map((r) => r?.id)).toEqual(["t2"]);
    expect(said).toEqual(["Moved Text Counter to Trash"]);
    await undos[0]!();
    expect(rpc.sent("tools.restore")).toEqual([{ toolId: "t1" }]);
    expect(screen.list.rows.map((r) => r?.id)).toEqual(["t1", "t2"]);
    expect(screen.list.selectedId).toBe("t1");
    screen.stop();
  });

  it("shows the row again when deleting was refused", async () => {
    const { screen, said, rpc } = setup();
    await until(() => screen.list.rows.length === 2);
    rpc.failNext("tools.delete", new RpcError({ message: "no", kind: "denied" }));
    await screen.remove(row());
    expect(screen.list.rows).toHaveLength(2);
    expect(said[0]).toContain("Couldn't delete");
    screen.stop();
  });

  it("clones and says what the copy lacks", async () => {
    const { screen, said } = setup();
    await until(() => screen.list.rows.length === 2);
    expect((await screen.clone("t1"))?.id).toBe("t3");
    expect(screen.list.rows).toHaveLength(3);
    expect(said[0]).toContain("(Clone)");
    screen.stop();
  });

  it("exports to a file with a safe name", async () => {
    const { screen, files } = setup();
    await screen.export(["t1"], "Text / Counter");
    expect(files[0]![0]).toBe("text-counter.helix-tools.json");
    expect(JSON.parse(files[0]![1])).toEqual({ format: "helix-tools" });
    screen.stop();
  });

  it("exports to a chosen path where nothing can be downloaded", async () => {
    const { screen, rpc, files, said } = setup(async (_title, name) => (name.startsWith("none") ? "" : `pick:${name}`));
    rpc.handle({ "audit.export": () => ({ path: "", entries: 3, segments: 1 }) });
    expect(await screen.export(["t1"], "Text Counter")).toBe(true);
    expect(rpc.sent("tools.export").at(-1)).toMatchObject({ toolIds: ["t1"], path: "pick:text-counter.helix-tools.json" });
    await screen.exportAudit("Text Counter");
    expect(rpc.sent("audit.export").at(-1)).toMatchObject({ path: "pick:helix-audit.jsonl" });
    expect(said.at(-1)).toBe("Exported 3 entries");
    expect(await screen.export(["t1"], "None")).toBe(false);
    expect(rpc.sent("tools.export")).toHaveLength(1);
    expect(files).toEqual([]);
    screen.stop();
  });

  it("asks for another name when there is a file of this name", async () => {
    const asked: string[] = [];
    const { screen, rpc, said } = setup(async (title, name) => {
      asked.push(title);
      return `pick:${asked.length}:${name}`;
    });
    rpc.failNext("tools.export", new RpcError({ kind: "conflict", message: "There already is a file of this name." }));
    expect(await screen.export(["t1"], "Text Counter")).toBe(true);
    expect(asked).toHaveLength(2);
    expect(asked[1]).toContain("already");
    expect(rpc.sent("tools.export").map((p) => (p as { path?: string }).path)).toEqual(["pick:1:text-counter.helix-tools.json", "pick:2:text-counter.helix-tools.json"]);
    expect(said.at(-1)).toBe("Saved the tool");
    screen.stop();
  });

  it("shows the prompt of its own run and lets the run go on after the answer", async () => {
    const { screen, rpc, finish } = setup();
    const run = screen.runOf("t1");
    const p = screen.launch(run, screen.targetOf(tool()), {});
    await until(() => rpc.sent("tools.execute_custom").length === 1);
    rpc.emit("tools.execution", { executionId: "x1", toolId: "t1", seq: 1, state: "running" });
    rpc.emit("approvals.changed", { id: "p1", status: "pending", pendingCount: 1 });
    await until(() => screen.prompt.open);
    expect(run.phase).toBe("waiting");
    await until(() => screen.prompt.armed);
    await screen.prompt.approve();
    expect(run.phase).toBe("running");
    finish({ logs: [{ at: "", level: "info", message: "hello" }] });
    await p;
    expect(run.phase).toBe("done");
    expect(screen.linesOf("x1")?.map((l) => l.message)).toEqual(["hello"]);
    expect(screen.linesOf("x0")).toBeNull();
    screen.stop();
  });

  it("leaves requests of others to Approvals", async () => {
    const { screen, rpc, finish } = setup();
    rpc.emit("approvals.changed", { id: "p1", status: "pending", pendingCount: 1 });
    expect(rpc.sent("approvals.get")).toHaveLength(0);
    rpc.handle({ "approvals.get": () => ({ ...approval({ subject: { kind: "tool", id: "t9" }, run: { kind: "schedule", id: "x9", waiting: false, rerun: true } }), history: [] }) });
    const p = screen.launch(screen.runOf("t1"), screen.targetOf(tool()), {});
    rpc.emit("approvals.changed", { id: "p9", status: "pending", pendingCount: 1 });
    await until(() => rpc.sent("approvals.get").length === 1);
    expect(screen.prompt.open).toBe(false);
    finish();
    await p;
    screen.stop();
  });

  it("shows the request that an ended run left behind", async () => {
    const { screen, rpc, finish } = setup();
    rpc.handle({ "approvals.get": () => ({ ...approval({ run: { kind: "user", waiting: false, rerun: true } }), history: [] }) });
    const p = screen.launch(screen.runOf("t1"), screen.targetOf(tool()), {});
    await until(() => rpc.sent("tools.execute_custom").length === 1);
    finish({ success: false, output: null, errorClass: "host_denied", pendingApprovalId: "p1" });
    await p;
    expect(screen.prompt.open).toBe(true);
    expect(screen.prompt.canRerun).toBe(true);
    screen.prompt.later();
    screen.stop();
  });

  it("opens a template as it is, without speaking of unsaved work", () => {
    const { screen } = setup();
    const template = { id: "x", name: "From template", description: "", icon: "", language: "typescript" as const, code: "7", parameters: {}, capabilities: [], sandboxProfile: "strict" as const, sampleParams: {}, expectedOutput: null };
    screen.editNew(template);
    screen.editNew();
    expect(screen.editor.draft.code).toBe("7");
    expect(screen.editor.recovered).toBe(false);
    screen.editor.close();
    screen.stop();
  });

  it("keeps the draft of the editor while another screen is shown", async () => {
    const { screen } = setup();
    await screen.edit("t1");
    screen.editor.draft.code = "unsaved";
    screen.editor.close();
    await screen.edit("t1");
    expect(screen.editor.draft.code).toBe("unsaved");
    screen.stop();
  });
});
