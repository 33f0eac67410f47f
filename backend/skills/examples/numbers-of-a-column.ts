// Adds up the numbers that stand in one column of a table.
interface Params {
  rows: (Record<string, unknown> | null)[];
  column: string;
}

export default function (params: Params) {
  const numbers: number[] = [];
  for (const row of params.rows) {
    const value = row?.[params.column];
    if (typeof value === "number") numbers.push(value);
  }
  const sum = numbers.reduce((a, b) => a + b, 0);
  return {
    column: params.column,
    count: numbers.length,
    sum,
    mean: numbers.length ? sum / numbers.length : null,
    min: numbers.length ? numbers.reduce((a, b) => Math.min(a, b)) : null,
    max: numbers.length ? numbers.reduce((a, b) => Math.max(a, b)) : null,
  };
}
