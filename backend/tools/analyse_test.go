package tools

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestAnalysisFindsWithPositions(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, code string
		lang       Language
		want       string // code of the warning or error
		line, col  int
	}{
		{"eval", "const a = 1;\nreturn eval(params.x);", JavaScript, "eval", 2, 8},
		{"eval by another name", "const e = eval;\nreturn e('1');", JavaScript, "eval", 1, 11},
		{"Function", "export default function (p) {\n  return new Function('return 1')();\n}", JavaScript, "function_constructor", 2, 14},
		{"constructor", "export default (p) => {\n  return p.constructor.constructor('return this')();\n};", JavaScript, "constructor_call", 2, 24},
		{"constructor in brackets", "return params['constructor']('x');", JavaScript, "constructor_call", 1, 15},
		{"import()", "return await import('./x.js');", JavaScript, "dynamic_import", 1, 14},
		{"computed global", "return globalThis['pro' + 'cess'];", JavaScript, "computed_global", 1, 8},
		{"endless for", "let i = 0;\n  for (;;) { i++; }", JavaScript, "endless_loop", 2, 3},
		{"endless while", "while (true) { Math.random(); }", JavaScript, "endless_loop", 1, 8},
		{"endless do", "do { Math.random(); } while (true);", JavaScript, "endless_loop", 1, 30},
		{"host", "const u = \"https://api.example.com/v1\";\nreturn u;", JavaScript, "host_without_capability", 1, 11},
		{"typescript keeps lines", "interface A { x: number }\n\nexport default function (p: A): number {\n  return eval(String(p.x));\n}", TypeScript, "eval", 4, 10},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := examine(definition{Code: c.code, Language: c.lang}).result
			if !v.Valid {
				t.Fatalf("errors %+v", v.Errors)
			}
			i := slices.IndexFunc(v.Warnings, func(p Problem) bool { return p.Code == c.want })
			if i < 0 {
				t.Fatalf("no %s in %+v", c.want, v.Warnings)
			}
			if p := v.Warnings[i]; p.Line != c.line || p.Column != c.col {
				t.Errorf("%s at %d:%d, want %d:%d", c.want, p.Line, p.Column, c.line, c.col)
			}
		})
	}
}

func TestAnalysisIsSilentAboutLookAlikes(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		`const m = /a(b)/.exec(params.text); return m;`,
		`return new RegExp("x").exec("x");`,
		"function retrieval(x) { return x; }\nreturn retrieval(1);",
		"// eval(\"x\")\n/* new Function() */ return 'eval(1)';",
		"return `text with eval( and Function( in it`;",
		`function evalScore(a) { return a; } return evalScore(2);`,
		`return params.constructor.name;`,
		`for (;;) { if (Math.random() > 2) break; await new Promise(r => setTimeout(r, 1)); }`,
		`while (true) { await helix.state.get("a"); }`,
		`for (;;) { return 1; }`,
		`const o = {}; const k = "a"; o[k] = 1; return o;`,
		`function local(eval_) { return eval_; } return local(1);`,
		`const re = /[/"']eval\(/; return re.test(params.x);`,
	} {
		v := examine(definition{Code: code}).result
		if !v.Valid || len(v.Warnings) > 0 || len(v.DetectedDangerousFunctions) > 0 {
			t.Errorf("%s\n  errors %+v warnings %+v dangerous %v", code, v.Errors, v.Warnings, v.DetectedDangerousFunctions)
		}
	}
}

func TestAnalysisErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, code, want string
		lang             Language
		line             int
	}{
		{"blank", " \n\t", "blank", JavaScript, 0},
		{"syntax", "return 1;\nconst = 3;", "syntax", JavaScript, 2},
		{"syntax in a module", "export default function () {\n  retrun 1 +;\n}", "syntax", JavaScript, 2},
		{"import", "import fs from \"fs\";\nexport default () => 1;", "import", JavaScript, 1},
		{"import in typescript", "import { x } from './x';\nexport default () => x;", "import", TypeScript, 1},
		{"export from", "export * from 'y';\nexport default () => 1;", "import", JavaScript, 1},
		{"no entry", "export const a = 1;", "no_entry", JavaScript, 0},
		{"default is no function", "export default 5;", "no_entry", JavaScript, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := examine(definition{Code: c.code, Language: c.lang}).result
			if v.Valid || v.Errors[0].Code != c.want || c.line != 0 && v.Errors[0].Line != c.line {
				t.Fatalf("%+v, want %s on line %d", v.Errors, c.want, c.line)
			}
		})
	}
}

func TestEntryForms(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]Entry{
		"export default function (p) { return 1 }":          EntryDefault,
		"export default async (p, h) => 1":                  EntryDefault,
		"export default async function named() {}":          EntryDefault,
		"function f() {}\nexport { f as default }":          EntryDefault,
		"function execute(params) { return params }":        EntryExecute,
		"async function execute(params) { return params }":  EntryExecute,
		"export function execute(params) { return params }": EntryExecute,
		"function main() { return 1 }":                      EntryMain,
		"return params.a":                                   EntryBody,
		"const a = await helix.state.get('x'); return a":    EntryBody,
		"1 + 1": EntryBody,
		"function main() {}\nexport default function () { return 1 }": EntryDefault,
	} {
		v := examine(definition{Code: code, Capabilities: []string{"state"}}).result
		if v.Entry != want || !v.Valid {
			t.Errorf("%s: entry %q, want %q (%+v)", code, v.Entry, want, v.Errors)
		}
	}
	v := examine(definition{Code: "function main() {}\nexport default function () { return 1 }"}).result
	if !slices.ContainsFunc(v.Warnings, func(p Problem) bool { return p.Code == "two_entries" }) {
		t.Errorf("two entries gave %+v", v.Warnings)
	}
}

func TestCapabilitiesOfADefinition(t *testing.T) {
	t.Parallel()
	caps := []string{"tool(Other)", "network:https(API.Example.com)", "state", "tool(Other)"}
	before := slices.Clone(caps)
	ex := examine(definition{Code: "return helix.fetch(params.u)", Capabilities: caps})
	if !slices.Equal(caps, before) {
		t.Errorf("the caller's list became %v", caps)
	}
	if want := []string{"network:https(api.example.com)", "state(1MiB)", "tool(Other)"}; !slices.Equal(ex.def.Capabilities, want) {
		t.Errorf("stored %v, want %v", ex.def.Capabilities, want)
	}
	unused := 0
	for _, w := range ex.result.Warnings {
		if w.Code == "unused_capability" {
			unused++
		}
	}
	if unused != 2 {
		t.Errorf("%d unused in %+v, want state and tool", unused, ex.result.Warnings)
	}
	for _, bad := range []string{"process:spawn", "env:read", "discord:webhooks", "network:outbound", "mcp:tools", "network:localhost", "network:https(*)", "network:https(*.com)", "filesystem:read(../x)", "nonsense", "state(17MiB)"} {
		v := examine(definition{Code: "return 1", Capabilities: []string{bad}}).result
		if v.Valid || v.Errors[0].Field != "capabilities" || v.Errors[0].Path != "/0" {
			t.Errorf("%s: %+v", bad, v.Errors)
		}
	}
	v := examine(definition{Code: "return helix.fetch(params.u)", Capabilities: []string{"network:https(*.example.com)", "filesystem:write"}, SandboxProfile: Strict}).result
	codes := []string{}
	for _, w := range v.Warnings {
		codes = append(codes, w.Code)
	}
	slices.Sort(codes)
	if want := []string{"filesystem_write", "profile_forbids", "profile_forbids", "unused_capability", "wildcard"}; !v.Valid || !slices.Equal(codes, want) {
		t.Errorf("warnings %v (%+v), want %v", codes, v.Errors, want)
	}
}

func TestSuggestedSchema(t *testing.T) {
	t.Parallel()
	v := examine(definition{Code: "export default function ({ text, times = 2, loud = false, mark = '!' }) { return text.repeat(times) }"}).result
	want := `{"properties":{"loud":{"default":false,"type":"boolean"},"mark":{"default":"!","type":"string"},"text":{},"times":{"default":2,"type":"number"}},"type":"object"}`
	if string(v.SuggestedSchema) != want {
		t.Errorf("suggested %s, want %s", v.SuggestedSchema, want)
	}
	v = examine(definition{Code: "return params.items.map(x => x) .concat(params.name.trim(), params.x)"}).result
	var got struct {
		Properties map[string]struct{ Type string }
	}
	if err := json.Unmarshal(v.SuggestedSchema, &got); err != nil {
		t.Fatal(err)
	}
	if got.Properties["items"].Type != "array" || got.Properties["name"].Type != "string" || len(got.Properties) != 3 {
		t.Errorf("suggested %s", v.SuggestedSchema)
	}
	if v := examine(definition{Code: "return params.a", Parameters: json.RawMessage(`{}`)}).result; v.SuggestedSchema != nil {
		t.Errorf("a schema was given, and %s was suggested", v.SuggestedSchema)
	}
}

func TestBigAndDeepSources(t *testing.T) {
	t.Parallel()
	if v := examine(definition{Code: strings.Repeat("x", maxCode+1)}).result; v.Valid || v.Errors[0].Code != "size" {
		t.Errorf("%+v", v.Errors)
	}
	for _, code := range []string{strings.Repeat("(", 20_000) + strings.Repeat(")", 20_000), strings.Repeat("[", 200_000), strings.Repeat("{", 200_000), strings.Repeat("a=>", 80_000), strings.Repeat("!", 250_000) + "1"} {
		if v := examine(definition{Code: code}).result; v.Valid || v.Errors[0].Code != "nesting" {
			t.Errorf("%.10s…: %+v", code, v.Errors)
		}
	}
}

func FuzzValidate(f *testing.F) {
	for _, s := range []string{"return 1", "export default function(){}", "for(;;){}", "`${eval(1)}`", "import x from 'y'", "/a/.exec(b)", "class A { #x = 1 }", "\x00", "a?.[b]", "#A0000\r ", "async () => { for await (const x of y) {} }"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, code string, ts bool) {
		lang := JavaScript
		if ts {
			lang = TypeScript
		}
		v := examine(definition{Code: code, Language: lang}).result
		lines := strings.Count(code, "\n") + strings.Count(code, "\r") + strings.Count(code, "\u2028") + strings.Count(code, "\u2029") + 2
		for _, p := range append(v.Errors, v.Warnings...) {
			if p.Line < 0 || p.Line > lines || p.Column < 0 {
				t.Fatalf("position %d:%d in %q", p.Line, p.Column, code)
			}
		}
	})
}
