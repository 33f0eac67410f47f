/** Texts for backend values about runs, permissions and definitions. */
import { lookup } from "../i18n";
import { t } from "./messages";

/** The first characters of a hash, enough to compare by eye. */
export const shortHash = (hash: string | undefined): string => (hash ?? "").replace(/^sha256:/, "").slice(0, 12);

/** A capability in its written form: `network:https(api.example.com)`. */
export const full = (capability: string, resource: string): string => (resource === "" || capability.includes("(") ? capability : `${capability}(${resource})`);

/** A value of any kind as text, for a comparison. */
export const valueText = (v: unknown): string => (v === undefined || v === null ? "" : typeof v === "string" ? v : JSON.stringify(v, null, 2));

/** Name of a grant's scope. */
export const scopeText = (scope: string): string => lookup(t.scopes, scope);

/** Who started a run. */
export const callerWord = (caller: string): string => lookup(t.callers, caller);

/** Name of a field of a definition. */
export const fieldWord = (name: string): string => (t.fields as Record<string, string>)[name] ?? name;

/** A place in a definition, such as `/parameters/required/0`. */
export function pathWords(path: string): string {
  const [field = "", ...rest] = path.split("/").filter(Boolean);
  return [field === "" ? t.definition : fieldWord(field), ...rest].join(" › ");
}
