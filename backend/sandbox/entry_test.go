package sandbox

import (
	"context"
	"errors"
	"strings"
	"testing"

	"helix/backend/fault"
)

func TestEntryForms(t *testing.T) {
	t.Parallel()
	in := Call{Input: input(map[string]any{"n": 4}), Meta: Meta{Name: "tool", Version: "1.2.0", Author: "ann"}}
	for _, c := range []struct {
		name, text string
		entry      Entry
		want       string
	}{
		{"default function", "export default function (params: {n: number}, helix: any) { return params.n + 1 }", EntryDefault, "5"},
		{"default named", "export default function run(p) { return p.n }", EntryDefault, "4"},
		{"default async", "export default async function (p) { await null; return p.n }", EntryDefault, "4"},
		{"default arrow", "export default (p) => p.n * 2", EntryDefault, "8"},
		{"default async arrow", "export default async ({ n }) => n", EntryDefault, "4"},
		{"default of a name", "const f = (p) => p.n; export default f", EntryDefault, "4"},
		{"default in a list", "function f(p) { return p.n } export { f as default }", EntryDefault, "4"},
		{"default with top-level await", "const k = await Promise.resolve(3); export default (p) => p.n + k", EntryDefault, "7"},
		{"default with other exports", "export const x = 1; export default () => x", EntryDefault, "1"},
		{"execute", "function execute(params) { return params.n }", EntryExecute, "4"},
		{"async execute", "async function execute(p) { return p.n }", EntryExecute, "4"},
		{"exported execute", "export function execute(p) { return p.n }", EntryExecute, "4"},
		{"execute with top-level await", "const k = await 1; function execute(p) { return p.n + k }", EntryExecute, "5"},
		{"execute gets helix", "function execute(p, h) { return h === helix }", EntryExecute, "true"},
		{"main", "function main() { return params.n }", EntryMain, "4"},
		{"exported main", "export async function main() { return params.n }", EntryMain, "4"},
		{"body", "return params.n", EntryBody, "4"},
		{"body with await", "const v = await Promise.resolve(params.n); return v", EntryBody, "4"},
		{"body without return", "const v = 1", EntryBody, "null"},
		{"body with a helper called main", "return main();\nfunction main() { return 9 }", EntryMain, "9"},
		{"body with types", "type A = { n: number };\nconst a: A = params;\nreturn a.n as number", EntryBody, "4"},
		{"body in strict mode", "'use strict'; return this === undefined", EntryBody, "true"},
		{"shell line", "#!/usr/bin/env helix\nreturn 1", EntryBody, "1"},
		{"a string that looks like an export", "return 'export default 1; function execute() {}'", EntryBody, `"export default 1; function execute() {}"`},
		{"a nested execute is no entry", "const o = { execute() { return 1 } }; if (true) { function execute() {} } return 2", EntryBody, "2"},
		{"globals", "return [skillName, skillVersion, skillAuthor, typeof helix.fetch, params.n]", EntryBody, `["tool","1.2.0","ann","function",4]`},
		{"enum and class", "enum E { A = 3 } class C { constructor(public x = E.A) {} }\nreturn new C().x", EntryBody, "3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := compile(t, c.text)
			if p.Entry() != c.entry && c.name != "body with a helper called main" {
				t.Errorf("entry = %s, want %s", p.Entry(), c.entry)
			}
			wantOutput(t, c.text, in, c.want)
		})
	}
}

func TestTwoFormsWarn(t *testing.T) {
	t.Parallel()
	p := compile(t, "export default () => 1; function execute() { return 2 } function main() { return 3 }")
	if w := p.Warnings(); len(w) != 1 || !strings.Contains(w[0].Message, "export default runs") {
		t.Fatalf("warnings = %+v", w)
	}
	wantOutput(t, "function main() { return 3 }\nfunction execute() { return 2 }", Call{}, "2")
	if w := compile(t, "return 1").Warnings(); w == nil || len(w) != 0 {
		t.Fatalf("warnings of a plain body = %+v", w)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"return 42": "42", "return 0": "0", "return false": "false", `return ""`: `""`, "return null": "null", "return undefined": "null", "": "null",
		"return NaN": "null", "return new Date(0)": `"1970-01-01T00:00:00.000Z"`, "return { a: undefined, b: [undefined] }": `{"b":[null]}`,
		"return { toJSON() { return { x: 1 } } }": `{"x":1}`, `return "a\u0000b"`: `"a\u0000b"`, `return "\ud800"`: `"\ud800"`, `return "é€😀"`: `"é€😀"`,
		"return new Map([[1, 2]])": "{}", "return [1, [2, { k: 'v' }]]": `[1,[2,{"k":"v"}]]`, "return Object.assign(Object.create({ up: 1 }), { own: 1 })": `{"own":1}`,
		"const x = { v: 1 }; return [x, x]": `[{"v":1},{"v":1}]`, "return Promise.resolve(5)": "5", "return { then(f) { f(6) } }": "6",
	} {
		wantOutput(t, "const ignore = 0;\n"+text, Call{}, want)
	}
	for text, path := range map[string]string{
		"return () => 1": "$", "return { a: { b() {} } }": "$.a.b", "return [1, Symbol('x')]": "$[1]", "return { 'a b': [10n] }": `$["a b"][0]`,
		"const a = {}; a.b = { c: a }; return a": "$.b.c", "const l = []; l.push(l); return l": "$[0]", "return 1n": "$",
	} {
		err := wantClass(t, text, Call{}, ClassOutput)
		if d, ok := err.Details.(OutputDetail); !ok || d.Path != path {
			t.Errorf("%q: details = %+v, want path %s", text, err.Details, path)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, c := range []struct {
		name, text string
		line, col  int
		specifier  string
		says       string
	}{
		{"blank", " \n\t", 0, 0, "", "empty"},
		{"syntax", "const a = 1;\nconst b = ;\n", 2, 11, "", "Unexpected"},
		{"syntax in a body", "const a: number = 1;\nreturn a +;\n", 2, 11, "", "Unexpected"},
		{"column in characters", "const é = 'ü'; let = = 1", 1, 22, "", ""},
		{"import", "import fs from 'node:fs'\nexport default () => fs", 1, 16, "node:fs", `"node:fs"`},
		{"unused import", "import { x } from \"y\";\nfunction main() {}", 1, 19, "y", `"y"`},
		{"bare import", "import './z.js'", 1, 8, "./z.js", `"./z.js"`},
		{"import in a body", "import a from 'b'\nreturn 1", 1, 15, "b", `"b"`},
		{"re-export", "export * from 'w'; export default () => 1", 1, 15, "w", `"w"`},
		{"exports without an entry", "export const a = 1", 0, 0, "", "no entry"},
		{"declared twice", "let a = 1;\nlet a = 2;\nreturn a", 2, 5, "", "already"},
		{"parameter declared again", "const x = 1;\nconst params = 2;\nreturn params", 2, 7, "", ""},
		{"nested", strings.Repeat("(", 200_000), 1, 1, "", "too deeply"},
		{"nested within the small size", strings.Repeat("[", 15_000) + strings.Repeat("]", 15_00), 0, 0, "", ""},
		{"large", "//" + strings.Repeat("x", MaxSource), 0, 0, "", "larger"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := shared.CompileJS(ctx, Source{Name: "my.ts", Text: c.text, Language: TypeScript})
			var e *Error
			if !errors.As(err, &e) || e.Class != ClassCompile || !fault.Is(err, fault.Invalid) {
				t.Fatalf("error = %v", err)
			}
			if !strings.Contains(e.Message, c.says) {
				t.Errorf("message = %q, want it to say %q", e.Message, c.says)
			}
			d, _ := e.Details.(CompileDetail)
			if c.line > 0 && (d.Line != c.line || d.Column != c.col && c.col > 0) || d.Specifier != c.specifier {
				t.Errorf("details = %+v, want %d:%d %q", d, c.line, c.col, c.specifier)
			}
		})
	}
}

func TestTypeOnlyImportIsNone(t *testing.T) {
	t.Parallel()
	wantOutput(t, "import type { Helix } from 'helix'\nexport default (p: any, h: Helix) => 1", Call{}, "1")
}

func TestStackPositions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, frame string }{
		"body":    {"interface A {\n  x: number\n}\n\nfunction deep(a: A): never {\n  throw new TypeError('bad')\n}\nreturn deep({ x: 1 })", "deep (tool.ts:6:"},
		"wrapped": {"type T = number;\nawait null;\nconst o: any = null;\nreturn o.x", "(tool.ts:4:"},
		"module":  {"type T = number\n\nexport default (p: T) => {\n\n  return JSON.parse('{')\n}", "(tool.ts:5:"},
		"main":    {"type T = number;\nfunction main(): T {\n  const u: any = undefined;\n  return u.y\n}", "main (tool.ts:4:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := wantClass(t, c.text, Call{}, ClassThrown)
			if !strings.Contains(err.Stack, c.frame) || strings.Contains(err.Stack, "helix:") {
				t.Errorf("stack:\n%s\nwant a frame %q and none of the prelude", err.Stack, c.frame)
			}
		})
	}
	res := run1(t, "type A = 1;\nconsole.error(new Error('logged'))", Call{})
	if len(res.Logs) != 1 || !strings.Contains(res.Logs[0].Message, "tool.ts:2:") {
		t.Errorf("logs = %+v", res.Logs)
	}
}

func TestThrown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"throw new Error('no bread')": "Error: no bread", "throw 'text'": "text", "throw null": "null", "throw { a: 1 }": `{"a":1}`, "throw undefined": "undefined",
		"await Promise.reject(new RangeError('r'))": "RangeError: r", "throw Object.assign(new Error('x'), { name: 'Mine' })": "Mine: x",
		"throw { get message() { throw 1 } }": "", "throw new Proxy({}, { get() { throw 1 }, has() { throw 2 } })": "",
		"await new Promise(() => {})": "the tool never finished: it waits for something that never happens",
		"return await import('fs')":   `Error: cannot import "fs": a tool cannot import anything`,
	} {
		err := wantClass(t, text, Call{}, ClassThrown)
		if want != "" && err.Message != want {
			t.Errorf("%q: message = %q, want %q", text, err.Message, want)
		}
		if !fault.Is(err, fault.Internal) {
			t.Errorf("kind = %s", fault.KindOf(err))
		}
	}
}
