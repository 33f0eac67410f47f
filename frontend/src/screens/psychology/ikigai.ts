/** Positions of entries in the four circles of ikigai: a text in several circles is placed where they overlap. */
import { overlap, type Box, type Spot } from "../../lib/chart/geometry";

export const quadrants = ["love", "good", "need", "paid"] as const;
export type Quadrant = (typeof quadrants)[number];

export interface Circle extends Spot {
  r: number;
}

/**
 * The four circles in a square of the given size: love at the top, skills on the left, needs on the right,
 * paid work at the bottom.
 */
export function circles(size: number): Record<Quadrant, Circle> {
  const m = size / 2;
  const r = 0.3 * size;
  const d = 0.19 * size;
  return { love: { x: m, y: m - d, r }, good: { x: m - d, y: m, r }, need: { x: m + d, y: m, r }, paid: { x: m, y: m + d, r } };
}

/** Entries in the same circles whose texts differ only in case and spaces. */
export interface Group<E> {
  key: string;
  text: string;
  in: readonly Quadrant[];
  entries: readonly E[];
}

const opposite: readonly (readonly Quadrant[])[] = [
  ["love", "paid"],
  ["good", "need"],
];

/**
 * Entries grouped by their text. Opposite circles have no overlap of their own: a text only in these two is
 * shown in each.
 */
export function groups<E>(entries: readonly E[], of: (e: E) => { quadrant: string; text: string }): Group<E>[] {
  const byText = new Map<string, E[]>();
  for (const e of entries) {
    const key = of(e).text.trim().replace(/\s+/g, " ").toLowerCase();
    byText.set(key, [...(byText.get(key) ?? []), e]);
  }
  return [...byText].flatMap(([key, list]) => {
    const held = quadrants.filter((q) => list.some((e) => of(e).quadrant === q));
    const one = (circles: readonly Quadrant[], entries: readonly E[]): Group<E> => ({ key: `${key} ${circles.join()}`, text: of(entries[0]!).text.trim(), in: circles, entries });
    if (!opposite.some((pair) => pair.length === held.length && pair.every((q) => held.includes(q)))) return [one(held, list)];
    return held.map((q) => one([q], list.filter((e) => of(e).quadrant === q)));
  });
}

/** Whether a box is inside all these circles and touches no other. */
export function fits(b: Box, held: readonly Quadrant[], all: Record<Quadrant, Circle>): boolean {
  const corners = [b, { x: b.x + b.w, y: b.y }, { x: b.x, y: b.y + b.h }, { x: b.x + b.w, y: b.y + b.h }];
  return quadrants.every((q) => {
    const c = all[q];
    if (held.includes(q)) return corners.every((p) => Math.hypot(p.x - c.x, p.y - c.y) <= c.r - 3);
    // The nearest point of the box is outside.
    return Math.hypot(Math.max(b.x, Math.min(c.x, b.x + b.w)) - c.x, Math.max(b.y, Math.min(c.y, b.y + b.h)) - c.y) >= c.r;
  });
}

export interface Wanted {
  in: readonly Quadrant[];
  /** The possible sizes, best first. */
  sizes: readonly { w: number; h: number }[];
  /** The preferred position; default: the middle of its region. */
  near?: Spot;
}
export interface Placed extends Box {
  /** The index of the chosen size. */
  size: number;
}

const step = 4;
const gap = 3;

/** The points of a grid that are in these circles and in no other. */
export function region(held: readonly Quadrant[], all: Record<Quadrant, Circle>, size: number): Spot[] {
  const out: Spot[] = [];
  for (let y = 0; y <= size; y += step)
    for (let x = 0; x <= size; x += step) if (quadrants.every((q) => held.includes(q) === ((x - all[q].x) ** 2 + (y - all[q].y) ** 2 < all[q].r ** 2))) out.push({ x, y });
  return out;
}

export const middleOf = (spots: readonly Spot[]): Spot => ({ x: spots.reduce((sum, s) => sum + s.x, 0) / Math.max(1, spots.length), y: spots.reduce((sum, s) => sum + s.y, 0) / Math.max(1, spots.length) });

/** Positions in order, without overlaps. A box that does not fit even at its smallest size has none. */
export function placeAll(wanted: readonly Wanted[], all: Record<Quadrant, Circle>, size: number): (Placed | null)[] {
  const taken: Box[] = [];
  const regions = new Map<string, Spot[]>();
  return wanted.map((item) => {
    const key = item.in.join();
    const spots = regions.get(key) ?? region(item.in, all, size);
    regions.set(key, spots);
    const middle = item.near ?? middleOf(spots);
    for (let s = 0; s < item.sizes.length; s++) {
      const { w, h } = item.sizes[s]!;
      let best: Placed | null = null;
      let nearest = Infinity;
      for (const c of spots) {
        const away = Math.hypot(c.x - middle.x, c.y - middle.y);
        if (away >= nearest) continue;
        const b = { x: c.x - w / 2, y: c.y - h / 2, w, h };
        if (!fits(b, item.in, all) || taken.some((o) => overlap({ x: b.x - gap, y: b.y - gap, w: w + 2 * gap, h: h + 2 * gap }, o))) continue;
        [best, nearest] = [{ ...b, size: s }, away];
      }
      if (best) {
        taken.push(best);
        return best;
      }
    }
    return null;
  });
}

/** A text in at most the given number of lines of a width; truncated text ends in "…". */
export function wrap(text: string, width: number, lines: number, measure: (s: string) => number): string[] {
  const out: string[] = [];
  let line = "";
  const words = text.split(/\s+/).filter((s) => s !== "");
  for (let i = 0; i < words.length; i++) {
    const longer = line === "" ? words[i]! : `${line} ${words[i]!}`;
    if (line === "" || measure(longer) <= width) line = longer;
    else {
      out.push(line);
      line = words[i]!;
    }
    if (out.length === lines) {
      line = "";
      out[lines - 1] = `${out[lines - 1]!} …`;
      break;
    }
  }
  if (line !== "") out.push(line);
  return out.map((l) => {
    if (measure(l) <= width) return l;
    let short = l.replace(/ …$/, "");
    while (short.length > 1 && measure(`${short}…`) > width) short = short.slice(0, -1);
    return `${short.trimEnd()}…`;
  });
}
