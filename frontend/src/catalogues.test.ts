import { parse, type AST } from "svelte/compiler";
import { describe, expect, it } from "vitest";

const components = import.meta.glob<string>(["./**/*.svelte", "!./**/demo/*"], { query: "?raw", import: "default", eager: true });

/** Attributes that people read or hear. */
const attributes = new Set(["action", "aria-description", "aria-label", "hint", "kept", "label", "note", "placeholder", "prefix", "text", "tip", "title"]);
/** Names and signs that are the same in every language. */
const names = new Set(["Helix"]);

const isText = (s: string): boolean => /\p{L}{2}/u.test(s) && !names.has(s.trim());

interface Node {
  type?: string;
  name?: string;
  data?: string;
  value?: unknown;
  key?: { name?: string };
}

/** Nodes whose value is that of what they hold. What a function is called with, or compared with, is not shown. */
const passesOn = new Set(["ExpressionTag", "ConditionalExpression", "LogicalExpression", "TemplateLiteral", "ArrayExpression"]);

/** The texts of a component that are written in its markup: as text, in an attribute, or in an object such as `{ label: "…" }`. */
function literals(source: string): string[] {
  const found: string[] = [];
  const add = (text: unknown): void => void (typeof text === "string" && isText(text) && found.push(text.trim()));
  /** `shown` is true inside of something that people read. */
  const visit = (node: unknown, shown: boolean): void => {
    if (Array.isArray(node)) return node.forEach((n) => visit(n, shown));
    if (typeof node !== "object" || node === null) return;
    const n = node as Node;
    if (n.type === "Comment" || n.type === "StyleDirective") return;
    if (n.type === "Attribute") return visit(n.value, attributes.has(n.name ?? ""));
    if (n.type === "Property") return visit(n.value, attributes.has(n.key?.name ?? ""));
    if (n.type === "Text") return shown ? add(n.data) : undefined;
    if (n.type === "Literal") return shown ? add(n.value) : undefined;
    if (n.type === "TemplateElement") return shown ? add((n.value as { cooked?: string }).cooked) : undefined;
    const inner = n.type === "Fragment" || (shown && passesOn.has(n.type ?? ""));
    for (const [key, child] of Object.entries(node)) if (key !== "start" && key !== "end") visit(child, key === "test" ? false : inner);
  };
  visit((parse(source, { modern: true }) as AST.Root).fragment, true);
  return found;
}

describe("catalogues", () => {
  it("hold every text of the components", () => {
    const found = Object.entries(components)
      .flatMap(([file, source]) => literals(source).map((text) => `${file}: ${text}`));
    expect(found).toEqual([]);
  });

  it("are missed where a text is written in markup", () => {
    const source = `<p class="muted">Hello</p>
      <Button title="Run now" class="primary" label={on === "yes" ? "Pause" : t.resume} text={\`Edit \${name}\`} style:width="5px">{t.run} · 5 {busy ? "Working" : f("key")}</Button>
      <Menu items={[{ label: "Delete", id: "delete" }]} />`;
    expect(literals(source)).toEqual(["Hello", "Run now", "Pause", "Edit", "Working", "Delete"]);
  });
});
