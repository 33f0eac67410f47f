/** Words about runs, rights and definitions. */
import { count } from "../ui/format";

/** `once`, `12 times`. */
export const times = (n: number): string => (n === 1 ? "once" : `${count(n)} times`);

/** The first characters of a hash, enough to compare by eye. */
export const shortHash = (hash: string | undefined): string => (hash ?? "").replace(/^sha256:/, "").slice(0, 12);

/** Name of a grant's scope. */
export function scopeText(scope: string): string {
  switch (scope) {
    case "once":
      return "Once";
    case "run":
      return "This run";
    case "session":
      return "This session";
    case "always":
      return "Always";
    default:
      return scope;
  }
}

const callers: Record<string, string> = { user: "you", cli: "the terminal", http: "a program", agent: "the agent", skill: "a skill", schedule: "a schedule", voice: "your voice", tool: "a tool" };

/** Who started a run. */
export const callerWord = (caller: string): string => callers[caller] ?? caller;

const fields: Record<string, string> = {
  code: "Code",
  language: "Language",
  parameters: "Parameters",
  description: "Description",
  capabilities: "Capabilities",
  sandboxProfile: "Profile",
  limits: "Limits",
  name: "Name",
  icon: "Icon",
  tags: "Tags",
  wasmBytecode: "Module",
  abi: "ABI",
  inputSchema: "Input",
};

/** Name of a field of a definition. */
export const fieldWord = (name: string): string => fields[name] ?? name;

/** A place in a definition, such as `/parameters/required/0`. */
export function pathWords(path: string): string {
  const [field = "", ...rest] = path.split("/").filter(Boolean);
  return [field === "" ? "Definition" : fieldWord(field), ...rest].join(" › ");
}
