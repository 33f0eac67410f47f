import { describe, expect, it } from "vitest";
import { hit, memory } from "./fixtures";
import { plain } from "./plain";
import { placeWord, rowOfHit, rowOfMemory } from "./rows";
import { firstLine } from "./words";

const text = (s: string): string => plain(s).text;
/** The words that are marked, after the signs were taken out. */
function marked(s: string, ...words: string[]): string[] {
  let from = 0;
  const spans = words.map((w) => {
    const start = s.indexOf(w, from);
    from = start + w.length;
    return { start, end: from };
  });
  const p = plain(s, spans);
  return p.spans.map((m) => p.text.slice(m.start, m.end));
}

describe("Markdown on one line", () => {
  it.each([
    ["# Ada\n\nMet at the choir.", "Ada · Met at the choir."],
    ["## Gifts ##\nLikes maps", "Gifts · Likes maps"],
    ["# Alone", "Alone"],
    ["See [[Ada]] and [[People/Olaf|Olaf]].", "See Ada and Olaf."],
    ["![[plan.png]] hangs [there](https://example.org/a(b)c \"t\") and [here][1]", "plan.png hangs there and here"],
    ["**bold**, *leaning*, ***both***, __bold__, _leaning_, ~~gone~~ and ==lit==", "bold, leaning, both, bold, leaning, gone and lit"],
    ["**a *b* c** d", "a b c d"],
    ["*a **b** c*", "a b c"],
    ["[**bold link**](x) `**code**`", "bold link **code**"],
    ["- milk\n- [ ] eggs\n* [x] bread", "• milk • eggs ✓ bread"],
    ["1. first\n2. second", "1. first 2. second"],
    ["> said\n> again", "said again"],
    ["> [!note] Mind\n> the gap", "Mind the gap"],
    ["one\n---\ntwo\n***\nthree", "one two three"],
    ["Title\n=====\ntext", "Title text"],
    ["| a | b |\n|---|:-:|\n| 1 | 2 |", "a · b 1 · 2"],
    ["```go\nx := a[0] * b\n```\nend", "x := a[0] * b end"],
    ["a<br>b<b>c</b> %%hidden%% d[^1] ^block-1", "a bc  d"],
    ["<https://example.org> \\*not\\* \\# at all", "https://example.org *not* # at all"],
  ])("%j reads %j", (from, to) => expect(text(from)).toBe(to));

  it.each(["2 * 3 * 4", "snake_case_name and __init__.py", "a*b*c", "C# and F#", "a < b > c", "5 | 6", "#tag", "~5 euros", "x = y == z", "[sic]", "f(a)[b]", "**", "1 <b", "- ", "it's 50 % off"])("%j stays as it is", (s) => expect(text(s)).toBe(s.trimEnd()));

  it("takes out a sign whose other half was cut off", () => {
    expect(text("… bold** and **more …")).toBe("… bold and more …");
    expect(text("bold** and **more")).toBe("bold** and **more");
  });

  it("leaves the marks on their words", () => {
    expect(marked("# Ada\n\nMet **Ada** at [[Ada|the choir]], `Ada`", "Ada", "Ada", "choir", "Ada")).toEqual(["Ada", "Ada", "choir", "Ada"]);
    expect(marked("- [x] call [Olaf](https://olaf.example)\n> **Olaf**", "Olaf", "Olaf")).toEqual(["Olaf", "Olaf"]);
    // What is taken out has no mark, and a word with a sign in its middle is marked whole.
    expect(marked("[there](https://example.org/pasta) pasta", "pasta", "pasta")).toEqual(["pasta"]);
    expect(plain("a\\*b", [{ start: 0, end: 4 }]).spans).toEqual([{ start: 0, end: 3 }]);
    expect(marked("🌿 **thyme** and 🌿 thyme", "thyme", "thyme")).toEqual(["thyme", "thyme"]);
  });

  it("moves nothing where there is nothing to take out", () => {
    const spans = [{ start: 2, end: 4 }];
    expect(plain("a bc", spans)).toEqual({ text: "a bc", spans });
  });

  it("shows signs that cannot be seen, and keeps the marks behind them", () => {
    const p = plain("a\u202eb word", [{ start: 4, end: 8 }]);
    expect(p.text).toBe("a⟨U+202E⟩b word");
    expect(p.spans.map((s) => p.text.slice(s.start, s.end))).toEqual(["word"]);
  });

  it("comes to an end with text made to keep it busy", () => {
    for (const s of ["*".repeat(800), "[".repeat(800), "**a ".repeat(200), "`".repeat(799) + "a", "[[".repeat(400), "> ".repeat(400), "<a ".repeat(260), "(".repeat(400) + "[a](" + "(".repeat(390), "|-".repeat(400), "[a](".repeat(200)]) text(s);
  });
});

describe("rows", () => {
  it("say the title once, and the heading that stands above not again", () => {
    expect(placeWord("Ada › Ada › Gifts")).toBe("Ada › Gifts");
    expect([rowOfHit(hit("k", { salienceTier: "high" })).tier, rowOfHit(hit("k", { parts: { ...hit("k").parts!, salience: 1.1 } })).tier]).toEqual(["high", null]);
    const r = rowOfHit(hit("k", { kind: "chunk", title: "Ada › Ada › Gifts", snippet: "## Gifts\n\nLikes **botanical** prints", highlights: [{ start: 18, end: 27 }] }));
    expect([r.title, r.text, r.text.slice(r.highlights[0]!.start, r.highlights[0]!.end)]).toEqual(["Ada › Gifts", "Likes botanical prints", "botanical"]);
    // A heading with a word that was looked for stays.
    expect(rowOfHit(hit("k", { title: "Ada › Ada", snippet: "# Ada\n\nMet at the choir", highlights: [{ start: 2, end: 5 }] })).text).toBe("Ada · Met at the choir");
  });

  it("have no signs of Markdown in names and texts", () => {
    const r = rowOfMemory(memory("m", { content: "---\n**Mind** the _gap_\n\n- one\n- two" }));
    expect([r.name, r.text]).toEqual(["Mind the gap", "Mind the gap • one • two"]);
    expect(rowOfMemory(memory("m", { content: "word ".repeat(200) })).text).toHaveLength(261);
    expect(firstLine("```\n> [[Ada]] **said**")).toBe("Ada said");
  });
});
