// Turns CSV (RFC 4180: quotes, commas and line breaks inside quotes) into a list of objects.
interface Params {
  csv: string;
  separator: string;
  numbers: boolean;
}

export default function (params: Params) {
  const rows = parse(params.csv, params.separator);
  const header = rows.shift() ?? [];
  const items = rows.map((row) => {
    const item: Record<string, string | number> = {};
    header.forEach((name, i) => (item[name] = convert(row[i] ?? "", params.numbers)));
    return item;
  });
  return { columns: header, rows: items, count: items.length };
}

function convert(text: string, numbers: boolean): string | number {
  return numbers && /^-?(0|[1-9]\d*)(\.\d+)?$/.test(text) ? Number(text) : text;
}

function parse(text: string, separator: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') cell += text[++i];
      else quoted = false;
    } else if (c === '"') {
      quoted = true;
    } else if (c === separator) {
      row.push(cell);
      cell = "";
    } else if (c === "\n" || c === "\r") {
      if (c === "\r" && text[i + 1] === "\n") i++;
      row.push(cell);
      if (row.length > 1 || row[0] !== "") rows.push(row);
      row = [];
      cell = "";
    } else {
      cell += c;
    }
  }
  if (cell !== "" || row.length > 0) {
    row.push(cell);
    rows.push(row);
  }
  return rows;
}
