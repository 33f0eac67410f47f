/** Capabilities in plain words: parsing, checking and explaining the strings that a tool requests. */
import { t } from "./messages";

/** The sandbox profiles, strictest first. */
export type Profile = "strict" | "standard" | "permissive";

/** One kind of capability that can be selected. Its texts are those of `t.capabilities`. */
export interface CapabilityKind {
  /** The name before the bracket, for example `network:https`. */
  name: keyof typeof t.capabilities;
  /** An example of the part in brackets; empty if the kind has none. */
  placeholder: string;
  /** The profiles that allow it. */
  profiles: readonly Profile[];
}

/** A parsed capability string. `kind` is null if its name is unknown. */
export interface ParsedCapability {
  name: string;
  resource: string;
  kind: CapabilityKind | null;
}

const ALL: readonly Profile[] = ["strict", "standard", "permissive"];
const OPEN: readonly Profile[] = ["standard", "permissive"];

/** Every kind that can be requested, in the order of the picker. */
export const KINDS: readonly CapabilityKind[] = [
  { name: "network:https", placeholder: "api.example.com", profiles: OPEN },
  { name: "network:localhost", placeholder: "8080", profiles: OPEN },
  { name: "filesystem:read", placeholder: "~/Notes/**", profiles: OPEN },
  { name: "filesystem:write", placeholder: "", profiles: ["permissive"] },
  { name: "state", placeholder: "1MiB", profiles: ALL },
  { name: "secret", placeholder: "GITHUB_TOKEN", profiles: OPEN },
  { name: "tool", placeholder: "Text Counter", profiles: ALL },
  { name: "mcp", placeholder: "server.tool", profiles: OPEN },
];

/** Splits `network:https(api.x.com)` into its name and resource. */
export function parseCapability(text: string): ParsedCapability {
  const t = text.trim();
  const open = t.indexOf("(");
  const name = (open < 0 ? t : t.slice(0, open)).trim();
  const resource = open < 0 ? "" : t.slice(open + 1, t.endsWith(")") ? -1 : undefined).trim();
  return { name, resource, kind: KINDS.find((k) => k.name === name) ?? null };
}

/** Formats a capability string; without a resource there are no brackets. */
export function formatCapability(name: string, resource: string): string {
  const r = resource.trim();
  return r === "" ? name : `${name}(${r})`;
}

/** What a capability allows, as one plain sentence without a full stop. */
export function explainCapability(text: string): string {
  const { name, resource } = parseCapability(text);
  const say = t.explain;
  switch (name) {
    case "network:https":
      return resource.startsWith("*.") ? say.subdomains(resource.slice(2)) : say.host(resource);
    case "network:localhost":
      return resource.includes("-") ? say.ports(resource) : say.port(resource);
    case "network:smtp": {
      const [, server = "", sender = ""] = /^([^/]*)\/(.*)$/.exec(resource) ?? [];
      return sender === "" ? text : say.send(sender, server);
    }
    case "filesystem:read": {
      const folder = /^(.+)\/(?:\*\*)?$/.exec(resource)?.[1];
      return folder === undefined ? say.read(resource) : say.readAll(folder);
    }
    case "filesystem:write":
      return say.write;
    case "state":
    case "secret":
    case "tool":
      return say[name](resource);
    case "mcp": {
      const [, server = "", tool = ""] = /^([^.]*)\.(.*)$/.exec(resource) ?? [];
      return server === "" ? say.mcp(resource) : tool === "*" ? say.mcpServer(server) : say.mcpTool(tool, server);
    }
    default:
      return text;
  }
}

/**
 * Why a profile does not allow a capability, in words; null if it does. This is a quick hint while typing:
 * the backend's validation decides.
 */
export function capabilityProblem(text: string, profile: Profile): string | null {
  const { name, resource, kind } = parseCapability(text);
  const never = (t.never as Record<string, string>)[name];
  if (never !== undefined) return never;
  if (kind === null) return name === "" ? t.problems.choose : t.problems.unknown(name);
  const bad = resourceProblem(kind.name, resource);
  if (bad !== null) return bad;
  return kind.profiles.includes(profile) ? null : t.forbiddenNeeds(profile, kind.profiles[0]!);
}

/** What is wrong with the part in brackets; null if it is valid. */
export function resourceProblem(name: string, resource: string): string | null {
  const p = t.problems;
  switch (name) {
    case "network:https":
      return hostProblem(resource);
    case "network:localhost":
      return portProblem(resource);
    case "filesystem:read":
      return pathProblem(resource);
    case "filesystem:write":
      return resource === "" ? null : p.noPath;
    case "state":
      return resource === "" || /^\d+\s*(B|KB|MB|GB|KiB|MiB|GiB)?$/.test(resource) ? null : p.size;
    case "secret":
    case "tool":
      return resource === "" ? p[name] : null;
    case "mcp":
      return /^[^.\s]+\.[^\s]+$/.test(resource) ? null : p.mcp;
    default:
      return null;
  }
}

function hostProblem(resource: string): string | null {
  const p = t.problems;
  if (resource === "") return p.host;
  if (/^[a-z]+:\/\//i.test(resource) || resource.includes("/")) return p.hostOnly;
  const host = resource.replace(/:\d+$/, "");
  if (host === "*") return p.everyHost;
  const bare = host.startsWith("*.") ? host.slice(2) : host;
  if (bare.includes("*")) return p.star;
  if (/^[\d.]+$/.test(bare) || bare.startsWith("[")) return p.address;
  if (!bare.includes(".")) return host.startsWith("*.") ? p.topLevel : p.fullHost;
  return /^[a-z0-9.-]+$/i.test(bare) ? null : p.punycode;
}

function portProblem(resource: string): string | null {
  const m = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(resource);
  if (!m) return t.problems.port;
  const from = Number(m[1]);
  const to = m[2] === undefined ? from : Number(m[2]);
  return from < 1 || to > 65535 || to < from ? t.problems.portRange : null;
}

function pathProblem(resource: string): string | null {
  const p = t.problems;
  if (resource === "") return p.path;
  if (!/^(\/|~(\/|$)|\$(HOME|WORKSPACE|STATE)(\/|$)|[A-Za-z]:[\\/])/.test(resource)) return p.absolute;
  if (resource.split(/[\\/]/).includes("..")) return p.parent;
  if (resource === "/" || resource === "/**") return p.allFiles;
  return resource.replace(/\/\*\*$/, "").includes("*") ? p.pathStar : null;
}
