import { describe, expect, it } from "vitest";
import { capabilityProblem, explainCapability, formatCapability, KINDS, parseCapability } from "./capabilities";

describe("capabilities", () => {
  it("reads and writes every kind", () => {
    for (const k of KINDS) {
      const text = formatCapability(k.name, k.placeholder);
      const p = parseCapability(text);
      expect(p.kind?.name).toBe(k.name);
      expect(formatCapability(p.name, p.resource)).toBe(text);
      expect(capabilityProblem(text, k.profiles[k.profiles.length - 1]!), text).toBeNull();
    }
  });

  it.each([
    ["network:https(*.example.com)", "Connect to any subdomain of example.com over HTTPS"],
    ["network:smtp(smtp.example.com:587/me@example.com)", "Send e-mail as me@example.com through smtp.example.com:587"],
    ["network:localhost(8000-8100)", "Connect to programs on this computer, ports 8000-8100"],
    ["filesystem:read(~/Notes/**)", "Read everything in ~/Notes"],
    ["filesystem:write", "Write files in its own folder"],
    ["secret(GH)", "Use the secret GH without seeing it"],
    ["mcp(files.read)", "Call read on the MCP server files"],
    ["mcp(files.*)", "Call every tool of the MCP server files"],
    ["something(else)", "something(else)"],
  ])("explains %s", (text, want) => expect(explainCapability(text)).toBe(want));

  it.each([
    ["network:https(*)", "every host"],
    ["network:https(*.com)", "top-level"],
    ["network:https(https://a.com)", "Only the host"],
    ["network:https(1.2.3.4)", "IP addresses"],
    ["network:https", "Enter a host"],
    ["network:https(a*.com)", "star"],
    ["network:localhost(70000)", "65535"],
    ["network:localhost", "Enter a port"],
    ["filesystem:read(../x)", "Start with"],
    ["filesystem:read(/a/../b)", "“..”"],
    ["filesystem:read(/**)", "all files"],
    ["filesystem:write(/tmp)", "takes no path"],
    ["state(lots)", "size"],
    ["mcp(server)", "server.tool"],
    ["process:spawn", "never"],
    ["env:read", "never"],
    ["network:outbound", "network:https("],
    ["mcp:tools", "mcp("],
    ["nonsense", "Unknown capability"],
    ["", "Choose a capability"],
  ])("refuses %s", (text, part) => expect(capabilityProblem(text, "permissive")).toContain(part));

  it("follows the profile matrix", () => {
    const ok = (c: string) => (["strict", "standard", "permissive"] as const).filter((p) => capabilityProblem(c, p) === null);
    expect(ok("state(1MiB)")).toEqual(["strict", "standard", "permissive"]);
    expect(ok("tool(x)")).toEqual(["strict", "standard", "permissive"]);
    for (const c of ["network:https(a.example.com)", "network:localhost(80)", "filesystem:read(/a)", "secret(X)", "mcp(a.b)"])
      expect(ok(c), c).toEqual(["standard", "permissive"]);
    expect(ok("filesystem:write")).toEqual(["permissive"]);
  });
});
