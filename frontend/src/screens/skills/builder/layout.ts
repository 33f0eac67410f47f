/**
 * The positions of a skill's steps: a vertical flow, with the arms of a branch side by side and the body of a
 * map below it. Pure, and linear in the number of steps.
 */
import { armsOf, type Arm } from "./steps";
import type { Skill, Step } from "./types";

export const SIZE = {
  width: 232,
  height: 52,
  /** Between two steps. */
  gap: 36,
  /** Padding of a group around its steps: at the sides, and above and below. */
  pad: 16,
  inset: 26,
  head: 28,
  /** Between two arms. */
  arms: 20,
  /** Height of an arm without steps. */
  empty: 34,
  /** The first and the last node. */
  end: 30,
  endWidth: 80,
} as const;

export interface Box {
  id: string;
  kind: "start" | "end" | "step" | "group" | "empty";
  x: number;
  y: number;
  width: number;
  height: number;
  depth: number;
  step?: Step;
  arm?: Arm;
}

/** A line of the flow, from the bottom of one box to the top of another. */
export interface Line {
  id: string;
  x1: number;
  y1: number;
  x2: number;
  y2: number;
  /** The bend: diverging lines bend after their start, converging lines before their end. */
  bend: "early" | "late";
}

/** A point of the flow where a step can be inserted. */
export interface Gap {
  list: string;
  index: number;
  x: number;
  y: number;
}

export interface Layout {
  boxes: Box[];
  lines: Line[];
  gaps: Gap[];
  width: number;
  height: number;
  byId: ReadonlyMap<string, Box>;
}

interface Measured {
  width: number;
  height: number;
  steps: { width: number; height: number; step: Step; path: string; arms: { arm: Arm; inner: Measured; width: number; height: number }[] }[];
}

function measure(steps: readonly Step[], list: string): Measured {
  let width: number = SIZE.width;
  let height = 0;
  const out: Measured["steps"] = [];
  steps.forEach((step, i) => {
    const path = `${list}[${i}]`;
    const arms = armsOf(step, path).map((arm) => {
      const inner = measure(arm.steps, arm.path);
      return { arm, inner, width: inner.width + 2 * SIZE.pad, height: SIZE.head + (arm.steps.length === 0 ? SIZE.empty + SIZE.pad : inner.height + SIZE.inset * 2) };
    });
    let w: number = SIZE.width;
    let h: number = SIZE.height;
    if (arms.length > 0) {
      w = Math.max(w, arms.reduce((sum, a) => sum + a.width, 0) + SIZE.arms * (arms.length - 1));
      h += SIZE.gap + Math.max(...arms.map((a) => a.height));
    }
    out.push({ width: w, height: h, step, path, arms });
    width = Math.max(width, w);
    height += h + (i > 0 ? SIZE.gap : 0);
  });
  return { width, height, steps: out };
}

/** Computes the positions of all steps, groups and lines. The flow is centered at x = 0 and goes down from y = 0. */
export function layout(skill: Skill): Layout {
  const boxes: Box[] = [];
  const lines: Line[] = [];
  const gaps: Gap[] = [];
  const all = measure(skill.steps, "steps");

  /** Lays out a list from `y`; `from` are the points that lead into it. Returns the points that lead out. */
  const draw = (m: Measured, list: string, cx: number, y: number, depth: number, from: Point[]): Point[] => {
    let open = from;
    m.steps.forEach((s, i) => {
      open.forEach((p, k) => lines.push(line(`${list}[${i}]<${k}`, p, cx, y, open.length > 1)));
      if (i > 0) gaps.push({ list, index: i, x: cx, y: y - SIZE.gap / 2 });
      boxes.push({ id: s.path, kind: "step", x: cx - SIZE.width / 2, y, width: SIZE.width, height: SIZE.height, depth, step: s.step });
      const foot = { x: cx, y: y + SIZE.height };
      open = [foot];
      if (s.arms.length > 0) {
        const top = foot.y + SIZE.gap;
        const row = s.arms.reduce((sum, a) => sum + a.width, 0) + SIZE.arms * (s.arms.length - 1);
        let x = cx - row / 2;
        open = [];
        for (const a of s.arms) {
          const mid = x + a.width / 2;
          const { path } = a.arm;
          boxes.push({ id: `group:${path}`, kind: "group", x, y: top, width: a.width, height: a.height, depth, arm: a.arm });
          lines.push({ id: `${path}<`, x1: foot.x, y1: foot.y, x2: mid, y2: top, bend: "early" });
          const head = top + SIZE.head;
          if (a.arm.steps.length === 0) {
            boxes.push({ id: path, kind: "empty", x: mid - SIZE.width / 2, y: head, width: SIZE.width, height: SIZE.empty, depth: depth + 1, arm: a.arm });
          } else {
            gaps.push({ list: path, index: 0, x: mid, y: head + SIZE.inset / 2 });
            const ends = draw(a.inner, path, mid, head + SIZE.inset, depth + 1, [{ x: mid, y: head }]);
            const floor = top + a.height;
            ends.forEach((p, k) => lines.push(line(`${path}>${k}`, p, mid, floor, ends.length > 1)));
            gaps.push({ list: path, index: a.arm.steps.length, x: mid, y: floor - SIZE.inset / 2 });
          }
          open.push({ x: mid, y: top + a.height });
          x += a.width + SIZE.arms;
        }
      }
      y += s.height + SIZE.gap;
    });
    return open;
  };

  boxes.push({ id: "start", kind: "start", x: -SIZE.endWidth / 2, y: 0, width: SIZE.endWidth, height: SIZE.end, depth: 0 });
  const ends = draw(all, "steps", 0, SIZE.end + SIZE.gap, 0, [{ x: 0, y: SIZE.end }]);
  if (skill.steps.length > 0) gaps.push({ list: "steps", index: 0, x: 0, y: SIZE.end + SIZE.gap / 2 });
  const foot = SIZE.end + SIZE.gap + (skill.steps.length > 0 ? all.height + SIZE.gap : 0);
  ends.forEach((p, k) => lines.push(line(`end<${k}`, p, 0, foot, ends.length > 1)));
  gaps.push({ list: "steps", index: skill.steps.length, x: 0, y: foot - SIZE.gap / 2 });
  boxes.push({ id: "end", kind: "end", x: -SIZE.endWidth / 2, y: foot, width: SIZE.endWidth, height: SIZE.end, depth: 0 });
  return { boxes, lines, gaps, width: all.width, height: foot + SIZE.end, byId: new Map(boxes.map((b) => [b.id, b])) };
}

interface Point {
  x: number;
  y: number;
}

function line(id: string, from: Point, x: number, y: number, meets: boolean): Line {
  return { id, x1: from.x, y1: from.y, x2: x, y2: y, bend: meets ? "late" : "early" };
}

/** A line as the `d` of an SVG path: straight down, or with two rounded bends. */
export function pathOf(l: Line): string {
  if (Math.abs(l.x1 - l.x2) < 1) return `M${l.x1} ${l.y1}V${l.y2}`;
  const half = Math.min(SIZE.gap, l.y2 - l.y1) / 2;
  const mid = l.bend === "late" ? l.y2 - half : l.y1 + half;
  const r = Math.min(8, half, Math.abs(l.x2 - l.x1) / 2);
  const dir = Math.sign(l.x2 - l.x1);
  return `M${l.x1} ${l.y1}V${mid - r}Q${l.x1} ${mid} ${l.x1 + dir * r} ${mid}H${l.x2 - dir * r}Q${l.x2} ${mid} ${l.x2} ${mid + r}V${l.y2}`;
}

/** A curve beside the flow from a step to one that uses its output. */
export function referencePath(from: Box, to: Box): string {
  const x1 = from.x + from.width;
  const y1 = from.y + from.height / 2;
  const x2 = to.x + to.width;
  const y2 = to.y + to.height / 2;
  const out = Math.max(x1, x2) + 28 + Math.min(56, Math.abs(y2 - y1) / 12);
  return `M${x1} ${y1}C${out} ${y1} ${out} ${y2} ${x2 + 6} ${y2}`;
}

/** Lines with a part between two heights. */
export function linesWithin(lines: readonly Line[], top: number, bottom: number): Line[] {
  return lines.filter((l) => l.y2 >= top && l.y1 <= bottom);
}
