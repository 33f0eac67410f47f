package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"helix/backend/fault"
)

// nested is open n times around inner, closed as often.
func nested(n int, before, inner, after string) string {
	return strings.Repeat(before, n) + inner + strings.Repeat(after, n)
}

const describedBy = `{"openapi":"3.1.0","info":{"title":"x"},"paths":{"/x":{"post":{"operationId":"x","requestBody":{"content":{"application/json":{"schema":%s}}}}}},"components":{"schemas":%s}}`

// What a description may be like: nothing crashes or hangs, and what is refused says why.
func TestOddDescriptionsAreReadOrRefusedWithAReason(t *testing.T) {
	t.Parallel()
	wide := map[string]any{}
	for i := range 3000 {
		wide[fmt.Sprintf("p%d", i)] = map[string]any{"type": "string", "description": strings.Repeat("text ", 20)}
	}
	wideText, err := json.Marshal(map[string]any{"type": "object", "properties": wide})
	if err != nil {
		t.Fatal(err)
	}
	// Each schema refers twice to the next one: 2^40 of them if they were expanded.
	bomb := map[string]any{}
	for i := range 40 {
		next := map[string]any{"$ref": fmt.Sprintf("#/components/schemas/s%d", i+1)}
		bomb[fmt.Sprintf("s%d", i)] = map[string]any{"properties": map[string]any{"a": next, "b": next}}
	}
	bombText, err := json.Marshal(bomb)
	if err != nil {
		t.Fatal(err)
	}
	aliases := "openapi: 3.1.0\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		aliases += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	for name, x := range map[string]struct {
		text       string
		operations int // -1: refused
	}{
		"empty":                        {"", -1},
		"white space":                  {" \n\t", -1},
		"text":                         {"hello", -1},
		"a list":                       {`[{"openapi":"3.1.0"}]`, -1},
		"null":                         {"null", -1},
		"no version":                   {`{"paths":{}}`, -1},
		"version 1":                    {`{"swagger":"1.2","apis":[]}`, -1},
		"version of another kind":      {`{"openapi":{"a":1},"paths":{}}`, -1},
		"HTML":                         {"<!doctype html><html><body>Not found</body></html>", -1},
		"binary":                       {"\x1f\x8b\x08\x00\x00\xff\xfe", -1},
		"UTF-16":                       {"\xff\xfe{\x00}\x00", -1},
		"cut off":                      {`{"openapi":"3.1.0","paths":{"/x":{"get":`, -1},
		"deep JSON":                    {`{"openapi":"3.1.0","x":` + nested(100_000, "[", "", "]") + `}`, -1},
		"deep YAML":                    {"openapi: 3.1.0\nx: " + nested(100_000, "[", "", "]"), -1},
		"an alias bomb":                {aliases, -1},
		"a circle of aliases":          {"openapi: 3.1.0\npaths: &p\n  /x: *p\n", -1},
		"keys that are no text":        {"openapi: 3.1.0\n? [a, b]\n: c\n", -1},
		"a key that appears twice":     {`{"openapi":"3.1.0","paths":{},"paths":{}}`, -1},
		"a huge number":                {`{"openapi":"3.1.0","x":1e999999}`, -1},
		"many references":              {`{"openapi":"3.1.0","x":[` + strings.TrimSuffix(strings.Repeat(`{"$ref":"#"},`, maxRefs+1), ",") + `]}`, -1},
		"version without quotes":       {"openapi: 3.1\npaths: {/x: {get: {}}}", 1},
		"version 3":                    {"openapi: 3\npaths: {/x: {get: {}}}", 1},
		"a later version":              {`{"openapi":"3.2.0","paths":{"/x":{"get":{},"query":{}}}}`, 1},
		"a byte order mark":            {"\xef\xbb\xbf{\"openapi\":\"3.1.0\",\"paths\":{\"/x\":{\"get\":{}}}}", 1},
		"Windows line ends":            {"openapi: 3.1.0\r\npaths:\r\n  /x:\r\n    get: {}\r\n", 1},
		"two YAML documents":           {"openapi: 3.1.0\npaths: {/x: {get: {}}}\n---\nother: 1\n", 1},
		"numbers as codes":             {"openapi: 3.0.0\npaths: {/x: {get: {responses: {200: {description: ok}, 4XX: {}}}}}", 1},
		"merge keys":                   {"openapi: 3.0.0\nbase: &b {get: {summary: y}}\npaths: {/x: {<<: *b}}", 1},
		"yes, no and dates":            {"openapi: 3.0.0\ninfo: {title: no, version: 2020-01-01}\npaths: {/x: {get: {summary: yes}}}", 1},
		"no paths":                     {`{"openapi":"3.1.0","webhooks":{"x":{"post":{}}}}`, 0},
		"paths that are null":          {`{"openapi":"3.1.0","info":null,"servers":null,"tags":null,"components":null,"security":null,"paths":null}`, 0},
		"everything of another kind":   {`{"openapi":"3.1.0","info":[],"servers":{},"components":[],"security":"x","paths":{"/x":{"get":{"parameters":{},"requestBody":[],"responses":7,"tags":"x","security":{},"servers":4,"summary":[1]}},"/y":[],"/z":"text"}}`, 1},
		"parts of another kind":        {`{"openapi":"3.1.0","servers":[1,null,{"url":[]}],"components":{"securitySchemes":{"a":1,"b":{"type":"apiKey"},"c":{"type":"oauth2","flows":[]}}},"paths":{"/x":{"get":{"parameters":[1,null,{"name":5,"in":"query"},{"name":"a","in":"planet"},{"in":"query"},{"name":"b","in":"query","schema":[]}]}}}}`, 1},
		"a path without a slash":       {`{"openapi":"3.1.0","paths":{"x":{"get":{}},"//host/x":{"get":{}},"/../x":{"get":{}},"/x?y":{"get":{}},"https://evil.example/":{"get":{}}}}`, 1},
		"a parameter not in its path":  {`{"openapi":"3.1.0","paths":{"/x":{"get":{"parameters":[{"name":"id","in":"path","required":true}]}},"/y/{gone}":{"get":{}}}}`, 2},
		"operations of the same id":    {`{"openapi":"3.1.0","paths":{"/x":{"get":{"operationId":"a"},"post":{"operationId":"a"}},"/y":{"get":{"operationId":"A"}}}}`, 3},
		"a path that refers to itself": {`{"openapi":"3.1.0","paths":{"/x":{"$ref":"#/paths/~1x"},"/y":{"get":{}}}}`, 1},
		"references out of it":         {`{"openapi":"3.1.0","paths":{"/x":{"$ref":"https://evil.example/x"},"/y":{"$ref":"file:///etc/passwd"},"/z":{"$ref":"../z.yaml#/a"}}}`, 0},
		"a schema of itself":           {fmt.Sprintf(describedBy, `{"$ref":"#/components/schemas/A"}`, `{"A":{"properties":{"a":{"$ref":"#/components/schemas/A"}},"allOf":[{"$ref":"#/components/schemas/A"}]}}`), 1},
		"a schema that is a reference": {fmt.Sprintf(describedBy, `{"$ref":"#/components/schemas/A"}`, `{"A":{"$ref":"#/components/schemas/B"},"B":{"$ref":"#/components/schemas/A"}}`), 1},
		"a bomb of references":         {fmt.Sprintf(describedBy, `{"$ref":"#/components/schemas/s0"}`, bombText), 1},
		"a wide schema":                {fmt.Sprintf(describedBy, wideText, `{}`), 1},
		"a deep schema":                {fmt.Sprintf(describedBy, nested(50, `{"properties":{"a":`, `{"type":"string"}`, `}}`), `{}`), 1},
		"keywords of another kind":     {fmt.Sprintf(describedBy, `{"type":["string",7],"enum":{},"required":true,"minimum":"3","maxLength":-1,"pattern":"(","format":5,"items":[],"allOf":{},"properties":[],"multipleOf":0,"uniqueItems":"yes"}`, `{}`), 1},
		"a pattern that takes long":    {fmt.Sprintf(describedBy, `{"type":"object","properties":{"a":{"type":"string","pattern":"^(a+)+$"}}}`, `{}`), 1},
		"boolean schemas":              {fmt.Sprintf(describedBy, `false`, `{"A":true}`), 1},
		"a server that isn't one":      {`{"openapi":"3.1.0","servers":[{"url":"javascript:alert(1)"},{"url":"https://user:pass@host/"},{"url":"{scheme}://{host}","variables":7}],"paths":{"/x":{"get":{}}}}`, 1},
		"Swagger of another kind":      {`{"swagger":"2.0","host":7,"schemes":"https","definitions":[],"responses":7,"securityDefinitions":{"a":null},"consumes":"x","paths":{"/x":{"get":{"parameters":[{"in":"body"},{"in":"formData"},{"$ref":"#/parameters/gone"},null],"responses":{"200":null}}},"/y":null}}`, 1},
	} {
		d, err := Parse([]byte(x.text), "https://a.example/")
		if x.operations < 0 {
			if f := fault.As(err); err == nil || f.Kind != fault.Invalid && f.Kind != fault.Limit || len(f.Message) < 10 {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(d.Operations) != x.operations && len(d.Operations)+len(d.Skipped) < x.operations {
			t.Errorf("%s: %d operations, want %d; skipped %v", name, len(d.Operations), x.operations, d.Skipped)
		}
		for _, o := range d.Operations {
			p, err := d.Plan(o.Key)
			if err != nil {
				if fault.As(err).Kind != fault.Invalid {
					t.Errorf("%s, %s: %v", name, o.Key, err)
				}
				continue
			}
			if len(p.Input) > MaxModelSchema || !json.Valid(p.Input) {
				t.Errorf("%s, %s: the schema has %d bytes", name, o.Key, len(p.Input))
			}
			input := json.RawMessage(`{"body":{"a":"` + strings.Repeat("a", 5000) + `!"}}`)
			if _, err := p.Check(context.Background(), input); err != nil && fault.As(err).Kind == fault.Internal {
				t.Errorf("%s, %s: %v", name, o.Key, err)
			}
			if r, err := p.Build(input, BuildOptions{Server: "https://a.example"}); err == nil && !strings.HasPrefix(r.URL, "https://a.example/") {
				t.Errorf("%s, %s: the address is %s", name, o.Key, r.URL)
			}
			kept, err := d.Keep([]string{o.Key})
			if err != nil {
				t.Errorf("%s, %s: %v", name, o.Key, err)
				continue
			}
			if again, err := Parse(kept, ""); err != nil || len(again.Operations) != 1 {
				t.Errorf("%s, %s: the kept part: %v", name, o.Key, err)
			}
		}
	}
}
