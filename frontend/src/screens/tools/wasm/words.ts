/** Texts about modules. */
import { t } from "./messages";

/** How a module is called. */
export const abiWords = (abi: string): string => t.abis[abi] ?? abi;

/** `sha256:ab…` without its prefix. */
export const hashOf = (address: string): string => address.replace(/^sha256:/, "");

/** The prefix of an import's module name in words, for people who read the list. */
export function importWords(name: string): string {
  if (name.startsWith("wasi_snapshot_preview1")) return t.importsWasi;
  if (/^helix([./]|$)/.test(name)) return t.importsHelix;
  return name.split(/[./]/)[0] ?? name;
}

/** Imports grouped by their module, each with its functions, in the order of the module. */
export function groupImports(imports: readonly string[]): { title: string; names: string[] }[] {
  const groups = new Map<string, string[]>();
  for (const full of imports) {
    const title = importWords(full);
    const list = groups.get(title) ?? [];
    const name = full.replace(/^[^./]*[./]/, "");
    if (!list.includes(name)) list.push(name);
    groups.set(title, list);
  }
  return [...groups].map(([title, names]) => ({ title, names }));
}

/** Pages of 64 KiB as bytes. */
export const pageBytes = (pages: number): number => pages * 65_536;

/** A name for a tool derived from the file name: "word_count-1.2.wasm" → "word count 1.2". */
export function nameFromFile(file: string): string {
  const base = file.replace(/^.*[\\/]/, "").replace(/\.wasm$/i, "");
  const clean = base.replace(/[_+]+/g, " ").replace(/[^\p{L}\p{N} .-]+/gu, " ").replace(/\s+/g, " ").trim();
  return clean.slice(0, 64) || "Skill";
}
