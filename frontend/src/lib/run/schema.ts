/** The JSON Schema of a tool's parameters as a form: for editing the schema and for filling it in. */

import { t } from "./messages";

/** A schema or any part of it. */
export type Schema = Record<string, unknown>;

/** The types that the form offers. */
export const FIELD_TYPES = ["string", "number", "integer", "boolean", "array", "object"] as const;
export type FieldType = (typeof FIELD_TYPES)[number];

/** One property of the schema as a row of the form. */
export interface SchemaField {
  /** Stays the same while the name is typed. */
  key: number;
  name: string;
  type: FieldType;
  required: boolean;
  description: string;
  /** The default as JSON text; empty means none. */
  default: string;
  /** Keywords that the form does not show; kept unchanged. */
  rest: Schema;
  /** False if the schema leaves the type open; it stays open until a type is chosen. */
  typed: boolean;
}

/** The part of a schema that the form can show. */
export interface SchemaForm {
  fields: SchemaField[];
  /** Why the form cannot edit this schema; empty if it can. */
  blocked: string;
}

const SHOWN = new Set(["type", "description", "default"]);

function isObject(v: unknown): v is Schema {
  return typeof v === "object" && v !== null && !Array.isArray(v);
}

/** Parses the JSON text of a schema. The error contains the position in words. */
export function parseSchema(text: string): { schema: Schema; error: "" } | { schema: null; error: string } {
  if (text.trim() === "") return { schema: { type: "object" }, error: "" };
  let v: unknown;
  try {
    v = JSON.parse(text);
  } catch (e) {
    return { schema: null, error: jsonError(text, e) };
  }
  if (!isObject(v)) return { schema: null, error: t.schema.object };
  return { schema: v, error: "" };
}

/** Describes where JSON text is invalid, by line and column if the engine reports them. */
export function jsonError(text: string, e: unknown): string {
  const message = e instanceof Error ? e.message : String(e);
  const pos = /position (\d+)/.exec(message);
  if (pos) {
    const before = text.slice(0, Number(pos[1]));
    const line = before.split("\n").length;
    const column = before.length - before.lastIndexOf("\n");
    return t.jsonAt(line, column);
  }
  return t.jsonYet;
}

let nextKey = 1;

/** A new, empty row with a name that is not taken. */
export function newField(taken: readonly SchemaField[]): SchemaField {
  const names = new Set(taken.map((f) => f.name));
  let name = "field";
  for (let i = 2; names.has(name); i++) name = `field${i}`;
  return { key: nextKey++, name, type: "string", required: false, description: "", default: "", rest: {}, typed: true };
}

/** Converts a schema to rows. Rows of the same name keep their key from `previous`, so the focus stays. */
export function toForm(schema: Schema, previous: readonly SchemaField[] = []): SchemaForm {
  const type = schema["type"];
  if (type !== undefined && type !== "object") {
    return { fields: [], blocked: t.schema.otherType(JSON.stringify(type)) };
  }
  const props = schema["properties"];
  if (props !== undefined && !isObject(props)) return { fields: [], blocked: t.schema.properties };
  const required = Array.isArray(schema["required"]) ? (schema["required"] as unknown[]) : [];
  const fields: SchemaField[] = [];
  for (const [name, raw] of Object.entries(props ?? {})) {
    if (!isObject(raw)) return { fields: [], blocked: t.schema.fieldObject(name) };
    const type = raw["type"];
    if (type !== undefined && !(FIELD_TYPES as readonly unknown[]).includes(type)) return { fields: [], blocked: t.schema.fieldType(name, JSON.stringify(type)) };
    const rest: Schema = {};
    for (const [k, v] of Object.entries(raw)) if (!SHOWN.has(k)) rest[k] = v;
    fields.push({
      key: previous.find((p) => p.name === name)?.key ?? nextKey++,
      name,
      type: (type as FieldType | undefined) ?? "string",
      required: required.includes(name),
      description: typeof raw["description"] === "string" ? raw["description"] : "",
      default: raw["default"] === undefined ? "" : JSON.stringify(raw["default"]),
      rest,
      typed: type !== undefined,
    });
  }
  return { fields, blocked: "" };
}

/** What is wrong with a row, in words; empty if it is valid. */
export function fieldProblem(field: SchemaField, all: readonly SchemaField[]): string {
  if (field.name.trim() === "") return t.schema.fieldName;
  if (all.some((f) => f.key !== field.key && f.name === field.name)) return t.schema.fieldTaken;
  if (field.default.trim() !== "") {
    const v = defaultValue(field);
    if (v === undefined) return t.schema.fieldDefault(field.type);
  }
  return "";
}

/** The default of a row as a value. Text may be written without quotes. Undefined if it does not match the type. */
export function defaultValue(field: Pick<SchemaField, "type" | "default">): unknown {
  const text = field.default.trim();
  if (text === "") return undefined;
  let v: unknown;
  try {
    v = JSON.parse(text);
  } catch {
    return field.type === "string" ? field.default : undefined;
  }
  if (field.type === "string") return typeof v === "string" ? v : field.default;
  return matches(field.type, v) ? v : undefined;
}

function matches(type: FieldType, v: unknown): boolean {
  switch (type) {
    case "string":
      return typeof v === "string";
    case "number":
      return typeof v === "number";
    case "integer":
      return typeof v === "number" && Number.isInteger(v);
    case "boolean":
      return typeof v === "boolean";
    case "array":
      return Array.isArray(v);
    case "object":
      return isObject(v);
  }
}

/** Writes the rows back into a schema and keeps everything else in it. */
export function fromForm(schema: Schema, fields: readonly SchemaField[]): Schema {
  const properties: Schema = {};
  for (const f of fields) {
    if (f.name.trim() === "" || f.name in properties) continue;
    const p: Schema = {};
    if (f.typed || f.type !== "string") p["type"] = f.type;
    if (f.description !== "") p["description"] = f.description;
    const d = defaultValue(f);
    if (d !== undefined) p["default"] = d;
    Object.assign(p, f.rest);
    properties[f.name] = p;
  }
  const required = fields.filter((f) => f.required && f.name in properties).map((f) => f.name);
  const out: Schema = {};
  let placed = false;
  for (const [k, v] of Object.entries(schema)) {
    if (k === "properties") {
      out[k] = properties;
      placed = true;
    } else if (k === "required") {
      if (required.length > 0) out[k] = required;
    } else out[k] = v;
  }
  if (out["type"] === undefined) out["type"] = "object";
  if (!placed && fields.length > 0) out["properties"] = properties;
  if (required.length > 0) out["required"] = required;
  return out;
}

/** The control for a parameter. */
export type ParamControl = "text" | "long" | "password" | "number" | "boolean" | "choice" | "json";

/** One parameter as a field of the run form. */
export interface ParamField {
  name: string;
  label: string;
  description: string;
  control: ParamControl;
  type: FieldType;
  required: boolean;
  /** The choices of an enum, as JSON texts. */
  choices: string[];
  default: unknown;
  min?: number;
  max?: number;
}

/** Whether a schema has no fields but accepts any object. */
export function takesAnything(schema: unknown): boolean {
  return paramFields(schema)?.length === 0 && (schema as { additionalProperties?: unknown } | null)?.additionalProperties !== false;
}

/** The form for filling in a schema; null if it must be written as JSON. */
export function paramFields(schema: unknown): ParamField[] | null {
  if (schema === null || schema === undefined) return [];
  if (!isObject(schema)) return null;
  if (schema["type"] !== undefined && schema["type"] !== "object") return null;
  for (const k of ["oneOf", "anyOf", "allOf", "$ref", "if", "patternProperties"]) if (schema[k] !== undefined) return null;
  const props = schema["properties"];
  if (props === undefined) return [];
  if (!isObject(props)) return null;
  const required = Array.isArray(schema["required"]) ? (schema["required"] as unknown[]) : [];
  const out: ParamField[] = [];
  for (const [name, raw] of Object.entries(props)) {
    const p: Schema = isObject(raw) ? raw : {};
    const type = (FIELD_TYPES as readonly unknown[]).includes(p["type"]) ? (p["type"] as FieldType) : "object";
    const choices = Array.isArray(p["enum"]) ? (p["enum"] as unknown[]).map((v) => JSON.stringify(v)) : [];
    const field: ParamField = {
      name,
      label: typeof p["title"] === "string" ? p["title"] : name,
      description: typeof p["description"] === "string" ? p["description"] : "",
      control: control(type, p, choices),
      type,
      required: required.includes(name),
      choices,
      default: p["default"],
    };
    if (typeof p["minimum"] === "number") field.min = p["minimum"];
    if (typeof p["maximum"] === "number") field.max = p["maximum"];
    out.push(field);
  }
  return out;
}

function control(type: FieldType, p: Schema, choices: string[]): ParamControl {
  if (choices.length > 0) return "choice";
  switch (type) {
    case "boolean":
      return "boolean";
    case "number":
    case "integer":
      return "number";
    case "string": {
      if (p["format"] === "password" || p["x-secret"] === true) return "password";
      const long = typeof p["maxLength"] === "number" ? p["maxLength"] > 200 : p["format"] === undefined;
      return long ? "long" : "text";
    }
    default:
      return "json";
  }
}

/** The initial value of a form: the defaults of the schema. */
export function startValue(fields: readonly ParamField[]): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const f of fields) if (f.default !== undefined) out[f.name] = f.default;
  return out;
}

/** Parameters without a field, for example of a sample that is older than the schema. */
export function extraParams(fields: readonly ParamField[], value: Record<string, unknown>): string[] {
  return Object.keys(value).filter((k) => !fields.some((f) => f.name === k));
}

/** Parses the text of a field. Undefined clears the parameter; an error is in words. */
export function readParam(field: ParamField, text: string): { value: unknown; error: string } {
  if (text === "" && (field.control !== "text" && field.control !== "long" && field.control !== "password")) return { value: undefined, error: "" };
  switch (field.control) {
    case "number": {
      const n = Number(text);
      if (!Number.isFinite(n)) return { value: undefined, error: t.number };
      if (field.type === "integer" && !Number.isInteger(n)) return { value: undefined, error: t.integer };
      if (field.min !== undefined && n < field.min) return { value: undefined, error: t.atLeast(field.min) };
      if (field.max !== undefined && n > field.max) return { value: undefined, error: t.atMost(field.max) };
      return { value: n, error: "" };
    }
    case "choice":
    case "json":
      try {
        const value: unknown = JSON.parse(text);
        if (field.control === "json" && field.type === "array" && !Array.isArray(value)) return { value: undefined, error: t.array };
        return { value, error: "" };
      } catch (e) {
        return { value: undefined, error: jsonError(text, e) };
      }
    default:
      return text === "" && !field.required ? { value: undefined, error: "" } : { value: text, error: "" };
  }
}

/** The text of a value in its field. */
export function showParam(field: ParamField, value: unknown): string {
  if (value === undefined) return "";
  if (field.control === "choice" || field.control === "json") return JSON.stringify(value, null, field.control === "json" ? 2 : undefined);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What is wrong with a JSON text; "" if it is valid or empty. */
export function jsonProblem(text: string): string {
  if (text.trim() === "") return "";
  try {
    JSON.parse(text);
    return "";
  } catch (e) {
    return jsonError(text, e);
  }
}
