import { asError, fieldErrors, type Rpc } from "../../lib/rpc";
import { t } from "./messages";
import type { Entry } from "./types";

/** A variable or a header of an entry. */
export interface Pair {
  name: string;
  value: string;
  /** The value is stored as a secret, and the entry refers to it. */
  secret: boolean;
}

export type Reach = "command" | "url";

const reference = /^\$\{[^}]+\}$/;

/** Splits a command line into words; quotes group them. */
export function words(line: string): string[] {
  return [...line.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|(\S+)/g)].map((m) => m[1]?.replace(/\\(.)/g, "$1") ?? m[2] ?? m[3] ?? "");
}

/** Joins words into a command line that `words` splits again. */
export const commandLine = (list: readonly string[]): string => list.map((w) => (w === "" || /[\s"']/.test(w) ? `"${w.replace(/(["\\])/g, "\\$1")}"` : w)).join(" ");

const pairsOf = (map: Readonly<Record<string, string>> | undefined): Pair[] => Object.entries(map ?? {}).map(([name, value]) => ({ name, value, secret: reference.test(value) }));

/** The form of a new or an existing server. */
export class EntryForm {
  open = $state(false);
  /** The server that is edited, "" for a new one. */
  editing = $state("");
  name = $state("");
  reach = $state<Reach>("command");
  line = $state("");
  url = $state("");
  cwd = $state("");
  trust = $state<"ask" | "read" | "none">("ask");
  sse = $state(false);
  idle = $state(10);
  pairs = $state<Pair[]>([]);
  busy = $state(false);
  /** Refused fields with the reason; "" is the whole form. */
  refused = $state.raw<Readonly<Record<string, string>>>({});
  #was: Entry | null = null;
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Opens the form for a new server, or to edit one. */
  begin(entry: Entry | null = null): void {
    this.#was = entry;
    this.editing = entry?.name ?? "";
    this.name = entry?.name ?? "";
    this.reach = entry?.url ? "url" : "command";
    this.line = entry?.command ? commandLine([entry.command, ...(entry.args ?? [])]) : "";
    this.url = entry?.url ?? "";
    this.cwd = entry?.cwd ?? "";
    this.trust = (entry?.trust as typeof this.trust | undefined) ?? "ask";
    this.sse = entry?.transport === "sse";
    this.idle = entry?.idleMinutes ?? 10;
    this.pairs = pairsOf(entry?.url ? entry.headers : entry?.env);
    this.refused = {};
    this.open = true;
  }

  get missing(): string {
    if (this.name.trim() === "") return t.nameFirst;
    if (this.reach === "command") return words(this.line).length === 0 ? t.commandFirst : "";
    return this.url.trim() === "" ? t.urlFirst : "";
  }

  /** The name of the secret that holds a value. */
  secretName(p: Pair): string {
    return `MCP_${this.name.trim()}_${p.name.trim()}`.toUpperCase().replace(/[^A-Z0-9]+/g, "_");
  }

  /** Saves the entry, values of secrets first. Returns the name, or null if it was refused. */
  async save(): Promise<{ name: string; warnings: readonly string[] } | null> {
    if (this.busy || this.missing !== "") return null;
    this.busy = true;
    this.refused = {};
    try {
      const values: Record<string, string> = {};
      for (const p of this.pairs.filter((x) => x.name.trim() !== "")) {
        const stored = p.secret && p.value !== "" && !reference.test(p.value);
        if (stored) await this.#rpc.call("secrets.set", { name: this.secretName(p), value: p.value });
        values[p.name.trim()] = stored ? `\${${this.secretName(p)}}` : p.value;
        // The value is not kept here, even if the entry is refused.
        if (stored) p.value = values[p.name.trim()]!;
      }
      const [command = "", ...args] = words(this.line);
      const common = { trust: this.trust, idleMinutes: Number(this.idle) };
      const local = this.reach === "command";
      const own = local ? { command, args, env: values, transport: "stdio", ...(this.cwd.trim() === "" ? {} : { cwd: this.cwd.trim() }) } : { url: this.url.trim(), headers: values, transport: this.sse ? "sse" : "http" };
      if (this.editing === "") {
        const r = await this.#rpc.call("mcp.add", { server: { name: this.name.trim(), ...own, ...common } });
        this.open = false;
        return { name: r.server.name, warnings: r.warnings };
      }
      // A merge patch: null removes what the entry had and the form no longer has.
      const gone = (had: Readonly<Record<string, string>> | undefined): Record<string, null> => Object.fromEntries(Object.keys(had ?? {}).map((k) => [k, null]));
      const patch = {
        ...(local ? { url: null, headers: null, cwd: null } : { command: null, args: null, env: null, cwd: null }),
        ...own,
        ...(local ? { env: { ...gone(this.#was?.env), ...values } } : { headers: { ...gone(this.#was?.headers), ...values } }),
        ...common,
      };
      const r = await this.#rpc.call("mcp.update", { name: this.editing, patch });
      this.open = false;
      return { name: r.server.name, warnings: r.warnings };
    } catch (e) {
      const error = asError(e);
      const place = (path: string): string => path.replace(/^\/?(server|patch)?[./]?/, "").split(/[./[]/)[0] ?? "";
      const known = new Set(["name", "command", "args", "url", "env", "headers", "cwd", "trust", "idleMinutes"]);
      this.refused = Object.fromEntries([...fieldErrors(error).map((x) => [known.has(place(x.path)) ? place(x.path) : "", x.message] as const)].reverse());
      if (Object.keys(this.refused).length === 0) this.refused = { "": error.message };
      return null;
    } finally {
      this.busy = false;
    }
  }
}
