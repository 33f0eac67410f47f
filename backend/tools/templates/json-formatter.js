// Checks JSON text and writes it again: indented, compact, or with its keys in order.
export default function (params) {
  let value;
  try {
    value = JSON.parse(params.json);
  } catch (e) {
    return { valid: false, error: e.message };
  }
  if (params.sortKeys) value = sorted(value);
  const indent = params.compact ? undefined : params.indent;
  return { valid: true, formatted: JSON.stringify(value, null, indent) };
}

function sorted(v) {
  if (Array.isArray(v)) return v.map(sorted);
  if (v === null || typeof v !== "object") return v;
  return Object.fromEntries(Object.keys(v).sort().map((k) => [k, sorted(v[k])]));
}
