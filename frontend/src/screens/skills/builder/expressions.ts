/** Paths in expressions: which steps they use, and renaming them. Texts are never evaluated here. */
import { t } from "./messages";
import type { Step } from "./types";

/** One use of a name at the start of a path. */
export interface Use {
  /** The member after `$`, or after `$.steps`. */
  name: string;
  /** The position of the name in the text, including its quotes. */
  start: number;
  end: number;
  quoted: boolean;
}

const MEMBER = /\s*(?:\.([A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)|\[\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*\])/y;

function member(text: string, at: number): Use | null {
  MEMBER.lastIndex = at;
  const m = MEMBER.exec(text);
  if (!m) return null;
  const end = MEMBER.lastIndex;
  if (m[1] !== undefined) return { name: m[1], start: end - m[1].length, end, quoted: false };
  const name = (m[2] ?? m[3] ?? "").replace(/\\(.)/g, "$1");
  const open = text.indexOf(m[2] !== undefined ? "'" : '"', at);
  return { name, start: open, end: text.lastIndexOf(m[2] !== undefined ? "'" : '"', end) + 1, quoted: true };
}

/** The names at the start of the paths in a text. Quoted text is not a path. */
export function usesIn(text: string): Use[] {
  const out: Use[] = [];
  let quote = "";
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (quote !== "") {
      if (c === "\\") i++;
      else if (c === quote) quote = "";
      continue;
    }
    if (c === "'" || c === '"') quote = c;
    if (c !== "$") continue;
    let m = member(text, i + 1);
    if (m?.name === "steps") m = member(text, m.end + (m.quoted ? text.slice(m.end).indexOf("]") + 1 : 0)) ?? m;
    if (m) {
      out.push(m);
      i = m.end - 1;
    }
  }
  return out;
}

/** Visits the paths of a template: strings that start with one `$`, and `$path` operators. */
function templateTexts(v: unknown, visit: (text: string) => string): unknown {
  if (typeof v === "string") return v.startsWith("$") && !v.startsWith("$$") ? visit(v) : v;
  if (Array.isArray(v)) return v.map((x) => templateTexts(x, visit));
  if (v === null || typeof v !== "object") return v;
  const o = v as Record<string, unknown>;
  if ("$literal" in o) return v;
  const out: Record<string, unknown> = {};
  for (const [k, x] of Object.entries(o)) out[k] = k === "default" && "$path" in o ? x : templateTexts(x, visit);
  return out;
}

/** A step with `visit` applied to each of its expressions, including those of steps inside it. */
export function mapExpressions(step: Step, visit: (text: string) => string): Step {
  const out: Step = { ...step };
  const text = (v: string | undefined): string | undefined => (typeof v === "string" ? visit(v) : v);
  const tmpl = (v: unknown): unknown => templateTexts(v, visit);
  if (out.condition !== undefined) out.condition = text(out.condition)!;
  if (out.items !== undefined) out.items = text(out.items)!;
  if (out.inputMapping) out.inputMapping = tmpl(out.inputMapping) as Record<string, unknown>;
  if (out.value !== undefined) out.value = tmpl(out.value);
  if (out.title !== undefined) out.title = tmpl(out.title);
  if (out.message !== undefined) out.message = tmpl(out.message);
  if (Array.isArray(out.show)) out.show = out.show.map((s) => text(s)!);
  if (Array.isArray(out.cases)) out.cases = out.cases.map((c) => ({ ...c, when: text(c.when) ?? "", steps: c.steps.map((s) => mapExpressions(s, visit)) }));
  if (Array.isArray(out.steps)) out.steps = out.steps.map((s) => mapExpressions(s, visit));
  if (Array.isArray(out.else)) out.else = out.else.map((s) => mapExpressions(s, visit));
  return out;
}

function renameIn(text: string, was: string, now: string): string {
  let out = "";
  let at = 0;
  for (const u of usesIn(text)) {
    if (u.name !== was) continue;
    const plain = /^[A-Za-z_][A-Za-z0-9_]*$/.test(now);
    // A name with a dash needs brackets; existing brackets are kept.
    if (u.quoted) out += text.slice(at, u.start) + `'${now}'`;
    else if (plain) out += text.slice(at, u.start) + now;
    else out += text.slice(at, u.start).replace(/\.\s*$/, "") + `['${now}']`;
    at = u.end;
  }
  return out + text.slice(at);
}

/** Renames the references to an id in a step and the steps inside it. The id itself does not change. */
export function renameStep(step: Step, was: string, now: string): Step {
  return mapExpressions(step, (t) => renameIn(t, was, now));
}

/** A template with one id renamed. */
export function renameInTemplate(v: unknown, was: string, now: string): unknown {
  return templateTexts(v, (t) => renameIn(t, was, now));
}

/** The names that a step's own expressions start with, without those of steps inside it. */
export function namesUsed(step: Step): ReadonlySet<string> {
  let names = known.get(step);
  if (!names) known.set(step, (names = readNames(step)));
  return names;
}

/** Steps are immutable, so the names that one uses are computed once. */
const known = new WeakMap<Step, ReadonlySet<string>>();

function readNames(step: Step): ReadonlySet<string> {
  const names = new Set<string>();
  mapExpressions({ ...step, steps: undefined, else: undefined, cases: step.cases?.map((c) => ({ ...c, steps: [] })) } as Step, (t) => {
    for (const u of usesIn(t)) names.add(u.name);
    return t;
  });
  return names;
}

/** The names at the start of the paths in a template. */
export function namesInTemplate(v: unknown): Set<string> {
  const names = new Set<string>();
  templateTexts(v, (t) => {
    for (const u of usesIn(t)) names.add(u.name);
    return t;
  });
  return names;
}

/** `.name`, or `['na-me']` if the name needs quotes. */
export function memberPath(name: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? `.${name}` : `['${name.replace(/\\/g, "\\\\").replace(/'/g, "\\'")}']`;
}

/** The text of a mapping in its field: a path unchanged, anything else as JSON. */
export function showTemplate(v: unknown): string {
  if (v === undefined) return "";
  return typeof v === "string" && v.startsWith("$") ? v : (JSON.stringify(v) ?? "");
}

/** Parses a typed mapping. Undefined clears it; an error is in words. */
export function readTemplate(text: string): { value: unknown; error: string } {
  const source = text.trim();
  if (source === "") return { value: undefined, error: "" };
  if (source.startsWith("$")) return { value: source, error: "" };
  try {
    return { value: JSON.parse(source) as unknown, error: "" };
  } catch {
    return { value: undefined, error: t.templateError };
  }
}

/** The text of a template in a field for plain text. */
export function showText(v: unknown): string {
  return v === undefined ? "" : typeof v === "string" ? v : (JSON.stringify(v) ?? "");
}

/** Parses a field for plain text: a path if it starts with `$`, an operator if it is one, else literal text. */
export function readText(text: string): { value: unknown; error: string } {
  if (text === "") return { value: undefined, error: "" };
  if (!/^\s*\{/.test(text)) return { value: text, error: "" };
  try {
    return { value: JSON.parse(text) as unknown, error: "" };
  } catch {
    return { value: text, error: "" };
  }
}

/** Adds a default to the paths in a template that fail if they match nothing. */
export function withDefault(v: unknown, fallback: unknown): unknown {
  return typeof v === "string" && v.startsWith("$") && !v.startsWith("$$") ? { $path: v, default: fallback } : v;
}
