import { parseCss, type AST } from "svelte/compiler";
import { describe, expect, it } from "vitest";

const sheets = import.meta.glob<string>("./**/*.css", { query: "?raw", import: "default", eager: true });
const components = import.meta.glob<string>("./**/*.svelte", { query: "?raw", import: "default", eager: true });

/** How many rules may repeat the declarations of another one. Lower it with the count; use a class of `styles/primitives.css` rather than raise it. */
const ceiling = 80;

/** The declarations of each rule, sorted, so that rules that say the same are equal. Keyframes are steps and no rules. */
function bodies(source: string): string[] {
  const found: string[] = [];
  const visit = (node: AST.CSS.Node | AST.CSS.StyleSheetFile): void => {
    if (node.type === "Atrule" && node.name.endsWith("keyframes")) return;
    if (node.type === "Rule") {
      const declarations = node.block.children.filter((n) => n.type === "Declaration").map((d) => `${d.property}: ${d.value}`);
      if (declarations.length > 0) found.push(declarations.sort().join("; "));
    }
    const inner = node.type === "StyleSheetFile" ? node.children : node.type === "Rule" || node.type === "Atrule" ? (node.block?.children ?? []) : [];
    inner.forEach(visit);
  };
  visit(parseCss(source));
  return found;
}

/** How many bodies stand more than once, as rules less distinct bodies. */
const repeated = (all: readonly string[]): number => all.length - new Set(all).size;

describe("styles", () => {
  it("repeat few rule bodies", () => {
    const styles = Object.values(components).map((source) => /<style>([^]*)<\/style>/.exec(source)?.[1] ?? "");
    const all = [...Object.values(sheets), ...styles].flatMap(bodies);
    expect(all.length).toBeGreaterThan(500);
    expect(repeated(all)).toBeLessThanOrEqual(ceiling);
  });

  it("are text of a style element, not its attributes", () => {
    const broken = Object.entries(components).filter(([, source]) => /<style(?!>)/.test(source));
    expect(broken.map(([name]) => name)).toEqual([]);
  });

  it("count a body that stands in two rules, whatever the order of its declarations", () => {
    const css = "a { color: red; top: 0 } @media (width < 900px) { b { top: 0; color: red } } @keyframes x { to { top: 0; color: red } } c { top: 0 }";
    expect(repeated(bodies(css))).toBe(1);
  });
});
