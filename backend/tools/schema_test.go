package tools

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/storage"
)

func compiled(t testing.TB, text string) *schema {
	t.Helper()
	s, err := compileSchema(json.RawMessage(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func TestParameters(t *testing.T) {
	t.Parallel()
	s := compiled(t, `{"type":"object","required":["name"],"additionalProperties":false,"properties":{
		"name":{"type":"string","minLength":2},"age":{"type":"integer","default":7},"tags":{"type":"array","items":{"type":"object","properties":{"k":{"default":"v"}}}},
		"nested":{"$ref":"#/$defs/n"},"mail":{"type":"string","format":"email"}},"$defs":{"n":{"type":"object","properties":{"deep":{"type":"boolean","default":true}}}}}`)
	got, err := s.apply(json.RawMessage(`{"name":"Bo","tags":[{}],"nested":{}}`))
	if err != nil || string(got) != `{"age":7,"name":"Bo","nested":{"deep":true},"tags":[{"k":"v"}]}` {
		t.Fatalf("%s %v", got, err)
	}
	if got, err := s.apply(json.RawMessage(`{"name":"Bo","age":1234567890123456789}`)); err != nil || string(got) != `{"name":"Bo","age":1234567890123456789}` {
		t.Fatalf("%s %v", got, err)
	}
	for params, want := range map[string][]ParamError{
		``:                            {{Path: "/name", Keyword: "required"}},
		`null`:                        {{Path: "/name", Keyword: "required"}},
		`{"name":"B"}`:                {{Path: "/name", Keyword: "minLength"}},
		`{"name":3}`:                  {{Path: "/name", Keyword: "type"}},
		`{"name":"Bo","age":1.5}`:     {{Path: "/age", Keyword: "type"}},
		`{"name":"Bo","x/y":1}`:       {{Path: "/x~1y", Keyword: "additionalProperties"}},
		`{"name":"Bo","mail":"nope"}`: {{Path: "/mail", Keyword: "format"}},
		`[]`:                          {{Path: "", Keyword: "type"}},
		`{"name":"Bo"`:                {{Path: "", Keyword: "json"}},
		`{"name":"Bo","name":"Bo"}`:   {{Path: "", Keyword: "json"}},
		`{"name":"Bo"} {}`:            {{Path: "", Keyword: "json"}},
	} {
		_, err := s.apply(json.RawMessage(params))
		f := fault.As(err)
		d, _ := f.Details.(ParamErrors)
		if f.Kind != fault.Invalid || len(d.Errors) != len(want) || d.Errors[0].Path != want[0].Path || d.Errors[0].Keyword != want[0].Keyword || d.Errors[0].Message == "" {
			t.Errorf("%s: %+v, want %+v", params, d.Errors, want)
		}
	}
	many := compiled(t, `{"type":"object","additionalProperties":{"type":"string"}}`)
	text := map[string]int{}
	for i := range 50 {
		text["k"+itoa(i)] = i
	}
	_, err = many.apply(jsonText(text))
	if d := fault.As(err).Details.(ParamErrors); len(d.Errors) != maxParamErrors {
		t.Errorf("%d errors listed", len(d.Errors))
	}
}

func TestDrafts(t *testing.T) {
	t.Parallel()
	old := compiled(t, `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"p":{"minimum":3}},"properties":{"a":{"$ref":"#/definitions/p"}},"dependencies":{"a":["b"]}}`)
	if _, err := old.apply(json.RawMessage(`{"a":2,"b":1}`)); err == nil {
		t.Error("draft-07: minimum not checked")
	}
	if _, err := old.apply(json.RawMessage(`{"a":3}`)); err == nil {
		t.Error("draft-07: dependencies not checked")
	}
	mid := compiled(t, `{"$schema":"https://json-schema.org/draft/2019-09/schema","items":[{"type":"string"}],"type":["array","object"]}`)
	if _, err := mid.apply(json.RawMessage(`[1]`)); err == nil {
		t.Error("2019-09: items not checked")
	}
	now := compiled(t, `{"prefixItems":[{"type":"string"}],"type":["array","object"],"unevaluatedProperties":false,"properties":{"a":{}}}`)
	if _, err := now.apply(json.RawMessage(`{"b":1}`)); err == nil {
		t.Error("2020-12: unevaluatedProperties not checked")
	}
}

func TestSchemasThatAreRefused(t *testing.T) {
	t.Parallel()
	hits := 0
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	t.Cleanup(srv.Close)
	chain := map[string]any{}
	for i := range 80 {
		chain["d"+itoa(i)] = map[string]any{"$ref": "#/$defs/d" + itoa(i+1)}
	}
	chain["d80"] = map[string]any{}
	for name, c := range map[string]struct{ text, path string }{
		"remote":             {`{"properties":{"a":{"$ref":"` + srv.URL + `/x.json"}}}`, "/properties/a/$ref"},
		"remote by file":     {`{"$ref":"file:///etc/passwd"}`, "/$ref"},
		"remote through id":  {`{"$id":"` + srv.URL + `/","$ref":"other.json"}`, "/$ref"},
		"remote schema":      {`{"$schema":"` + srv.URL + `/meta.json"}`, ""},
		"look-ahead":         {`{"properties":{"a":{"pattern":"(?=x)"}}}`, "/properties/a/pattern"},
		"back-reference":     {`{"properties":{"a":{"pattern":"(a)\\1"}}}`, "/properties/a/pattern"},
		"wrong type":         {`{"type":"strange"}`, "/type"},
		"no schema":          {`[1]`, ""},
		"no JSON":            {`{`, ""},
		"deep":               {strings.Repeat(`{"not":`, 40) + "{}" + strings.Repeat("}", 40), ""},
		"large":              {`{"description":"` + strings.Repeat("x", maxSchemaBytes) + `"}`, ""},
		"many values":        {`{"enum":[` + strings.Repeat("1,", 11_000) + `1]}`, ""},
		"long chain of refs": {string(jsonText(map[string]any{"$ref": "#/$defs/d0", "$defs": chain})), ""},
		"missing target":     {`{"$ref":"#/$defs/none"}`, ""},
		"duplicate keys":     {`{"type":"object","type":"string"}`, ""},
	} {
		v := examine(definition{Code: "return 1", Parameters: json.RawMessage(c.text)}).result
		if v.Valid {
			t.Errorf("%s was accepted", name)
			continue
		}
		if p := v.Errors[0]; p.Field != "parameters" || c.path != "" && p.Path != c.path {
			t.Errorf("%s: %+v, want place %q", name, p, c.path)
		}
	}
	if hits != 0 {
		t.Errorf("%d requests left for a schema", hits)
	}
}

func TestCostlySchemasAreBounded(t *testing.T) {
	t.Parallel()
	doubling := map[string]any{"d30": map[string]any{"type": "object"}}
	for i := range 30 {
		r := map[string]any{"$ref": "#/$defs/d" + itoa(i+1)}
		doubling["d"+itoa(i)] = map[string]any{"allOf": []any{r, r}}
	}
	value := "{}"
	for range 40 {
		value = `{"a":` + value + `}`
	}
	for name, c := range map[string]struct {
		text, params string
		ok           bool
	}{
		"doubling references": {string(jsonText(map[string]any{"$ref": "#/$defs/d0", "$defs": doubling})), `{}`, false},
		"branching recursion": {`{"properties":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#","type":"string"}]}},"required":["zz"]}`, value, false},
		"recursion":           {`{"properties":{"a":{"$ref":"#"}}}`, value, true},
		"self reference":      {`{"$ref":"#"}`, `{}`, false},
		"regular expression":  {`{"properties":{"a":{"pattern":"^(a+)+$"}}}`, `{"a":"` + strings.Repeat("a", 50_000) + `!"}`, false},
		"plain":               {`{"properties":{"a":{"type":"string"}}}`, `{"a":"b"}`, true},
	} {
		begun := time.Now()
		s, err := compileSchema(json.RawMessage(c.text))
		if err == nil {
			_, err = s.apply(json.RawMessage(c.params))
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("%s took %s", name, d)
		}
	}
}

// manyTools inserts tools directly: creating them one by one would test the disk.
func manyTools(t testing.TB, b *bundle, n int) {
	t.Helper()
	ex := examine(definition{Code: "return 1"})
	if err := b.db.Write(b.ctx, func(tx *storage.Tx) error {
		for i := range n {
			tl := &Tool{ID: storage.NewID(), owner: b.db.LocalUser().ID, Name: "Tool " + itoa(i), Version: "1.0.0", Origin: OriginLocal, Visibility: Private, IsEnabled: true,
				Tags: []string{"t" + itoa(i%10)}, Samples: []Sample{}, CreatedAt: tx.Now, UpdatedAt: tx.Now, hash: ex.hash}
			tl.setDefinition(ex.def)
			if err := insertTool(tx, tl); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestManyTools(t *testing.T) {
	t.Parallel()
	b := setup(t)
	manyTools(t, b, 2000) // 10,000 in the benchmark
	begun := time.Now()
	l, err := b.List(b.ctx, ListParams{Limit: 100, Offset: 1900})
	if err != nil || l.Total != 2000 || len(l.Tools) != 100 {
		t.Fatalf("%d %d %v", l.Total, len(l.Tools), err)
	}
	if d := time.Since(begun); d > 5*time.Second {
		t.Errorf("a page took %s", d)
	}
}
