package openapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"helix/backend/safehttp"
)

func TestPathParametersFollowTheTemplate(t *testing.T) {
	t.Parallel()
	p := one(t, "/a/{id}/{part}.json", "get", `"parameters":[{"name":"part","in":"path","schema":{"type":"string"}},{"name":"gone","in":"path","required":true,"schema":{"type":"string"}}]`)
	if list, err := p.Check(t.Context(), json.RawMessage(`{"part":"x"}`)); err != nil || len(list) != 1 {
		t.Errorf("a part of the path that the description forgets isn't required: %v, %v", list, err)
	}
	if r := build(t, p, `{"part":"x","id":"a/b"}`); r.URL != "https://api.example.com/v1/a/a%2Fb/x.json" {
		t.Error(r.URL)
	}
}

// In an allOf, the list of required properties often stands beside the schema that says which of them are readOnly.
func TestReadOnlyPropertiesAreNotRequiredByOtherPartsOfAllOf(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"openapi":"3.0.3","info":{},"components":{"schemas":{"Base":{"type":"object","properties":{"id":{"type":"integer","readOnly":true}}},"Pet":{"required":["id","name"],"properties":{"name":{"type":"string"}},"allOf":[{"$ref":"#/components/schemas/Base"},{"required":["id"]}]}}},
		"paths":{"/x":{"post":{"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Pet"}}}}}}}}`)
	p, err := d.Plan("post /x")
	if err != nil {
		t.Fatal(err)
	}
	for input, ok := range map[string]bool{`{"body":{"name":"a"}}`: true, `{"body":{}}`: false, `{"body":{"name":"a","id":1}}`: false} {
		if list, err := p.Check(t.Context(), json.RawMessage(input)); err != nil || (len(list) == 0) != ok {
			t.Errorf("%s: %v %v", input, list, err)
		}
	}
}

func TestPlansDoNotChangeTheKeptPart(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"openapi":"3.1.0","info":{},"paths":{"/x":{"post":{"requestBody":{"content":{"application/json":{"schema":{"type":"object","required":["b","a","b"],"properties":{"a":{},"b":{}}}}}}}}}}`)
	before, err := d.Keep([]string{"post /x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Plan("post /x"); err != nil {
		t.Fatal(err)
	}
	if after, err := d.Keep([]string{"post /x"}); err != nil || string(after) != string(before) {
		t.Errorf("%s became %s, %v", before, after, err)
	}
}

func TestListsInFormsOfSwagger(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"swagger":"2.0","info":{},"host":"a.example","paths":{"/x":{"post":{"consumes":["application/x-www-form-urlencoded"],"responses":{},"parameters":[
		{"name":"comma","in":"formData","type":"array","items":{"type":"string"}},{"name":"tab","in":"formData","type":"array","items":{"type":"string"},"collectionFormat":"tsv"},{"name":"pipe","in":"formData","type":"array","items":{"type":"string"},"collectionFormat":"pipes"},{"name":"twice","in":"formData","type":"array","items":{"type":"string"},"collectionFormat":"multi"}]}}}}`)
	p, err := d.Plan("post /x")
	if err != nil {
		t.Fatal(err)
	}
	if r := build(t, p, `{"body":{"comma":["a","b"],"tab":["a","b"],"pipe":["a","b"],"twice":["a","b"]}}`); string(r.Body) != "comma=a,b&pipe=a%7Cb&tab=a%09b&twice=a&twice=b" {
		t.Errorf("%s", r.Body)
	}
}

func TestBasePathsWithoutASlash(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"v2/": "https://a.example/v2", "/v2": "https://a.example/v2", "/": "https://a.example", "": "https://a.example"} {
		d := parse(t, `{"swagger":"2.0","info":{},"host":"a.example","basePath":"`+path+`","paths":{}}`)
		if got, err := d.ServerURL(d.Servers[0], nil); err != nil || got != want {
			t.Errorf("%q: %q, %v", path, got, err)
		}
	}
}

func TestFieldsOfFormsInJSON(t *testing.T) {
	t.Parallel()
	p := one(t, "/x", "post", `"requestBody":{"content":{"application/x-www-form-urlencoded":{"schema":{"type":"object"},"encoding":{"a":{"contentType":"application/json"},"b":{"contentType":"application/json","style":"form","explode":false}}}}}`)
	if r := build(t, p, `{"body":{"a":{"x":[1]},"b":[1,2],"c":{"y":1}}}`); string(r.Body) != "a=%7B%22x%22%3A%5B1%5D%7D&b=1,2&y=1" {
		t.Errorf("%s", r.Body)
	}
}

func TestServerVariablesNeedAValue(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"openapi":"3.0.0","info":{},"servers":[{"url":"https://{region}.a.example/{version}","variables":{"region":{},"version":{"default":""}}}],"paths":{"/x":{"get":{}}}}`)
	if got, err := d.ServerURL(d.Servers[0], nil); err == nil || !strings.Contains(err.Error(), "region") {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := d.ServerURL(d.Servers[0], map[string]string{"region": "eu"}); err != nil || got != "https://eu.a.example" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestResponsesInOtherEncodings(t *testing.T) {
	t.Parallel()
	p := one(t, "/x", "get", `"responses":{"200":{"content":{"application/json":{"schema":{"type":"object","required":["a"]}}}}}`)
	for _, c := range []struct{ kind, body, want string }{
		{"application/json", "\xef\xbb\xbf{\"a\":1}", `{"a":1}`},
		{"application/json; charset=ISO-8859-1", "{\"a\":\"caf\xe9\"}", `{"a":"café"}`},
		{"text/plain; charset=windows-1252", "5 \x80", `"5 €"`},
		{"text/plain; charset=utf-16le", "h\x00i\x00", `"hi"`},
		{"text/plain; charset=unknown", "hi", `"hi"`},
	} {
		r := p.Read(t.Context(), json.RawMessage(`{}`), &safehttp.Response{Status: 200, Header: http.Header{"Content-Type": {c.kind}}, Body: []byte(c.body)})
		if raw, _ := json.Marshal(r.Body); string(raw) != c.want || len(r.Warnings) != 0 || r.File != nil {
			t.Errorf("%s: %s, %v", c.kind, raw, r.Warnings)
		}
	}
}
