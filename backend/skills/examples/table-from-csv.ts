// Reads CSV with a header line: quotes as in RFC 4180, numbers as numbers.
interface Params {
  csv: string;
}

type Cell = string | number;

export default function (params: Params) {
  const lines = split(params.csv);
  const columns = lines.shift() ?? [];
  const rows = lines.map((line) => {
    const row: Record<string, Cell> = {};
    columns.forEach((name, i) => (row[name] = cell(line[i] ?? "")));
    return row;
  });
  return { columns, rows, count: rows.length };
}

function cell(text: string): Cell {
  return /^-?(0|[1-9]\d{0,14})(\.\d+)?$/.test(text) ? Number(text) : text;
}

function split(text: string): string[][] {
  const lines: string[][] = [];
  let line: string[] = [];
  let value = "";
  let quoted = false;
  const end = () => {
    line.push(value);
    if (line.length > 1 || line[0] !== "") lines.push(line);
    line = [];
    value = "";
  };
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') value += c;
      else if (text[i + 1] === '"') value += text[++i];
      else quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === ",") {
      line.push(value);
      value = "";
    } else if (c === "\n") end();
    else if (c !== "\r") value += c;
  }
  if (value !== "" || line.length > 0) end();
  return lines;
}
