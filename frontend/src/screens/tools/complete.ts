/** Completion in the code editor: what a tool can call. */
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";

const method = (label: string, detail: string, info: string): Completion => ({ label, type: "method", detail, info });

const HELIX: Completion[] = [
  method("fetch", "(url, options?)", "Sends a request to an allowed host. Needs network:https(host) or network:localhost(port)."),
  { label: "fs", type: "namespace", info: "Files: readText, list, writeText." },
  { label: "state", type: "namespace", info: "Values that the tool keeps between runs: get, set, delete, keys." },
  method("log", "(level?, message, fields?)", "Writes a line to the log of the run."),
  method("secret", "(name)", "A placeholder for a secret. The value is inserted only in requests to its allowed hosts."),
  method("tool", "(name, params)", "Runs another tool and returns its output. Needs tool(name)."),
];

const FS: Completion[] = [
  method("readText", "(path)", "The text of a file, at most 4 MiB. Needs filesystem:read(path)."),
  method("list", "(path)", "The entries of a folder: name, size, isDir, modified. Needs filesystem:read(path)."),
  method("writeText", "(path, text)", "Writes a file in the tool's own folder. Needs filesystem:write and the permissive profile."),
];

const STATE: Completion[] = [
  method("get", "(key)", "The value of a key, or null."),
  method("set", "(key, value)", "Stores a JSON value. Fails above the quota and keeps the old value."),
  method("delete", "(key)", "Deletes a key."),
  method("keys", "()", "All keys."),
];

const RESPONSE: Completion[] = [
  { label: "status", type: "property", detail: "number" },
  { label: "ok", type: "property", detail: "boolean" },
  { label: "headers", type: "property" },
  method("json", "()", "The body as a value."),
  method("text", "()", "The body as text."),
  method("bytes", "()", "The body as bytes."),
];

const GLOBALS: Completion[] = [
  { label: "helix", type: "variable", info: "Access to the outside. Every call is checked." },
  { label: "params", type: "variable", info: "The parameters of this run." },
  { label: "log", type: "function", detail: "(message)" },
  { label: "skillName", type: "variable", detail: "string" },
  { label: "skillVersion", type: "variable", detail: "string" },
  { label: "skillAuthor", type: "variable", detail: "string" },
];

/** What fits before the cursor. `fields` are the names of the tool's parameters. */
export function complete(before: string, fields: readonly string[]): { from: number; options: Completion[] } | null {
  const path = /(?:\b(helix\.fs|helix\.state|helix|params|response|res)\.)([\w$]*)$/.exec(before);
  if (path) {
    const options = { helix: HELIX, "helix.fs": FS, "helix.state": STATE, response: RESPONSE, res: RESPONSE }[path[1]!];
    const from = before.length - path[2]!.length;
    if (options) return { from, options };
    return { from, options: fields.map((label) => ({ label, type: "property" })) };
  }
  const word = /(?:^|[^.\w$])([\w$]{2,})$/.exec(before);
  if (!word) return null;
  return { from: before.length - word[1]!.length, options: GLOBALS };
}

/** The same for the editor. `fields` is asked at each completion. */
export function completeHelix(fields: () => readonly string[]) {
  return (context: CompletionContext): CompletionResult | null => {
    const line = context.state.doc.lineAt(context.pos);
    const hit = complete(line.text.slice(0, context.pos - line.from), fields());
    if (hit === null) return null;
    return { from: line.from + hit.from, options: hit.options, validFor: /^[\w$]*$/ };
  };
}
