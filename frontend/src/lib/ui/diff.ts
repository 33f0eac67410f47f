/** One line of a side-by-side view; "" with number 0 where a side has nothing. */
export interface DiffRow {
  kind: "same" | "change" | "add" | "remove";
  left: string;
  leftNo: number;
  right: string;
  rightNo: number;
}

const maxCells = 4_000_000;

/** Compares two texts line by line (longest common subsequence). Very large middles are shown as replaced. */
export function diffLines(a: string, b: string): DiffRow[] {
  const x = a === "" ? [] : a.split("\n");
  const y = b === "" ? [] : b.split("\n");
  let head = 0;
  while (head < x.length && head < y.length && x[head] === y[head]) head++;
  let tail = 0;
  while (tail < x.length - head && tail < y.length - head && x[x.length - 1 - tail] === y[y.length - 1 - tail]) tail++;

  const rows: DiffRow[] = [];
  const same = (i: number, j: number): void => {
    rows.push({ kind: "same", left: x[i]!, leftNo: i + 1, right: y[j]!, rightNo: j + 1 });
  };
  for (let i = 0; i < head; i++) same(i, i);
  middle(x, y, head, x.length - tail, y.length - tail, rows, same);
  for (let i = tail; i > 0; i--) same(x.length - i, y.length - i);
  return rows;
}

function middle(
  x: string[],
  y: string[],
  from: number,
  xEnd: number,
  yEnd: number,
  rows: DiffRow[],
  same: (i: number, j: number) => void,
): void {
  const n = xEnd - from;
  const m = yEnd - from;
  const removed: number[] = [];
  const added: number[] = [];
  // Removed and added lines next to each other are shown as changed lines.
  const flush = (): void => {
    for (let k = 0; k < Math.max(removed.length, added.length); k++) {
      const l = removed[k];
      const r = added[k];
      rows.push({
        kind: l !== undefined && r !== undefined ? "change" : l !== undefined ? "remove" : "add",
        left: l === undefined ? "" : x[l]!,
        leftNo: l === undefined ? 0 : l + 1,
        right: r === undefined ? "" : y[r]!,
        rightNo: r === undefined ? 0 : r + 1,
      });
    }
    removed.length = 0;
    added.length = 0;
  };
  if (n * m > maxCells) {
    for (let i = from; i < xEnd; i++) removed.push(i);
    for (let j = from; j < yEnd; j++) added.push(j);
    flush();
    return;
  }
  const width = m + 1;
  const lengths = new Uint32Array((n + 1) * width);
  for (let i = n - 1; i >= 0; i--) {
    for (let j = m - 1; j >= 0; j--) {
      lengths[i * width + j] =
        x[from + i] === y[from + j]
          ? lengths[(i + 1) * width + j + 1]! + 1
          : Math.max(lengths[(i + 1) * width + j]!, lengths[i * width + j + 1]!);
    }
  }
  let i = 0;
  let j = 0;
  while (i < n && j < m) {
    if (x[from + i] === y[from + j]) {
      flush();
      same(from + i++, from + j++);
    } else if (lengths[(i + 1) * width + j]! >= lengths[i * width + j + 1]!) removed.push(from + i++);
    else added.push(from + j++);
  }
  while (i < n) removed.push(from + i++);
  while (j < m) added.push(from + j++);
  flush();
}

/** Rows in which long unchanged parts are replaced by a number of hidden lines. */
export function fold(rows: DiffRow[], context = 3): (DiffRow | { hidden: number })[] {
  const near = rows.map(() => false);
  rows.forEach((r, i) => {
    if (r.kind === "same") return;
    for (let k = Math.max(0, i - context); k <= Math.min(rows.length - 1, i + context); k++) near[k] = true;
  });
  const out: (DiffRow | { hidden: number })[] = [];
  let hidden = 0;
  rows.forEach((r, i) => {
    if (near[i]) {
      if (hidden > 0) out.push({ hidden });
      hidden = 0;
      out.push(r);
    } else hidden++;
  });
  if (hidden > 0) out.push({ hidden });
  return out;
}
