//go:build linux

package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func FuzzDescribe(f *testing.F) {
	for _, text := range []string{
		`{"name":"echo","description":"Returns its text.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`,
		`{"name":"a\nb","title":"\u202eevil","inputSchema":{"$ref":"https://example.org/schema"}}`,
		`{"name":"*","inputSchema":{"type":"object","required":[1e999]},"outputSchema":true}`,
		`{"name":"` + strings.Repeat("é", 100) + `","inputSchema":{"$defs":{"a":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var tool sdk.Tool
		if len(text) > 1<<16 || json.Unmarshal(text, &tool) != nil {
			return
		}
		d, err := describe("server", &tool, nil)
		if err != nil {
			return
		}
		again, err := describe("server", &tool, map[[32]byte]string{d.hash: d.problem})
		if err != nil || again.hash != d.hash || again.problem != d.problem {
			t.Errorf("described differently: %q and %q, %v", d.problem, again.problem, err)
		}
		if !json.Valid(d.raw) || d.tokens < 0 || d.tier(TrustAsk).String() == "read_only" {
			t.Errorf("%s, %d tokens, %s", d.raw, d.tokens, d.tier(TrustAsk))
		}
		fn := functionName("server", d.Name)
		if len(fn) > maxFunctionName || strings.ContainsFunc(fn, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-')
		}) {
			t.Errorf("function name %q", fn)
		}
	})
}

func FuzzParts(f *testing.F) {
	for _, text := range []string{
		`{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"ZG90"},{"type":"resource_link","uri":"file:///a","name":"a"}]}`,
		`{"content":[{"type":"resource","resource":{"uri":"x","blob":"ZG90"}},{"type":"audio","data":""},{"type":"resource","resource":null}],"isError":true}`,
		`{"content":[null],"structuredContent":{"a":1e999}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r sdk.CallToolResult
		if json.Unmarshal(text, &r) != nil {
			return
		}
		list := parts(r.Content)
		joined, only := textOf(list)
		for _, p := range list {
			if p.Type == "text" && !strings.Contains(joined, p.Text) || p.Type != "text" && only {
				t.Errorf("%q of %+v", joined, list)
			}
		}
		if _, err := json.Marshal(list); err != nil {
			t.Error(err)
		}
	})
}
