import { describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { draftFrom, emptyDraft, ToolEditor, type DraftStore } from "./editor.svelte";
import { fake, tool, until, validation } from "./fixtures";
import type { Problem } from "./types";

function store(): DraftStore & { all: Map<string, string> } {
  const all = new Map<string, string>();
  return { all, getItem: (k) => all.get(k) ?? null, setItem: (k, v) => void all.set(k, v), removeItem: (k) => void all.delete(k) };
}
function setup(kept = store()) {
  const rpc = fake({
    "tools.validate": () => validation(),
    "tools.create": (p: Record<string, unknown>) => ({ tool: tool({ ...p, version: "1.0.0" }), validation: validation() }),
    "tools.update": (p: { patch: Record<string, unknown> }) => ({ tool: tool({ ...p.patch, version: "1.0.1" }), validation: validation(), suspendedGrants: [] }),
    "tools.get": () => ({ tool: tool({ version: "1.0.0" }) }),
  });
  return { rpc, kept, editor: new ToolEditor(rpc, kept) };
}
const problem = (over: Partial<Problem>): Problem => ({ code: "x", field: "code", message: "no", line: 1, column: 1, ...over });

describe("the editor", () => {
  it("is clean after opening and dirty after a change", () => {
    const { editor } = setup();
    editor.open(tool());
    expect(editor.dirty).toBe(false);
    editor.draft.code = "2";
    editor.changed();
    expect(editor.dirty).toBe(true);
    editor.close();
  });

  it("checks once typing pauses, and a newer check replaces an older one", async () => {
    const { editor, rpc } = setup();
    editor.open(tool());
    await until(() => editor.validation !== null);
    const before = rpc.sent("tools.validate").length;
    for (const c of ["a", "ab", "abc"]) {
      editor.draft.code = c;
      editor.changed();
    }
    expect(rpc.sent("tools.validate")).toHaveLength(before);
    await until(() => rpc.sent("tools.validate").length > before);
    await until(() => !editor.validating);
    expect(rpc.sent("tools.validate")).toHaveLength(before + 1);
    expect(rpc.sent("tools.validate").at(-1)).toMatchObject({ code: "abc" });
    editor.close();
  });

  it("refuses to save on errors and never on warnings", async () => {
    const { editor, rpc } = setup();
    rpc.handle({ "tools.validate": () => validation({ valid: false, errors: [problem({ message: "broken" })] }) });
    editor.open(tool());
    editor.draft.code = "(";
    expect(await editor.save()).toBeNull();
    expect(rpc.sent("tools.update")).toHaveLength(0);
    expect(editor.errors.map((e) => e.message)).toEqual(["broken"]);
    rpc.handle({ "tools.validate": () => validation({ warnings: [problem({ message: "eval" })] }) });
    editor.draft.code = "eval('1')";
    expect(await editor.save()).not.toBeNull();
    editor.close();
  });

  it("finds problems of the name, the schema and the capabilities by itself", () => {
    const { editor } = setup();
    editor.openNew();
    expect(editor.errors[0]).toMatchObject({ field: "name" });
    editor.draft.name = "a/b";
    expect(editor.errors[0]!.message).toContain("letters");
    editor.draft.name = "Fine";
    editor.setSchemaText("{");
    expect(editor.errors).toMatchObject([{ field: "parameters" }]);
    editor.setSchemaText("{}");
    editor.draft.capabilities = ["network:https(a.example.com)"];
    editor.draft.sandboxProfile = "strict";
    expect(editor.errors).toMatchObject([{ field: "capabilities" }]);
    editor.close();
  });

  it("sends only what changed, and clears what was emptied", async () => {
    const { editor, rpc } = setup();
    editor.open(tool({ description: "old", tags: ["a"] }));
    editor.draft.description = "";
    editor.note = "tidy";
    await editor.save();
    expect(rpc.sent("tools.update")).toEqual([{ toolId: "t1", baseVersion: "1.0.0", patch: { description: "" }, note: "tidy" }]);
    expect(editor.dirty).toBe(false);
    expect(editor.base?.version).toBe("1.0.1");
    editor.close();
  });

  it("creates a new tool from a template with everything it has", async () => {
    const { editor, rpc, kept } = setup();
    editor.openNew(
      draftFrom({
        id: "csv",
        name: "CSV to JSON",
        description: "d",
        icon: "table",
        language: "typescript",
        code: "1",
        parameters: { type: "object", properties: { csv: { type: "string" } } },
        capabilities: ["state(1MiB)"],
        sandboxProfile: "strict",
        sampleParams: { csv: "a" },
        expectedOutput: null,
      }),
    );
    expect(editor.fields.map((f) => f.name)).toEqual(["csv"]);
    expect(kept.all.size).toBe(1);
    const made = await editor.save();
    expect(made?.name).toBe("CSV to JSON");
    expect(rpc.sent("tools.create")[0]).toMatchObject({ capabilities: ["state(1MiB)"], sandboxProfile: "strict", samples: [{ params: { csv: "a" } }] });
    expect(kept.all.size).toBe(0);
    editor.close();
  });

  it("brings unsaved work back after a restart, for stored and new tools", () => {
    const kept = store();
    const one = setup(kept).editor;
    one.open(tool());
    one.draft.code = "unsaved";
    one.changed();
    one.close();
    const two = setup(kept).editor;
    two.open(tool());
    expect(two.draft.code).toBe("unsaved");
    expect(two.recovered).toBe(true);
    const undo = two.discard();
    expect(two.draft.code).toBe(tool().code);
    undo();
    expect(two.draft.code).toBe("unsaved");
    two.close();

    const three = setup(kept).editor;
    three.openNew();
    three.draft.name = "Later";
    three.changed();
    three.close();
    const four = setup(kept).editor;
    four.openNew();
    expect(four.draft.name).toBe("Later");
    four.close();
  });

  it("ignores a store that holds nonsense", () => {
    const kept = store();
    kept.setItem("helix.tools.draft.new", "{");
    const { editor } = setup(kept);
    editor.openNew();
    expect(editor.draft).toEqual(emptyDraft());
    editor.close();
  });

  it("keeps the draft on a conflict, shows both sides, and saves on top when told to", async () => {
    const { editor, rpc } = setup();
    editor.open(tool());
    editor.draft.code = "mine";
    rpc.handle({ "tools.get": () => ({ tool: tool({ version: "1.0.5", code: "theirs" }) }) });
    rpc.failNext("tools.update", new RpcError({ message: "It was changed.", kind: "conflict" }));
    expect(await editor.save()).toBeNull();
    expect(editor.conflict?.theirs.code).toBe("theirs");
    expect(editor.draft.code).toBe("mine");
    expect(await editor.keepMine()).not.toBeNull();
    expect(rpc.sent("tools.update").at(-1)).toMatchObject({ baseVersion: "1.0.5", patch: { code: "mine" } });
    expect(editor.conflict).toBeNull();
    editor.close();
  });

  it("takes the stored side and gives the draft back on Undo", async () => {
    const { editor, rpc } = setup();
    editor.open(tool());
    editor.draft.code = "mine";
    rpc.handle({ "tools.get": () => ({ tool: tool({ version: "1.0.5", code: "theirs" }) }) });
    rpc.failNext("tools.update", new RpcError({ message: "It was changed.", kind: "conflict" }));
    await editor.save();
    const undo = editor.takeTheirs();
    expect(editor.draft.code).toBe("theirs");
    expect(editor.dirty).toBe(false);
    undo();
    expect(editor.draft.code).toBe("mine");
    editor.close();
  });

  it("says why another error stopped a save", async () => {
    const { editor, rpc } = setup();
    editor.open(tool());
    editor.draft.name = "Taken";
    rpc.failNext("tools.update", new RpcError({ message: "The name is taken.", kind: "conflict" }));
    expect(await editor.save()).toBeNull();
    expect(editor.conflict).toBeNull();
    expect(editor.saveError?.message).toBe("The name is taken.");
    editor.close();
  });

  it("follows a change from elsewhere when nothing is unsaved, and only says so otherwise", async () => {
    const { editor, rpc } = setup();
    editor.open(tool());
    rpc.handle({ "tools.get": () => ({ tool: tool({ version: "2.0.0", code: "new" }) }) });
    await editor.changedElsewhere("t1");
    expect(editor.draft.code).toBe("new");
    editor.draft.code = "mine";
    rpc.handle({ "tools.get": () => ({ tool: tool({ version: "3.0.0", code: "newer" }) }) });
    await editor.changedElsewhere("t1");
    expect(editor.draft.code).toBe("mine");
    expect(editor.newerVersion).toBe("3.0.0");
    editor.close();
  });

  it("keeps the form and the JSON of the schema in step", () => {
    const { editor } = setup();
    editor.openNew();
    editor.setSchemaText('{"type":"object","properties":{"a":{"type":"string"}}}');
    expect(editor.fields.map((f) => f.name)).toEqual(["a"]);
    editor.setFields(editor.fields.map((f) => ({ ...f, required: true })));
    expect(JSON.parse(editor.draft.parameters)).toMatchObject({ required: ["a"] });
    // Broken JSON keeps the rows and the text as it was typed.
    editor.setSchemaText('{"type":');
    expect(editor.fields.map((f) => f.name)).toEqual(["a"]);
    expect(editor.draft.parameters).toBe('{"type":');
    editor.close();
  });
});
