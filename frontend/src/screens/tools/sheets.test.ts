import { describe, expect, it } from "vitest";
import { RpcError } from "../../lib/rpc/errors";
import { MAX_BUNDLE, ToolImport, withoutSignatures } from "./importing.svelte";
import { fake, item, tool } from "./fixtures";
import { ToolSecrets } from "./secrets.svelte";
import { Sharing } from "../../lib/sharing/sharing.svelte";
import type { ImportItem } from "./types";

function importing(items: ImportItem[]) {
  const rpc = fake({
    "tools.import": (p: { dryRun: boolean }) => ({ items, tools: p.dryRun ? [] : [tool({ isEnabled: false })] }),
  });
  return { rpc, sheet: new ToolImport(rpc) };
}

describe("importing", () => {
  it("reviews first and adds exactly that after", async () => {
    const { rpc, sheet } = importing([item()]);
    await sheet.readText('{"format":"helix-tools"}', "a.json");
    expect(rpc.sent("tools.import")).toMatchObject([{ dryRun: true }]);
    expect(sheet.verb).toBe("Add, disabled");
    const made = await sheet.add();
    expect(made).toHaveLength(1);
    expect(rpc.sent("tools.import").at(-1)).toMatchObject({ dryRun: false, bundle: { format: "helix-tools" } });
    expect(sheet.open).toBe(false);
  });

  it("names the consequence on the button", async () => {
    const { sheet } = importing([item(), item({ action: "replace" }), item({ action: "skip" })]);
    await sheet.readText("{}", "a.json");
    expect(sheet.verb).toBe("Add 1 and replace 1, disabled");
    const one = importing([item({ action: "replace" })]).sheet;
    await one.readText("{}", "a.json");
    expect(one.verb).toBe("Replace, disabled");
  });

  it("refuses an invalid signature, and goes on only without it", async () => {
    const { rpc, sheet } = importing([item({ signature: { state: "invalid" }, action: "blocked" })]);
    await sheet.readText('{"tools":[{"definition":{},"signature":{"x":1}}]}', "a.json");
    expect(sheet.canAdd).toBe(false);
    expect(await sheet.add()).toBeNull();
    await sheet.asUnsigned();
    expect((rpc.sent("tools.import").at(-1) as { bundle: { tools: object[] } }).bundle.tools[0]).not.toHaveProperty("signature");
  });

  it("wants a new key's fingerprint confirmed", async () => {
    const { sheet } = importing([item({ signature: { state: "valid_unknown", fingerprint: "ff" } })]);
    await sheet.readText("{}", "a.json");
    expect(sheet.canAdd).toBe(false);
    sheet.confirm("ff", true);
    expect(sheet.canAdd).toBe(true);
    sheet.confirm("ff", false);
    expect(sheet.canAdd).toBe(false);
  });

  it("shows what the source holds now when it changed in between", async () => {
    const { rpc, sheet } = importing([item()]);
    await sheet.readLink("https://example.com/tools.json");
    rpc.failNext("tools.import", new RpcError({ message: "The source has changed.", kind: "conflict" }));
    expect(await sheet.add()).toBeNull();
    expect(sheet.changed).toBe(true);
    expect(sheet.open).toBe(true);
    expect(rpc.sent("tools.import").at(-1)).toMatchObject({ dryRun: true });
  });

  it("reads only links that it knows", async () => {
    const id = "0190a2b0-1111-7222-8333-123456789abc";
    const { rpc, sheet } = importing([item()]);
    await sheet.readLink(`helix://tools/shared/${id}`);
    expect(rpc.sent("tools.import").at(-1)).toMatchObject({ shareId: id });
    for (const bad of [`helix://tools/shared/${id}?x=1`, `helix://tools/shared/${id}/more`, "http://example.com/a", "file:///etc/passwd", "helix://tools/shared/1"]) {
      const before = rpc.calls.length;
      await sheet.readLink(bad);
      expect(rpc.calls.length, bad).toBe(before);
      expect(sheet.error, bad).not.toBeNull();
    }
  });

  it("refuses what is no JSON or too large before it is sent", async () => {
    const { rpc, sheet } = importing([]);
    await sheet.readText("not json", "x.txt");
    expect(sheet.error?.message).toContain("x.txt");
    await sheet.readText(" ".repeat(MAX_BUNDLE + 1), "big.json");
    expect(sheet.error?.message).toContain("5 MiB");
    expect(rpc.calls).toHaveLength(0);
  });

  it("takes signatures out of both forms of a bundle", () => {
    expect(withoutSignatures({ name: "a", signature: 1 })).toEqual({ name: "a" });
    expect(withoutSignatures({ tools: [{ a: 1, signature: 1 }], format: "x" })).toEqual({ tools: [{ a: 1 }], format: "x" });
    expect(withoutSignatures("text")).toBe("text");
  });
});

describe("sharing", () => {
  it("makes a link, says when there is no hub, and withdraws it", async () => {
    let shares = [{ shareId: "s0", state: "revoked" }];
    const rpc = fake({
      "tools.shares": () => ({ shares, hub: false }),
      "tools.share": () => {
        shares = [{ shareId: "s1", state: "active" }, ...shares];
        return { shareId: "s1", url: "helix://tools/shared/s1", version: "1.0.0", hub: false };
      },
      "tools.unshare": () => ({}),
    });
    const s = new Sharing(rpc, "tool");
    s.begin("t1", "Text Counter");
    await s.share();
    expect(s.hub).toBe(false);
    expect(s.made?.url).toContain("helix://");
    expect(s.live.map((x) => x.shareId)).toEqual(["s1"]);
    expect(await s.unshare("s1")).toBe(true);
    expect(s.made).toBeNull();
    rpc.failNext("tools.share", new RpcError({ message: "no hub", kind: "unavailable" }));
    await s.share();
    expect(s.error?.kind).toBe("unavailable");
  });
});

describe("secrets", () => {
  it("sends a value once and forgets it", async () => {
    const rpc = fake({
      "tools.secrets": () => ({ secrets: [] }),
      "tools.secret_set": (p: object) => {
        seen = { ...p };
        return {};
      },
      "tools.secret_delete": () => ({}),
    });
    let seen: Record<string, unknown> = {};
    const s = new ToolSecrets(rpc);
    s.begin();
    expect(s.problem).not.toBe("");
    s.name = "GH";
    s.value = "hunter2";
    s.hosts = "API.github.com, *.example.com";
    s.toolIds = ["t1"];
    expect(s.problem).toBe("");
    expect(await s.save()).toBe(true);
    expect(seen).toEqual({ name: "GH", value: "hunter2", hosts: ["api.github.com", "*.example.com"], toolIds: ["t1"] });
    expect(s.value).toBe("");
    s.close();
  });

  it("names what is missing and refuses wide hosts", () => {
    const s = new ToolSecrets(fake({}));
    s.name = "a b";
    expect(s.problem).toContain("letters");
    s.name = "GH";
    expect(s.problem).toContain("value");
    s.value = "x";
    expect(s.problem).toContain("host");
    s.hosts = "*";
    expect(s.problem).toContain("every host");
  });
});
