package tools

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"helix/backend/fault"
	"helix/backend/lifecycle"
	"helix/backend/schema"
	"helix/backend/storage"
	"helix/backend/testkit"
)

func compiled(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile([]byte(text))
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
	got, err := apply(t.Context(), s, json.RawMessage(`{"name":"Bo","tags":[{}],"nested":{}}`))
	if err != nil || string(got) != `{"age":7,"name":"Bo","nested":{"deep":true},"tags":[{"k":"v"}]}` {
		t.Fatalf("%s %v", got, err)
	}
	if got, err := apply(t.Context(), s, json.RawMessage(`{"name":"Bo","age":1234567890123456789}`)); err != nil || string(got) != `{"name":"Bo","age":1234567890123456789}` {
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
		_, err := apply(t.Context(), s, json.RawMessage(params))
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
	_, err = apply(t.Context(), many, lifecycle.Text(text))
	if d := fault.As(err).Details.(ParamErrors); len(d.Errors) != schema.MaxFindings {
		t.Errorf("%d errors listed", len(d.Errors))
	}
}

func TestDrafts(t *testing.T) {
	t.Parallel()
	old := compiled(t, `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"p":{"minimum":3}},"properties":{"a":{"$ref":"#/definitions/p"}},"dependencies":{"a":["b"]}}`)
	if _, err := apply(t.Context(), old, json.RawMessage(`{"a":2,"b":1}`)); err == nil {
		t.Error("draft-07: minimum not checked")
	}
	if _, err := apply(t.Context(), old, json.RawMessage(`{"a":3}`)); err == nil {
		t.Error("draft-07: dependencies not checked")
	}
	mid := compiled(t, `{"$schema":"https://json-schema.org/draft/2019-09/schema","items":[{"type":"string"}],"type":["array","object"]}`)
	if _, err := apply(t.Context(), mid, json.RawMessage(`[1]`)); err == nil {
		t.Error("2019-09: items not checked")
	}
	now := compiled(t, `{"prefixItems":[{"type":"string"}],"type":["array","object"],"unevaluatedProperties":false,"properties":{"a":{}}}`)
	if _, err := apply(t.Context(), now, json.RawMessage(`{"b":1}`)); err == nil {
		t.Error("2020-12: unevaluatedProperties not checked")
	}
}

func TestSchemasThatAreRefused(t *testing.T) {
	t.Parallel()
	hits := 0
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	t.Cleanup(srv.Close)
	for name, c := range map[string]struct{ text, path string }{
		"remote":            {`{"properties":{"a":{"$ref":"` + srv.URL + `/x.json"}}}`, "/properties/a/$ref"},
		"remote through id": {`{"$id":"` + srv.URL + `/","$ref":"other.json"}`, "/$ref"},
		"remote schema":     {`{"$schema":"` + srv.URL + `/meta.json"}`, ""},
		"look-ahead":        {`{"properties":{"a":{"pattern":"(?=x)"}}}`, "/properties/a/pattern"},
		"wrong type":        {`{"type":"strange"}`, "/type"},
		"large number":      {`{"properties":{"n":{"minimum":1e100000000}}}`, "/properties/n/minimum"},
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

func TestLargeNumbersInParametersAreRefused(t *testing.T) {
	t.Parallel()
	_, err := apply(t.Context(), compiled(t, `{"properties":{"n":{"minimum":0}}}`), json.RawMessage(`{"n":1e100000000}`))
	d, _ := fault.As(err).Details.(ParamErrors)
	if !fault.Is(err, fault.Invalid) || len(d.Errors) != 1 || d.Errors[0].Path != "/n" || d.Errors[0].Keyword != "number" {
		t.Errorf("%v %+v", err, d)
	}
}

// manyTools inserts tools directly, because creating them one by one would mostly measure the disk.
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
	testkit.SkipRaced(t, "much of the database and little at the same time")
	t.Parallel()
	b := setup(t)
	manyTools(t, b, 2000) // 10,000 in the benchmark
	l, err := b.List(b.ctx, ListParams{Limit: 100, Offset: 1900})
	if err != nil || l.Total != 2000 || len(l.Tools) != 100 {
		t.Fatalf("%d %d %v", l.Total, len(l.Tools), err)
	}
}
