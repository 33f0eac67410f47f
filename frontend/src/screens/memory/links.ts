/** Links inside imported documents: `[[Ada]]`, `[[People/Ada#Gifts|her]]` and `[her](../People/Ada.md)`. */
import type { Rpc } from "../../lib/rpc";
import { readable } from "./rows";
import type { Doc } from "./types";

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};
const plainPath = (path: string): string => path.toLowerCase().replace(/\.(md|markdown)$/, "");

/** The path in a link, without its heading and its extension; "" for a link that only has a heading. */
export const linkPath = (target: string): string => plainPath(decoded(target.replace(/#.*$/, "")).trim().replaceAll("\\", "/").replace(/^(\.{0,2}\/)+/, ""));

/**
 * The document that a link refers to: the one whose path ends with it, else the one with this title. Of
 * several, the nearest to `from`.
 */
export function bestMatch<D extends Pick<Doc, "title" | "sourceUri">>(documents: readonly D[], path: string, from = ""): D | undefined {
  const near = (d: D): number => {
    const a = readable(d.sourceUri);
    const b = readable(from);
    let n = 0;
    while (n < a.length && a[n] === b[n]) n++;
    return n;
  };
  const byPath = documents.filter((d) => `/${plainPath(readable(d.sourceUri))}`.endsWith(`/${path}`));
  const found = byPath.length > 0 ? byPath : documents.filter((d) => d.title.toLowerCase() === path);
  return [...found].sort((a, b) => near(b) - near(a))[0];
}

/** Finds the document that a link refers to. `from` is the address of the document with the link. */
export async function resolveLink(rpc: Rpc, target: string, from = ""): Promise<Doc | undefined> {
  const path = linkPath(target);
  if (path === "") return undefined;
  const name = path.split("/").pop()!;
  // Addresses of files are encoded.
  for (const query of new Set([name, encodeURIComponent(name)])) {
    const { documents } = await rpc.call("memory.list_documents", { query, limit: 200 });
    const found = bestMatch(documents, path, from);
    if (found) return found;
  }
  return undefined;
}
