package sandbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

func nested(text string) bool { return checkNesting(Source{Name: "t.ts", Text: text}) != nil }

func TestNestingRefused(t *testing.T) {
	t.Parallel()
	const n = 200_000
	for _, unit := range []string{
		"!", "(", "[", "{", "a?b:", "a=", "a=>", "if(1)", "a**", "`${", "new ", "x:", "await ", "a.b", "f()", "<T>", "A<",
		"function f(){", "if(1);else ", "!\n", "(\n", "if(1)\n", "else\n", "a=\n", "typeof\n", "while(1)\n", "a,", "[a,[", "{a:{", "a/", "a!.b", "x`${",
		"a??", "-", "- -", "~", "class A extends ", "a instanceof ", "/*c*/(", "/x/(", "'(' + (", "a\n.b", "a\n(b)", "a\n`x`", "a\n+", "/*\n*/!",
		"<!--\n(", "x++/`/(", "if(1)/`/;(", "a!/`/(", "({})/`/(", "\u2028(", "return (", "case (",
	} {
		text := "let v = 1; " + strings.Repeat(unit, n/len(unit)*4)
		if !nested(text) {
			t.Errorf("%q repeated is not refused", unit)
		}
	}
	// A text that one parser skips and another treats as code.
	for _, lead := range []string{"a++ /`/;", "f<T>/`/;", "x = a! /`/;", "y = of /`/;", "{}/`/;", "<!-- `\n", "x=1\n--> `\n"} {
		if !nested(lead + strings.Repeat("(", n)) {
			t.Errorf("after %q nothing is counted", lead)
		}
	}
}

func TestNestingAccepted(t *testing.T) {
	t.Parallel()
	var semis, lines, data, calls, cases, css strings.Builder
	semis.WriteString("let v = 1;\n")
	data.WriteString("const rows = [\n")
	css.WriteString("const css = `")
	cases.WriteString("switch (x) {\n")
	for i := range 8000 {
		fmt.Fprintf(&semis, "if (v < %d && v !== %d) { v = v + %d * (v - 1); } else { v = f(v)[%d].x; }\n", i, i, i, i)
		fmt.Fprintf(&lines, "const a%d = b.c(d)[e] + f(%d) / 2\nfunction g%d() {\n  return a%d ? /x(y/.test('(') : `(${a%d})`\n}\n", i, i, i, i, i)
		fmt.Fprintf(&data, "  { id: %d, name: \"row (%d\", tags: [1, 2, 3], re: /[/(]/ },\n", i, i)
		fmt.Fprintf(&calls, "  .then((x) => { return x + %d })", i%10)
		fmt.Fprintf(&css, ".c%d > a { color: red; } (([{<,\n", i)
		fmt.Fprintf(&cases, "case %d: { y = %d; break; }\n", i, i)
	}
	data.WriteString("];")
	css.WriteString("`;")
	cases.WriteString("}")
	for name, text := range map[string]string{
		"semicolons": semis.String(), "no semicolons": lines.String(), "data": data.String(), "template": css.String(), "switch": cases.String(),
		"comment": "/* " + strings.Repeat("(((", 10_000) + " */ let a = 1; // " + strings.Repeat("[[[", 10_000),
		"string":  "let a = \"" + strings.Repeat("((", 20_000) + "\"; let b = '" + strings.Repeat("!!", 20_000) + "';",
	} {
		if e := checkNesting(Source{Name: name, Text: text}); e != nil {
			t.Errorf("%s: %v", name, e)
		}
	}
	if !nested("p" + calls.String()) {
		t.Error("a chain of 8000 calls is a deep tree")
	}
}

// FuzzCompile looks for sources that crash the compiler's parser.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		"export default (p) => p", "return await 1", "function main(){return /[/]/}", "let x: A<B<C>> = `a${b}`", "import 'x'", "#!/bin/sh\nreturn 1", "enum E {A}", "}{", "`${`${", "\u2028",
	} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, ts bool) {
		s := Source{Name: "f.ts", Text: text, Language: JavaScript}
		if ts {
			s.Language = TypeScript
		}
		p, err := shared.translate(context.Background(), s)
		if err != nil {
			return
		}
		for line := 1; line < 4; line++ {
			if l, c := p.lines.original(line, 3); l < 0 || c < 0 {
				t.Fatalf("position %d:%d", l, c)
			}
		}
	})
}

func FuzzSourceMap(f *testing.F) {
	f.Add([]byte(`{"version":3,"mappings":"AAAA,CAAC;;AAAA"}`))
	f.Add([]byte(`{"version":3,"mappings":"gggggggggggggB"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseMap(text)
		if err != nil {
			return
		}
		for line := range m {
			if l, c, ok := m.find(line, 5); ok && (l < 0 || c < 0) {
				t.Fatalf("position %d:%d", l, c)
			}
		}
	})
}
