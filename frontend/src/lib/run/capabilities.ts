/** Capabilities in plain words: parsing, checking and explaining the strings a tool asks for. */

/** The sandbox profiles, from the narrowest to the widest. */
export type Profile = "strict" | "standard" | "permissive";

/** One kind of capability that a person can pick. */
export interface CapabilityKind {
  /** The name before the bracket, for example `network:https`. */
  name: string;
  /** What the picker calls it. */
  label: string;
  /** Name of the part in brackets; empty when the kind takes none. */
  resource: string;
  placeholder: string;
  /** One sentence under the field. */
  help: string;
  /** The profiles under which it may be asked for. */
  profiles: readonly Profile[];
}

/** A parsed capability string. `kind` is null when nobody knows the name. */
export interface ParsedCapability {
  name: string;
  resource: string;
  kind: CapabilityKind | null;
}

const ALL: readonly Profile[] = ["strict", "standard", "permissive"];
const OPEN: readonly Profile[] = ["standard", "permissive"];

/** Every kind that can be asked for, in the order of the picker. */
export const KINDS: readonly CapabilityKind[] = [
  {
    name: "network:https",
    label: "Connect to a website",
    resource: "Host",
    placeholder: "api.example.com",
    help: "One host, or *.example.com for its subdomains. Add :port when it is not 443.",
    profiles: OPEN,
  },
  {
    name: "network:localhost",
    label: "Connect to a program on this computer",
    resource: "Port",
    placeholder: "8080",
    help: "A port or a range such as 8000-8100. Never a port of Helix itself.",
    profiles: OPEN,
  },
  {
    name: "filesystem:read",
    label: "Read files",
    resource: "Path",
    placeholder: "~/Notes/**",
    help: "A file, or a folder with everything below it. Folders of Helix can never be read.",
    profiles: OPEN,
  },
  {
    name: "filesystem:write",
    label: "Write files in its own folder",
    resource: "",
    placeholder: "",
    help: "Only inside the folder that belongs to this tool.",
    profiles: ["permissive"],
  },
  {
    name: "state",
    label: "Remember things between runs",
    resource: "Quota",
    placeholder: "1MiB",
    help: "How much it may keep, for example 512KiB or 10MiB.",
    profiles: ALL,
  },
  {
    name: "secret",
    label: "Use a secret",
    resource: "Name",
    placeholder: "GITHUB_TOKEN",
    help: "The tool never sees the value. It is put into requests to the hosts listed for the secret.",
    profiles: OPEN,
  },
  {
    name: "tool",
    label: "Run another tool",
    resource: "Tool",
    placeholder: "Text Counter",
    help: "By name or id. The other tool can do no more than this one.",
    profiles: ALL,
  },
  {
    name: "mcp",
    label: "Call an MCP tool",
    resource: "Server and tool",
    placeholder: "server.tool",
    help: "Exactly one tool, or server.* for all tools of a server.",
    profiles: OPEN,
  },
];

const NEVER: Record<string, string> = {
  "process:spawn": "Tools can never start programs.",
  "env:read": "Tools can never read the environment.",
  "discord:webhooks": "Not offered. Ask for network:https(discord.com) instead.",
  "network:outbound": "Too wide. List the hosts: network:https(api.example.com).",
  "mcp:tools": "Too wide. List the tools: mcp(server.tool).",
  internet_access: "Too wide. List the hosts: network:https(api.example.com).",
};

/** Splits `network:https(api.x.com)` into its name and resource. */
export function parseCapability(text: string): ParsedCapability {
  const t = text.trim();
  const open = t.indexOf("(");
  const name = (open < 0 ? t : t.slice(0, open)).trim();
  const resource = open < 0 ? "" : t.slice(open + 1, t.endsWith(")") ? -1 : undefined).trim();
  return { name, resource, kind: KINDS.find((k) => k.name === name) ?? null };
}

/** Writes a capability string; the brackets go when there is no resource. */
export function formatCapability(name: string, resource: string): string {
  const r = resource.trim();
  return r === "" ? name : `${name}(${r})`;
}

/** What a capability allows, as one plain sentence without a full stop. */
export function explainCapability(text: string): string {
  const { name, resource } = parseCapability(text);
  switch (name) {
    case "network:https":
      if (resource.startsWith("*.")) return `Connect to any subdomain of ${resource.slice(2)} over HTTPS`;
      return resource ? `Connect to ${resource} over HTTPS` : "Connect to a website over HTTPS";
    case "network:localhost":
      if (resource.includes("-")) return `Connect to programs on this computer, ports ${resource}`;
      return resource ? `Connect to a program on this computer, port ${resource}` : "Connect to programs on this computer";
    case "filesystem:read": {
      if (!resource) return "Read files";
      if (resource.endsWith("/**")) return `Read everything in ${resource.slice(0, -3)}`;
      if (resource.endsWith("/")) return `Read everything in ${resource.slice(0, -1)}`;
      return `Read ${resource}`;
    }
    case "filesystem:write":
      return "Write files in its own folder";
    case "state":
      return resource ? `Remember up to ${resource} between runs` : "Remember things between runs";
    case "secret":
      return resource ? `Use the secret ${resource} without seeing it` : "Use a secret without seeing it";
    case "tool":
      return resource ? `Run the tool ${resource}` : "Run another tool";
    case "mcp": {
      if (!resource) return "Call an MCP tool";
      const dot = resource.indexOf(".");
      if (resource.endsWith(".*")) return `Call every tool of the MCP server ${resource.slice(0, -2)}`;
      return dot < 0 ? `Call the MCP tool ${resource}` : `Call ${resource.slice(dot + 1)} on the MCP server ${resource.slice(0, dot)}`;
    }
    default:
      return text;
  }
}

/**
 * Why a capability cannot be asked for under a profile, in words; null when it can.
 * This is a quick hint while typing: the backend's validation decides.
 */
export function capabilityProblem(text: string, profile: Profile): string | null {
  const { name, resource, kind } = parseCapability(text);
  const never = NEVER[name];
  if (never !== undefined) return never;
  if (kind === null) return name === "" ? "Choose a capability." : `Unknown capability ${name}.`;
  const bad = resourceProblem(kind.name, resource);
  if (bad !== null) return bad;
  if (!kind.profiles.includes(profile)) {
    const need = kind.profiles[0];
    return `The ${profile} profile never allows this. It needs ${need}.`;
  }
  return null;
}

/** What is wrong with the part in brackets; null when nothing is. */
export function resourceProblem(name: string, resource: string): string | null {
  switch (name) {
    case "network:https":
      return hostProblem(resource);
    case "network:localhost":
      return portProblem(resource);
    case "filesystem:read":
      return pathProblem(resource);
    case "filesystem:write":
      return resource === "" ? null : "Writing takes no path: tools write only to their own folder.";
    case "state":
      return resource === "" || /^\d+\s*(B|KB|MB|GB|KiB|MiB|GiB)?$/.test(resource)
        ? null
        : "Give a size such as 512KiB or 10MiB.";
    case "secret":
      return resource === "" ? "Enter the name of the secret." : null;
    case "tool":
      return resource === "" ? "Enter the name of the tool." : null;
    case "mcp":
      return /^[^.\s]+\.[^\s]+$/.test(resource) ? null : "Write server.tool, or server.* for all of its tools.";
    default:
      return null;
  }
}

function hostProblem(resource: string): string | null {
  if (resource === "") return "Enter a host.";
  if (/^[a-z]+:\/\//i.test(resource) || resource.includes("/")) return "Only the host: no https:// and no path.";
  const host = resource.replace(/:\d+$/, "");
  if (host === "*") return "This covers every host. Enter one host.";
  const bare = host.startsWith("*.") ? host.slice(2) : host;
  if (bare.includes("*")) return "A star is only allowed as the whole first part: *.example.com.";
  if (/^[\d.]+$/.test(bare) || bare.startsWith("[")) return "IP addresses are not allowed. Enter a host name.";
  if (!bare.includes(".")) return host.startsWith("*.") ? "That covers a whole top-level domain." : "Write the full host, such as api.example.com.";
  if (!/^[a-z0-9.-]+$/i.test(bare)) return "Use the plain (punycode) form of the host.";
  return null;
}

function portProblem(resource: string): string | null {
  const m = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(resource);
  if (!m) return "Give a port such as 8080, or a range 8000-8100.";
  const from = Number(m[1]);
  const to = m[2] === undefined ? from : Number(m[2]);
  if (from < 1 || to > 65535 || to < from) return "Ports go from 1 to 65535.";
  return null;
}

function pathProblem(resource: string): string | null {
  if (resource === "") return "Enter a file or folder.";
  if (!/^(\/|~(\/|$)|\$(HOME|WORKSPACE|STATE)(\/|$)|[A-Za-z]:[\\/])/.test(resource)) return "Start with / or ~.";
  if (resource.split(/[\\/]/).includes("..")) return "The path may not contain “..”.";
  if (resource === "/" || resource === "/**") return "Access to all files is not allowed.";
  if (resource.replace(/\/\*\*$/, "").includes("*")) return "A star is only allowed at the end, as /**.";
  return null;
}
