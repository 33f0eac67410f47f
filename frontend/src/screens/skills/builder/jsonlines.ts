/** The positions of the values in a JSON text, by the paths used in problems. */
import { memberPath } from "./expressions";

export interface Spot {
  line: number;
  column: number;
  endLine: number;
  endColumn: number;
}

/** Finds all values in a JSON text. For an invalid text it returns those before the error. */
export function locate(text: string): Map<string, Spot> {
  const spots = new Map<string, Spot>();
  const starts = [0];
  for (let i = text.indexOf("\n"); i >= 0; i = text.indexOf("\n", i + 1)) starts.push(i + 1);
  const at = (pos: number): [number, number] => {
    let lo = 0;
    let hi = starts.length - 1;
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1;
      if (starts[mid]! <= pos) lo = mid;
      else hi = mid - 1;
    }
    return [lo + 1, pos - starts[lo]! + 1];
  };
  let i = 0;
  const space = (): void => {
    while (i < text.length && /\s/.test(text[i]!)) i++;
  };
  const string = (): string | null => {
    const from = i;
    for (i++; i < text.length && text[i] !== '"'; i++) if (text[i] === "\\") i++;
    i++;
    try {
      return JSON.parse(text.slice(from, i)) as string;
    } catch {
      return null;
    }
  };
  const value = (path: string, keyAt: number): boolean => {
    space();
    const from = i;
    let ok = true;
    const c = text[i];
    if (c === "{") {
      i++;
      for (space(); ok && text[i] !== "}"; space()) {
        if (text[i] !== '"') return false;
        const key = i;
        const name = string();
        space();
        if (name === null || text[i] !== ":") return false;
        i++;
        ok = value(path === "" ? memberPath(name).replace(/^\./, "") : path + memberPath(name), key);
        space();
        if (text[i] === ",") i++;
        else if (text[i] !== "}") return false;
      }
      i++;
    } else if (c === "[") {
      i++;
      let n = 0;
      for (space(); ok && text[i] !== "]"; space()) {
        ok = value(`${path}[${n++}]`, -1);
        space();
        if (text[i] === ",") i++;
        else if (text[i] !== "]") return false;
      }
      i++;
    } else if (c === '"') ok = string() !== null;
    else {
      const m = /[-+.\w]+/y;
      m.lastIndex = i;
      if (!m.test(text)) return false;
      i = m.lastIndex;
    }
    // A long value is marked at its name, or where it opens; a short one as a whole.
    const [line, column] = at(keyAt >= 0 ? keyAt : from);
    const [endLine, endColumn] = at(c === "{" || c === "[" ? (keyAt >= 0 ? text.indexOf(":", keyAt) : from + 1) : i);
    spots.set(path, { line, column, endLine, endColumn });
    return ok;
  };
  value("", -1);
  return spots;
}

/** The position of a path, or of the nearest enclosing one in the text. */
export function spotOf(spots: ReadonlyMap<string, Spot>, path: string): Spot {
  for (let p = path; p !== ""; ) {
    const s = spots.get(p);
    if (s) return s;
    const cut = Math.max(p.lastIndexOf("."), p.lastIndexOf("["));
    p = cut > 0 ? p.slice(0, cut) : "";
  }
  return spots.get("") ?? { line: 1, column: 1, endLine: 1, endColumn: 2 };
}
