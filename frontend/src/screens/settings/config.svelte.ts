import { choose, shipped } from "../../lib/i18n";
import { asError, type Rpc } from "../../lib/rpc";
import { Load } from "../../lib/ui/state";
import { t } from "./messages";

/** One setting with all data of its row. */
export interface Setting {
  key: string;
  label: string;
  help: string;
  type: "boolean" | "integer" | "string" | "array";
  unit: string;
  enum: readonly string[];
  range: string;
  env: string;
  restart: boolean;
  default: unknown;
  value: unknown;
  source: string;
}

interface Property {
  type?: string;
  description?: string;
  default?: unknown;
  enum?: string[];
  "x-unit"?: string;
  "x-env"?: string;
  "x-range"?: string;
  "x-restart"?: boolean;
}

/** "history.max_age_days" → "Max age". The unit is shown next to the value. */
export function labelOf(key: string): string {
  if (t.labels[key]) return t.labels[key];
  const words = key
    .split(".")
    .slice(1)
    .join(" ")
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replace(/_(ms|s|days|hours|bytes)$/, "")
    .replaceAll("_", " ")
    .toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The unit of a value, in the matching plural form. */
export const unitWord = (unit: string, value: unknown): string => (t.units[unit] ? choose(Number(value), t.units[unit]) : unit);

/** The text of a value in its field: sizes with their unit, lists with one item per line. */
export function shown(s: Pick<Setting, "type" | "unit">, value: unknown): string {
  if (Array.isArray(value)) return value.join("\n");
  if (s.type === "integer" && s.unit === "bytes" && typeof value === "number") {
    // Only a form that is parsed to the same number.
    for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]] as const) {
      if (value >= size && value % size === 0) return `${value / size} ${unit}`;
    }
    return String(value);
  }
  return value === null || value === undefined ? "" : String(value);
}

/** Parses the user's input for `config.set`. */
export function written(s: Pick<Setting, "type">, text: string): unknown {
  const value = text.trim();
  if (s.type === "array") return value.split(/[\n,]/).map((x) => x.trim()).filter(Boolean);
  return s.type === "integer" && /^-?\d+$/.test(value) ? Number(value) : value;
}

/** The label of a choice of a setting; without one it is shown unchanged. */
export const choiceWord = (key: string, value: string): string => t.choices[key]?.[value] ?? value;

/** The source of a value that cannot be changed here, or "". */
export function fixedBy(s: Pick<Setting, "source" | "env">): string {
  if (s.source === "environment") return t.setByVariable(s.env);
  if (s.source === ".env" || s.source === "dotenv") return t.setByDotenv(s.env);
  return s.source === "flag" ? t.setByFlag : "";
}

/** All settings with their values, sources and problems. One instance feeds every page. */
export class ConfigState {
  readonly schema = new Load<Record<string, Property>>();
  readonly values = new Load<{ values: Record<string, unknown>; sources: Record<string, string> }>();
  /** Keys changed since the page was opened that take effect after a restart. */
  restart = $state.raw<readonly string[]>([]);
  problems = $state.raw<Readonly<Record<string, string>>>({});
  saving = $state("");
  saved = $state("");
  #rpc: Rpc;
  #off: (() => void)[];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.#off = [rpc.on("config.changed", () => void this.#values()), rpc.onReload(() => void this.load())];
  }

  stop(): void {
    clearTimeout(this.#timer);
    for (const off of this.#off) off();
  }

  async load(): Promise<void> {
    await Promise.all([
      this.schema.run(async (signal) => {
        const schema = (await this.#rpc.call("config.schema", {}, { signal })) as unknown as { properties: Record<string, Property> };
        return schema.properties;
      }),
      this.#values(),
    ]);
  }

  #values(): Promise<void> {
    return this.values.run(async (signal) => {
      const r = await this.#rpc.call("config.get", {}, { signal });
      return { values: r.values as Record<string, unknown>, sources: r.sources as Record<string, string> };
    });
  }

  get all(): Setting[] {
    const schema = this.schema.data;
    const values = this.values.data;
    if (!schema || !values) return [];
    return Object.entries(schema).map(([key, p]) => ({
      key,
      label: labelOf(key),
      help: shipped(p.description ?? ""),
      type: (p.type ?? "string") as Setting["type"],
      unit: p["x-unit"] ?? "",
      enum: p.enum ?? [],
      range: p["x-range"] ?? "",
      env: p["x-env"] ?? "",
      restart: p["x-restart"] === true,
      default: p.default,
      value: values.values[key],
      source: values.sources[key] ?? "default",
    }));
  }

  /** The settings with these keys, in this order; unknown ones are omitted. */
  pick(keys: readonly string[]): Setting[] {
    const all = new Map(this.all.map((s) => [s.key, s]));
    return keys.map((k) => all.get(k)).filter((s): s is Setting => s !== undefined);
  }

  /** Settings grouped by the first part of their key, filtered. */
  groups(query: string): { name: string; settings: Setting[] }[] {
    const q = query.trim().toLowerCase();
    const map = new Map<string, Setting[]>();
    for (const s of this.all) {
      if (q && !`${s.key} ${s.label} ${s.help} ${s.env}`.toLowerCase().includes(q)) continue;
      const name = s.key.split(".")[0]!;
      map.set(name, [...(map.get(name) ?? []), s]);
    }
    return [...map].map(([name, settings]) => ({ name, settings }));
  }

  /** Writes one setting; `null` resets it to the default. Returns false if it was refused. */
  async set(key: string, value: unknown): Promise<boolean> {
    this.saving = key;
    try {
      const r = await this.#rpc.call("config.set", { values: { [key]: value } as never });
      this.restart = [...new Set([...this.restart, ...r.restart])];
      const { [key]: _, ...rest } = this.problems;
      this.problems = rest;
      await this.#values();
      this.saved = key;
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => (this.saved = ""), 2000);
      return true;
    } catch (e) {
      this.problems = { ...this.problems, [key]: asError(e).message };
      return false;
    } finally {
      this.saving = "";
    }
  }
}
