import { describe, expect, it } from "vitest";
import { RpcError } from "../../../lib/rpc/errors";
import { fake, module, moduleFile, report, until } from "./fixtures";
import { ModuleForm } from "./form.svelte";
import { base64 } from "../../../lib/ui/state";
import { MAX_MODULE, uploadModule } from "./upload";

function setup(found = report()) {
  const received: { offset: number; size: number; done: boolean }[] = [];
  const rpc = fake({
    "skills.upload_wasm": (p: { uploadId?: string; offset: number; data: string; done?: boolean }) => {
      received.push({ offset: p.offset, size: atob(p.data).length, done: p.done === true });
      return { uploadId: "u1", size: p.offset, ...(p.done ? { blobSha256: "ab".repeat(32) } : {}) };
    },
    "skills.validate_wasm": (p: { capabilities: string[] }) => ({ ...found, capabilities: p.capabilities }),
    "skills.create_wasm": (p: { name: string }) => ({ skill: module({ name: p.name }), report: found }),
    "skills.update_wasm": () => ({ skill: module(), suspendedGrants: ["g1"] }),
    "skills.get_wasm": () => ({ skill: module({ version: "1.1.0" }) }),
  });
  return { rpc, received, form: new ModuleForm(rpc as never) };
}

describe("installing a module", () => {
  it("brings the file, shows what was found and installs exactly that", async () => {
    const { rpc, form } = setup();
    form.begin();
    expect(form.timeoutError).toBe("");
    expect(form.blocked).toBe("Choose a module first");
    await form.choose([moduleFile()]);
    expect(form.report?.valid).toBe(true);
    expect(form.name).toBe("word count");
    expect(form.isolation).toBe("process+landlock");
    expect(form.reasons).toEqual(["bwrap_missing"]);
    form.timeout = "0.25";
    const done = await form.save();
    expect(done?.skill.name).toBe("word count");
    expect(rpc.sent("skills.create_wasm")[0]).toMatchObject({ name: "word count", blobSha256: "ab".repeat(32), timeoutMs: 250, memoryMb: 128, capabilities: [], inputSchema: {} });
    expect(rpc.sent("skills.create_wasm")[0]).not.toHaveProperty("origin");
    expect(form.open).toBe(false);
  });

  it("sends a large module in parts, in order, and tells how far it is", async () => {
    const { rpc, received } = setup();
    const heard: number[] = [];
    const hash = await uploadModule(rpc as never, new Uint8Array(40), new AbortController().signal, (p) => heard.push(p), 16);
    expect(hash).toBe("ab".repeat(32));
    expect(received).toEqual([
      { offset: 0, size: 16, done: false },
      { offset: 16, size: 16, done: false },
      { offset: 32, size: 8, done: true },
    ]);
    expect(rpc.sent("skills.upload_wasm").map((p) => p.uploadId)).toEqual([undefined, "u1", "u1"]);
    expect(heard).toEqual([0.4, 0.8, 1]);
  });

  it("refuses what is no module before anything is sent", async () => {
    const { rpc, form } = setup();
    const head = (name: string, bytes: number[]) => ({ name, size: bytes.length, arrayBuffer: async () => new Uint8Array(bytes).buffer as ArrayBuffer });
    await form.choose([head("a.wasm", [1, 2, 3, 4, 5, 6, 7, 8, 9])]);
    expect(form.fileError).toContain("not a WebAssembly module");
    await form.choose([head("a.wat", [...new TextEncoder().encode("(module (func))")])]);
    expect(form.fileError).toContain("wat2wasm");
    await form.choose([head("c.wasm", [0, 0x61, 0x73, 0x6d, 0x0d, 0, 1, 0])]);
    expect(form.fileError).toContain("component");
    await form.choose([head("empty.wasm", [])]);
    expect(form.fileError).toContain("empty");
    await form.choose([{ name: "huge.wasm", size: MAX_MODULE + 1, arrayBuffer: () => Promise.reject(new Error("never read")) }]);
    expect(form.fileError).toContain("32 MiB");
    await form.choose([moduleFile("a.wasm"), moduleFile("b.wasm")]);
    expect(form.fileError).toContain("one module");
    expect(rpc.calls).toEqual([]);
    expect(form.ready).toBe(false);
  });

  it("installs nothing while the report has errors, and asks again when something is decided", async () => {
    const { rpc, form } = setup(report({ valid: false, errors: [{ code: "memory", field: "memoryMb", message: "Choose a larger tier." }] }));
    await form.choose([moduleFile()]);
    expect(form.blocked).toBe("The module can't be used");
    expect(await form.save()).toBeNull();
    rpc.handle({ "skills.validate_wasm": () => report() });
    form.setMemory(256);
    await until(() => form.ready);
    expect(rpc.sent("skills.validate_wasm").at(-1)).toMatchObject({ memoryMb: 256 });
    form.setCapabilities(["state"]);
    await until(() => rpc.sent("skills.validate_wasm").length === 3);
    expect(rpc.sent("skills.validate_wasm").at(-1)).toMatchObject({ capabilities: ["state"] });
  });

  it("says where it runs when the person built it", async () => {
    const { rpc, form } = setup();
    await form.choose([moduleFile()]);
    form.own = true;
    expect(form.isolation).toBe("inprocess");
    expect(form.reasons).toEqual([]);
    await form.save();
    expect(rpc.sent("skills.create_wasm")[0]).toMatchObject({ origin: "local" });
  });

  it("names each field that is wrong", async () => {
    const { form } = setup();
    await form.choose([moduleFile()]);
    for (const [field, value] of [["name", "  "], ["name", "a/b"], ["timeout", "0.02"], ["timeout", "60.001"], ["timeout", "soon"], ["timeout", ""], ["version", "one"]] as const) {
      const before = form[field];
      form[field] = value;
      expect(form.blocked, `${field} ${value}`).toBe("Fix the marked fields first");
      form[field] = before;
    }
    form.setSchema("{ no");
    expect(form.schemaError).not.toBe("");
    expect(form.ready).toBe(false);
  });

  it("keeps everything when the backend refuses, and shows its report", async () => {
    const { rpc, form } = setup();
    await form.choose([moduleFile()]);
    rpc.failNext("skills.create_wasm", new RpcError({ kind: "invalid", message: "The module is refused.", details: report({ valid: false, errors: [{ code: "compile", field: "wasm", message: "Threads", feature: "threads" }] }) }));
    expect(await form.save()).toBeNull();
    expect(form.open).toBe(true);
    expect(form.error?.message).toBe("The module is refused.");
    expect(form.report?.errors[0]?.feature).toBe("threads");
    expect(form.name).toBe("word count");
  });

  it("installs nothing that could not be checked, and checks again on demand", async () => {
    const { rpc, form } = setup();
    rpc.failNext("skills.validate_wasm", new RpcError({ kind: "unavailable", message: "The engine is not ready." }));
    await form.choose([moduleFile()]);
    expect(form.error?.message).toBe("The engine is not ready.");
    expect(form.blocked).toBe("Couldn't check the module");
    expect(await form.save()).toBeNull();
    await form.recheck();
    expect(form.error).toBeNull();
    expect(form.ready).toBe(true);
  });

  it("forgets an upload that another file overtook", async () => {
    const { form, rpc } = setup();
    let let1: (v: unknown) => void = () => {};
    let n = 0;
    rpc.handle({
      "skills.upload_wasm": () => (n++ === 0 ? new Promise((r) => (let1 = r)) : { uploadId: "u2", size: 0, blobSha256: "cd".repeat(32) }),
    });
    const first = form.choose([moduleFile("first.wasm")]);
    await until(() => n === 1);
    await form.choose([moduleFile("second.wasm")]);
    let1({ uploadId: "u1", size: 0, blobSha256: "ab".repeat(32) });
    await first;
    await form.save();
    expect(rpc.sent("skills.create_wasm")[0]).toMatchObject({ blobSha256: "cd".repeat(32) });
  });
});

describe("editing a module", () => {
  it("sends only what is different", async () => {
    const { rpc, form } = setup();
    form.edit(module({ capabilities: ["state"], inputSchema: { type: "object", properties: {} } }));
    expect(form.dirty).toBe(false);
    form.timeout = "9";
    form.description = "Counts.";
    expect(form.dirty).toBe(true);
    const done = await form.save();
    expect(done?.suspended).toBe(1);
    expect(rpc.sent("skills.update_wasm")[0]).toEqual({ skillId: "s1", baseVersion: "1.0.0", patch: { description: "Counts.", timeoutMs: 9000 } });
  });

  it("replaces the module", async () => {
    const { rpc, form } = setup();
    form.edit(module());
    await form.choose([moduleFile("other.wasm")]);
    expect(form.name).toBe("Word count");
    expect(form.replaces).toBe(true);
    await form.save();
    expect(rpc.sent("skills.update_wasm")[0].patch).toEqual({ blobSha256: "ab".repeat(32) });
  });

  it("keeps what is typed when the skill has moved on, and saves it on top", async () => {
    const { rpc, form } = setup();
    form.edit(module());
    form.description = "Mine";
    rpc.failNext("skills.update_wasm", new RpcError({ kind: "conflict", message: "It is at version 1.1.0 now." }));
    expect(await form.save()).toBeNull();
    expect(form.stale?.version).toBe("1.1.0");
    expect(form.description).toBe("Mine");
    await form.save();
    expect(rpc.sent("skills.update_wasm")[1]).toMatchObject({ baseVersion: "1.1.0", patch: { description: "Mine" } });
    expect(rpc.sent("skills.update_wasm")[1].patch).not.toHaveProperty("version");
  });
});

describe("base64", () => {
  it("gives the same bytes back, also across its pieces", () => {
    const bytes = Uint8Array.from({ length: 70_001 }, (_, i) => (i * 31) % 256);
    expect(Uint8Array.from(atob(base64(bytes)), (c) => c.charCodeAt(0))).toEqual(bytes);
    expect(base64(new Uint8Array())).toBe("");
  });
});
