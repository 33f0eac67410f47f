package openapi

import (
	"encoding/json"
	"fmt"
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

// What large APIs write though the standard doesn't define it: lists and plain values in the style deepObject.
func TestDeepObjectsTakeListsAndPlainValues(t *testing.T) {
	t.Parallel()
	p := one(t, "/x", "get", `"parameters":[{"name":"expand","in":"query","style":"deepObject","explode":true,"schema":{"type":"array","items":{"type":"string"}}},
		{"name":"created","in":"query","style":"deepObject","explode":true,"schema":{"anyOf":[{"type":"object"},{"type":"integer"}]}},
		{"name":"lines","in":"query","style":"deepObject","explode":true,"schema":{"type":"array","items":{"type":"object"}}}]`)
	for input, want := range map[string]string{
		`{"expand":["a","b c"]}`:                     "expand%5B%5D=a&expand%5B%5D=b%20c",
		`{"created":5}`:                              "created=5",
		`{"created":{"gt":1,"in":[2,3]}}`:            "created%5Bgt%5D=1&created%5Bin%5D=2&created%5Bin%5D=3",
		`{"lines":[{"id":1,"tags":["x"]},{"id":2}]}`: "lines%5B0%5D%5Bid%5D=1&lines%5B0%5D%5Btags%5D=x&lines%5B1%5D%5Bid%5D=2",
		`{"expand":[],"created":{},"lines":[{}]}`:    "",
	} {
		if r := build(t, p, input); strings.TrimPrefix(r.URL, "https://api.example.com/v1/x") != strings.TrimSuffix("?"+want, "?") {
			t.Errorf("%s: %s", input, r.URL)
		}
	}
}

func TestReferencesMayBeNull(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"openapi":"3.0.3","info":{},"components":{"schemas":{"A":{"type":"object","required":["n"]}}},"paths":{"/x":{"post":{"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{
		"a":{"nullable":true,"allOf":[{"$ref":"#/components/schemas/A"}],"description":"who"},"b":{"allOf":[{"$ref":"#/components/schemas/A"}]}}}}}}}}}}`)
	p, err := d.Plan("post /x")
	if err != nil {
		t.Fatal(err)
	}
	for input, ok := range map[string]bool{`{"body":{"a":null}}`: true, `{"body":{"a":{"n":1}}}`: true, `{"body":{"a":{}}}`: false, `{"body":{"b":null}}`: false} {
		if list, err := p.Check(t.Context(), json.RawMessage(input)); err != nil || (len(list) == 0) != ok {
			t.Errorf("%s: %v %v", input, list, err)
		}
	}
}

func TestAnyMediaTypeTakesObjectsAndFiles(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		`"*/*":{"schema":{"type":"object"}}`:                                 `application/json {"a":1}`,
		`"*/*":{"schema":{"type":"array"}},"application/json":{"schema":{}}`: `application/json {"a":1}`,
		`"image/*":{"schema":{"type":"string","format":"binary"}}`:           "image/png dot",
		`"*/*":{}`:    "image/png dot",
		`"text/*":{}`: "text/plain hi",
		`"application/vnd.a+json;v=2":{"schema":{"type":"object"}},"*/*":{"x-a":1}`: `application/vnd.a+json;v=2 {"a":1}`,
	} {
		p := one(t, "/x", "post", `"requestBody":{"content":{`+content+`}}`)
		input := map[byte]string{'a': `{"body":{"a":1}}`, 'i': `{"body":{"blob":"` + strings.Repeat("0", 64) + `","contentType":"image/png"}}`, 't': `{"body":"hi"}`}[want[0]]
		if list, err := p.Check(t.Context(), json.RawMessage(input)); err != nil || len(list) > 0 {
			t.Errorf("%s: %v, %v", content, list, err)
		}
		r, err := p.Build(json.RawMessage(input), BuildOptions{Server: "https://a.example", Blob: func(string) ([]byte, error) { return []byte("dot"), nil }})
		if err != nil || r.Header.Get("Content-Type")+" "+string(r.Body) != want {
			t.Errorf("%s: %v, %v", content, r, err)
		}
	}
}

func TestLongEnumerationsLeaveRoomForTheRest(t *testing.T) {
	t.Parallel()
	values := make([]string, 5000)
	for i := range values {
		values[i] = fmt.Sprintf("zone/number-%d", i)
	}
	list, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	p := one(t, "/x", "get", `"parameters":[{"name":"zone","in":"query","description":"Where.","schema":{"type":"string","enum":`+string(list)+`}},{"name":"by","in":"query","schema":{"type":"string","enum":["a","b"]}}]`)
	if s := string(p.Input); !strings.Contains(s, `Where. One of 5000 values, such as \"zone/number-0\"`) || !strings.Contains(s, `"enum":["a","b"]`) {
		t.Errorf("%.500s", s)
	}
	for input, ok := range map[string]bool{`{"zone":"zone/number-4999"}`: true, `{"zone":"mars"}`: false} {
		if list, err := p.Check(t.Context(), json.RawMessage(input)); err != nil || (len(list) == 0) != ok {
			t.Errorf("%s: %v %v", input, list, err)
		}
	}
}

func TestNamesInOtherScripts(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"openapi":"3.1.0","info":{"title":"宠物"},"components":{"schemas":{"宠物":{"type":"object","required":["名"],"properties":{"名":{"type":"string"},"亲":{"$ref":"#/components/schemas/宠物"}}},"主人":{"type":"integer"}}},
		"paths":{"/宠物/{号}":{"post":{"operationId":"加宠物","parameters":[{"name":"号","in":"path","required":true,"schema":{"$ref":"#/components/schemas/主人"}}],"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/%E5%AE%A0%E7%89%A9"}}}}},
		"get":{"operationId":"看宠物","parameters":[{"name":"号","in":"path","required":true,"schema":{}}]}}}}`)
	p, err := d.Plan("post /宠物/{号}")
	if err != nil {
		t.Fatal(err)
	}
	for input, ok := range map[string]bool{`{"号":7,"body":{"名":"a","亲":{"名":"b"}}}`: true, `{"号":7,"body":{"名":"a","亲":{}}}`: false, `{"号":"x","body":{"名":"a"}}`: false} {
		if list, err := p.Check(t.Context(), json.RawMessage(input)); err != nil || (len(list) == 0) != ok || len(p.Notes()) > 0 {
			t.Errorf("%s: %v %v %v", input, list, err, p.Notes())
		}
	}
	if !strings.Contains(string(p.Input), "(recursive: schema") {
		t.Errorf("%s", p.Input)
	}
	r, err := p.Build(json.RawMessage(`{"号":7,"body":{"名":"a"}}`), BuildOptions{Server: "https://a.example"})
	if err != nil || r.URL != "https://a.example/%E5%AE%A0%E7%89%A9/7" {
		t.Errorf("%+v, %v", r, err)
	}
	if names := Names("pets", d.Operations); len(names) != 2 || names[0] == names[1] {
		t.Error(names)
	}
}

func TestUnusualSpellingsInYAML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{openapi: 3.1.0, paths: {/x: {get: {parameters: [{name: n, in: query, schema: {type: number, minimum: .5}}]}}}}":                                                                                 "0.5",
		"%YAML 1.2\n---\nopenapi: 3.1.0\npaths:\n  /x:\n    get:\n      parameters:\n      - {name: n, in: query, schema: {type: number, minimum: 1_000}}\n":                                              "1000",
		"openapi: 3.1.0\nx: &s\n  type: number\n  minimum: 1.\npaths:\n  /x:\n    get:\n      parameters:\n      - name: n\n        in: query\n        schema:\n          <<: [*s, {type: string}]\n":     "1",
		"openapi: 3.1.0\npaths:\n  /x:\n    get:\n      responses: {200: {description: ok}, 2020-01-01: {}, true: {}, ~: {}}\n      parameters:\n      - {name: n, in: query, schema: {minimum: 0x10}}\n": "16",
	} {
		d, err := Parse([]byte(text), "")
		if err != nil || len(d.Operations) != 1 {
			t.Errorf("%s: %v", text, err)
			continue
		}
		p, err := d.Plan("get /x")
		if err != nil || !strings.Contains(string(p.Input), `"minimum":`+want) {
			t.Errorf("%s: %s, %v", text, p.Input, err)
		}
	}
}

func TestPathItemsOfSwaggerMayBeReferences(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"swagger":"2.0","info":{},"host":"a.example","x-paths":{"x":{"parameters":[{"name":"q","in":"query","type":"string"}],"get":{"responses":{}}}},"paths":{"/x":{"$ref":"#/x-paths/x"},"/y":{"$ref":"other.json"}}}`)
	if len(d.Operations) != 1 || len(d.Skipped) != 1 || !strings.Contains(d.Skipped[0].Message, "other.json") {
		t.Fatalf("%+v, %+v", d.Operations, d.Skipped)
	}
	p, err := d.Plan("get /x")
	if err != nil || !strings.Contains(string(p.Input), `"q"`) {
		t.Errorf("%s, %v", p.Input, err)
	}
}

func TestNextPages(t *testing.T) {
	t.Parallel()
	params := func(list ...string) string {
		var out []string
		for _, p := range list {
			name, more, _ := strings.Cut(p, " ")
			out = append(out, `{"name":"`+name+`","in":"query","schema":{"type":"integer"`+more+`}}`)
		}
		return `"parameters":[` + strings.Join(out, ",") + `]`
	}
	for _, c := range []struct{ params, input, link, body, want string }{
		{params("page", "ids"), `{}`, `<https://a.example/x?ids=1&tags=a,b&page=2>; rel="next", <https://a.example/x?page=9>; rel="last"`, `[1]`, `{"ids":1,"page":2}`},
		{params("page"), `{"page":3}`, `<https://a.example/x?page=1>; title="a, b; c"; rel="first prev"`, `[1]`, ``},
		{params("page"), `{}`, ``, `[1]`, `{"page":2}`},
		{params("page"), `{"page":4}`, ``, `{"items":[1],"total":9}`, `{"page":5}`},
		{params("page"), `{"page":4}`, ``, `[]`, ``},
		{params("page ,\"default\":0"), `{}`, ``, `[1]`, `{"page":1}`},
		{params("page", "per_page ,\"default\":30"), `{}`, ``, `[1,2]`, ``},
		{params("page", "limit"), `{"limit":2}`, ``, `[1,2]`, `{"limit":2,"page":2}`},
		{params("offset", "limit"), `{"limit":1000}`, ``, `{"data":[1,2]}`, `{"limit":1000,"offset":2}`},
		{params("page"), `{}`, ``, `{"a":[1],"b":[2]}`, ``},
		{params("page"), `{}`, ``, `{"results":[1],"next":null}`, ``},
		{params("page"), `{}`, ``, `{"results":[1],"next":"https://a.example/x?page=7"}`, `{"page":7}`},
		{params("cursor", "page"), `{}`, ``, `{"items":[1],"cursor":""}`, ``},
		{params("id"), `{}`, ``, `[1]`, ``},
	} {
		p := one(t, "/x", "get", c.params)
		h := http.Header{"Content-Type": {"application/json"}}
		if c.link != "" {
			h.Set("Link", c.link)
		}
		r := p.Read(t.Context(), json.RawMessage(c.input), &safehttp.Response{Status: 200, Header: h, Body: []byte(c.body)})
		if string(r.NextPage) != c.want {
			t.Errorf("%s %s %s: %s, want %s", c.input, c.link, c.body, r.NextPage, c.want)
		}
	}
}

func TestSecurityWithoutAValueIsThatOfTheDocument(t *testing.T) {
	t.Parallel()
	d := parse(t, "openapi: 3.0.0\nsecurity: [{key: []}]\ncomponents: {securitySchemes: {key: {type: apiKey, in: header, name: X-Key}}}\npaths:\n  /x:\n    get:\n      security:\n  /y:\n    get:\n      security: []\n")
	if a, b := d.Operations[0].Security, d.Operations[1].Security; len(a) != 1 || len(b) != 0 {
		t.Error(a, b)
	}
}
