// Splits a text into its lines, without empty and repeated ones.
interface Params {
  text: string;
}

export default function (params: Params) {
  const seen = new Set<string>();
  for (const line of params.text.split(/\r?\n/)) {
    const clean = line.replace(/^[\s*•-]+/, "").trim();
    if (clean !== "") seen.add(clean);
  }
  const lines = [...seen];
  return { lines, count: lines.length };
}
