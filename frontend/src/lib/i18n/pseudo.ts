const accents: Readonly<Record<string, string>> = { a: "á", e: "é", i: "í", o: "ö", u: "ü", y: "ý", A: "Á", E: "É", I: "Í", O: "Ö", U: "Ü", c: "ç", n: "ñ", s: "š", z: "ž" };

/** A text as a long-winded language would have it: accented, and a third longer. */
function stretch(text: string): string {
  if (text.trim() === "") return text;
  const long = text.replace(/[a-zA-Z]/g, (c) => accents[c] ?? c);
  return `${long} ${"·".repeat(Math.max(1, Math.ceil(text.length * 0.35) - 1))}`;
}

/** Every text of a catalogue made longer, for screenshots that show what does not fit. */
export function pseudo<T>(texts: T): T {
  if (typeof texts === "string") return stretch(texts) as T;
  if (typeof texts === "function") return ((...args: unknown[]) => stretch(String(texts(...args)))) as T;
  if (Array.isArray(texts)) return texts.map(pseudo) as T;
  return Object.fromEntries(Object.entries(texts as object).map(([k, v]) => [k, pseudo(v)])) as T;
}
