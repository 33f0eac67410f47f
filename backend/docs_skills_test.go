package backend

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"helix/backend/skills"
	"helix/backend/tools"
)

var (
	docBlock   = regexp.MustCompile("(?s)```json( document)?\n(.*?)\n```((?:\n<!-- input .*? gives .*? -->)*)")
	docRun     = regexp.MustCompile(`<!-- input (.*) gives (.*) -->`)
	docTable   = regexp.MustCompile("(?m)^\\| (path|template|condition) \\| (?:finds|gives|holds) \\|\n\\|---\\|---\\|\n((?:\\|.*\\|\n)+)")
	docRow     = regexp.MustCompile("(?m)^\\| `(.*)` \\| `(.*)` \\|$")
	docBuiltin = regexp.MustCompile("(?m)^\\| `((?:[a-z]+\\.)?[a-z]+)` \\| (.*) \\| (.*) \\|$")
	docField   = regexp.MustCompile("`([a-zA-Z]+)`")
)

func sameValue(t *testing.T, got, want string) bool {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	return reflect.DeepEqual(a, b)
}

// TestSkillsDocumentation checks that every skill, path, template and condition in docs/skills.md
// works as documented.
func TestSkillsDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "docs", "skills.md"))
	if err != nil {
		t.Fatal(err)
	}
	c := newChain(t)
	made, err := c.Tools.Templates(c.ctx, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tpl := range made.Templates {
		if tpl.Name == "Text Counter" {
			if _, err := c.Tools.Create(c.ctx, tools.CreateParams{Name: tpl.Name, Code: tpl.Code, Language: tpl.Language, Parameters: tpl.Parameters}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var document json.RawMessage
	ran := 0
	for _, block := range docBlock.FindAllStringSubmatch(string(text), -1) {
		body := json.RawMessage(block[2])
		if block[1] != "" {
			document = body
			continue
		}
		v, err := c.Skills.ValidateComposite(c.ctx, skills.ValidateParams{Skill: body})
		if err != nil || !v.Valid {
			t.Errorf("not valid: %s\n%+v %v", body, v.Errors, err)
			continue
		}
		for _, m := range docRun.FindAllStringSubmatch(block[3], -1) {
			ran++
			r, err := c.Skills.ExecuteComposite(c.ctx, skills.ExecuteParams{Skill: body, Input: json.RawMessage(m[1])})
			if err != nil || !r.Success || !sameValue(t, string(r.FinalOutput), m[2]) {
				t.Errorf("%s\nwith %s gave %s (%+v, %v), the page says %s", body, m[1], r.FinalOutput, r.Error, err, m[2])
			}
		}
	}
	if ran < 5 || document == nil {
		t.Fatalf("%d examples ran: the page is not read as it should be", ran)
	}
	seen := 0
	for _, table := range docTable.FindAllStringSubmatch(string(text), -1) {
		for _, row := range docRow.FindAllStringSubmatch(table[2], -1) {
			seen++
			expression := json.RawMessage(row[1])
			if table[1] != "template" {
				expression = raw(t, row[1])
			}
			r, err := c.Skills.Evaluate(c.ctx, skills.EvaluateParams{Document: document, Expression: expression, As: table[1]})
			if err != nil || r.Error != nil {
				t.Errorf("%s: %v %+v", row[1], err, r.Error)
				continue
			}
			got := string(r.Value)
			if table[1] == "path" {
				values := []json.RawMessage{}
				for _, m := range r.Matches {
					values = append(values, m.Value)
				}
				got = string(raw(t, values))
			}
			if !sameValue(t, got, row[2]) {
				t.Errorf("%s %s gives %s, the page says %s", table[1], row[1], got, row[2])
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d expressions were tried", seen)
	}
	documentedBuiltins(t, c, string(text))
}

// documentedBuiltins compares the page's table with the registered built-ins: no name and no field
// may be missing or unknown.
func documentedBuiltins(t *testing.T, c *chain, text string) {
	t.Helper()
	_, text, _ = strings.Cut(text, "| built-in | takes | gives |")
	text, _, _ = strings.Cut(text, "\n\n")
	list, err := c.Skills.Catalog(c.ctx, skills.CatalogParams{})
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]skills.CatalogEntry{}
	for _, e := range list.Entries {
		if e.ToolType == "builtin" {
			known[e.Name] = e
		}
	}
	fields := func(schema json.RawMessage) map[string]bool {
		var s struct{ Properties map[string]any }
		if err := json.Unmarshal(schema, &s); err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		for k := range s.Properties {
			out[k] = true
		}
		return out
	}
	named := func(cell string) map[string]bool {
		out := map[string]bool{}
		for _, m := range docField.FindAllStringSubmatch(cell, -1) {
			out[m[1]] = true
		}
		return out
	}
	for _, row := range docBuiltin.FindAllStringSubmatch(text, -1) {
		e, ok := known[row[1]]
		if !ok {
			t.Errorf("there is no built-in %s", row[1])
			continue
		}
		delete(known, row[1])
		if got, want := named(row[2]), fields(e.InputSchema); !reflect.DeepEqual(got, want) {
			t.Errorf("%s takes %v, the page says %v", row[1], want, got)
		}
		if got, want := named(row[3]), fields(e.OutputSchema); !reflect.DeepEqual(got, want) {
			t.Errorf("%s gives %v, the page says %v", row[1], want, got)
		}
	}
	for name := range known {
		t.Errorf("the page does not tell of %s", name)
	}
}
