/** Completion in the code editor: what a tool can call. */
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { t } from "./messages";

const method = (label: string, detail: string, info: string): Completion => ({ label, type: "method", detail, info });

/** The completions of each object; created on demand, in the language of the interface. */
function offers(place: string): Completion[] | undefined {
  const c = t.completion;
  switch (place) {
    case "helix":
      return [
        method("fetch", "(url, options?)", c.fetch),
        { label: "fs", type: "namespace", info: c.fs },
        { label: "state", type: "namespace", info: c.state },
        method("log", "(level?, message, fields?)", c.log),
        method("secret", "(name)", c.secret),
        method("tool", "(name, params)", c.tool),
      ];
    case "helix.fs":
      return [method("readText", "(path)", c.readText), method("list", "(path)", c.list), method("writeText", "(path, text)", c.writeText)];
    case "helix.state":
      return [method("get", "(key)", c.get), method("set", "(key, value)", c.set), method("delete", "(key)", c.delete), method("keys", "()", c.keys)];
    case "response":
    case "res":
      return [
        { label: "status", type: "property", detail: "number" },
        { label: "ok", type: "property", detail: "boolean" },
        { label: "headers", type: "property" },
        method("json", "()", c.json),
        method("text", "()", c.text),
        method("bytes", "()", c.bytes),
      ];
    case "":
      return [
        { label: "helix", type: "variable", info: c.helix },
        { label: "params", type: "variable", info: c.params },
        { label: "log", type: "function", detail: "(message)" },
        { label: "skillName", type: "variable", detail: "string" },
        { label: "skillVersion", type: "variable", detail: "string" },
        { label: "skillAuthor", type: "variable", detail: "string" },
      ];
    default:
      return undefined;
  }
}

/** The completions before the cursor. `fields` are the names of the tool's parameters. */
export function complete(before: string, fields: readonly string[]): { from: number; options: Completion[] } | null {
  const path = /(?:\b(helix\.fs|helix\.state|helix|params|response|res)\.)([\w$]*)$/.exec(before);
  if (path) {
    const from = before.length - path[2]!.length;
    return { from, options: offers(path[1]!) ?? fields.map((label) => ({ label, type: "property" })) };
  }
  const word = /(?:^|[^.\w$])([\w$]{2,})$/.exec(before);
  if (!word) return null;
  return { from: before.length - word[1]!.length, options: offers("")! };
}

/** The same for the editor. `fields` is called for each completion. */
export function completeHelix(fields: () => readonly string[]) {
  return (context: CompletionContext): CompletionResult | null => {
    const line = context.state.doc.lineAt(context.pos);
    const hit = complete(line.text.slice(0, context.pos - line.from), fields());
    if (hit === null) return null;
    return { from: line.from + hit.from, options: hit.options, validFor: /^[\w$]*$/ };
  };
}
