import { describe, expect, it } from "vitest";
import { linkKind, parseMarkdown, type Block, type Inline } from "./markdown";

/** A tree as short text: `p(text)`, `h1(…)`, `[text](target)`. */
const line = (all: readonly Inline[]): string =>
  all.map((x) => (x.type === "text" ? x.text : x.type === "break" ? "⏎" : x.type === "code" ? `\`${x.text}\`` : x.type === "link" ? `[${line(x.inlines)}](${x.target})` : `${x.type}(${line(x.inlines)})`)).join("");
const show = (all: readonly Block[]): string =>
  all
    .map((b) => {
      if (b.type === "paragraph") return `p(${line(b.inlines)})`;
      if (b.type === "heading") return `h${b.level}(${line(b.inlines)})`;
      if (b.type === "code") return `pre(${b.text})`;
      if (b.type === "quote") return `quote(${show(b.blocks)})`;
      if (b.type === "list") return `${b.start === null ? "ul" : `ol${b.start}`}(${b.items.map((i) => `${i.checked === null ? "" : i.checked ? "x " : "o "}${show(i.blocks)}`).join(" ")})`;
      if (b.type === "table") return `table(${[b.head, ...b.rows].map((r) => r.map(line).join("|")).join("/")})`;
      return b.type;
    })
    .join(" ");

describe("Markdown", () => {
  it.each([
    ["# Ada\n\nMet at the **choir**.", "h1(Ada) p(Met at the strong(choir).)"],
    ["one\ntwo", "p(one⏎two)"],
    ["- milk\n- [ ] eggs\n- [x] bread", "ul(p(milk) o p(eggs) x p(bread))"],
    ["- a\n\n- [ ] b\n- [x] c", "ul(p(a) o p(b) x p(c))"],
    ["3. a\n4. b", "ol3(p(a) p(b))"],
    ["> said *so*", "quote(p(said em(so)))"],
    ["```js\na < b && c\n```", "pre(a < b && c)"],
    ["| a | b |\n|---|---|\n| 1 | `x` |", "table(a|b/1|`x`)"],
    ["~~old~~ ==new== \\*no\\*", "p(del(old) mark(new) *no*)"],
    ["fish &amp; chips &#8364; &unknown; 1 < 2", "p(fish & chips € &unknown; 1 < 2)"],
    ["a<br>b <b>c</b>", "p(a⏎b c)"],
  ])("%j is %s", (source, tree) => expect(show(parseMarkdown(source))).toBe(tree));

  it("has links to documents as Obsidian and Markdown write them", () => {
    expect(show(parseMarkdown("See [[Ada]], [[People/Olaf#Work|him]] and [her](Ada%20B.md)."))).toBe("p(See [Ada](Ada), [him](People/Olaf#Work) and [her](Ada%20B.md).)");
  });

  it("shows images as links, so that nothing is fetched", () => {
    expect(show(parseMarkdown("![plan](https://example.org/p.png) ![[map.png]]"))).toBe("p([plan](https://example.org/p.png) [map.png](map.png))");
  });

  it("keeps the text of HTML, but none of it", () => {
    const tree = show(parseMarkdown('<script>alert(1)</script>\n\n<img src=x onerror="alert(1)"> <a href="javascript:alert(1)">go</a>'));
    expect(tree).not.toMatch(/<|onerror|javascript/);
  });

  it("opens the web and documents only", () => {
    expect(["https://a.org", "HTTP://a.org", "mailto:a@b.c"].map(linkKind)).toEqual(["web", "web", "web"]);
    expect(["Ada", "../People/Ada.md", "People/Ada#Gifts"].map(linkKind)).toEqual(["document", "document", "document"]);
    expect(["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "#gifts", " ", "vbscript:x"].map(linkKind)).toEqual(["none", "none", "none", "none", "none", "none"]);
  });

  it("reads text made to keep it busy", () => {
    for (const s of ["[[".repeat(2000), "==a".repeat(1000), "> ".repeat(200), "*a **b ".repeat(400)]) parseMarkdown(s);
  });
});
