// Package openapi reads API descriptions (OpenAPI 3.0 and 3.1, Swagger 2.0), lists their operations,
// describes the input of each as JSON Schema, and turns an input into an HTTP request. It fetches
// nothing, stores nothing and has no tables: domains above it do.
//
// A description comes from outside. Reading one takes bounded work, follows no reference out of the
// document, and fails only for what no operation could do without: an unusable operation is listed
// as skipped, and everything else remains.
package openapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helix/backend/fault"
)

// Limits of a description.
const (
	MaxBytes      = 32 << 20
	maxDepth      = 128
	maxNodes      = 1_000_000 // values, after the aliases of YAML
	maxRefs       = 200_000
	maxOperations = 5_000
	maxRefChain   = 32 // references to references
	maxWarnings   = 100
	maxText       = 2_000 // bytes of a summary or description that is kept
)

// Warning is a part of a description that was ignored.
type Warning struct {
	Pointer string `json:"pointer"` // JSON pointer into the description
	Message string `json:"message"`
}

// Server is an address that a description offers, possibly with variables.
type Server struct {
	URL         string     `json:"url"`
	Description string     `json:"description,omitempty"`
	Variables   []Variable `json:"variables,omitempty"`
}

// Variable is a part of a server's address that the user can choose.
type Variable struct {
	Name        string   `json:"name"`
	Default     string   `json:"default,omitempty"`
	Enum        []string `json:"enum,omitempty"` // empty: any value
	Description string   `json:"description,omitempty"`

	hasDefault bool // which may be empty
}

// Document is a description that was read. It is immutable and safe for concurrent use.
type Document struct {
	Title      string
	Version    string
	Dialect    string // as written, such as 3.0.3
	Protocol   string // x-helix-protocol: what speaks for the operations instead of plain HTTP; usually ""
	Servers    []Server
	Schemes    []Scheme
	Operations []Operation // sorted by path, then method
	Skipped    []Warning   // operations that cannot be used, with the reason
	Warnings   []Warning

	root   map[string]any
	base   string // where the description came from, for relative addresses
	legacy bool   // schemas are those of 3.0, not JSON Schema 2020-12
	byKey  map[string]int
}

// Parse reads a description in JSON or YAML. source is the address it was read from, to which
// relative server addresses refer; it may be empty. The error is Invalid, with the line where it is
// known, or Limit.
func Parse(raw []byte, source string) (*Document, error) {
	if len(raw) > MaxBytes {
		return nil, fault.Limitf("The API description is larger than %d MiB.", MaxBytes>>20)
	}
	root, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	d := &Document{root: root, base: source, byKey: map[string]int{}}
	switch v := text(root["openapi"]); {
	case v == "3" || strings.HasPrefix(v, "3.0"):
		d.Dialect, d.legacy = v, true
	case strings.HasPrefix(v, "3.1"):
		d.Dialect = v
	case strings.HasPrefix(v, "3."): // a later one describes what it has in common with 3.1 in the same way
		d.Dialect = v
		d.warn("/openapi", "OpenAPI %.20s is read as 3.1", v)
	case v != "":
		return nil, fault.Invalidf("OpenAPI %.20s isn't supported. Use a description in OpenAPI 3.0 or 3.1, or Swagger 2.0.", v)
	case strings.HasPrefix(text(root["swagger"]), "2."):
		d.Dialect, d.legacy = text(root["swagger"]), true
	default:
		return nil, fault.Invalidf("This isn't an API description: it has neither an openapi nor a swagger field.")
	}
	if n := countRefs(root); n > maxRefs {
		return nil, fault.Limitf("The API description has %d references; %d are allowed.", n, maxRefs)
	}
	if text(root["swagger"]) != "" {
		d.root = d.fromSwagger(root)
	}
	d.Protocol = clip(text(root["x-helix-protocol"]), 20)
	info := object(d.root["info"])
	d.Title, d.Version = clip(text(info["title"]), 200), clip(text(info["version"]), 50)
	d.Servers = d.servers(d.root["servers"])
	if len(d.Servers) == 0 {
		d.Servers = []Server{{URL: "/"}}
	}
	d.readSchemes()
	if err := d.readOperations(); err != nil {
		return nil, err
	}
	return d, nil
}

// Operation returns the operation with a key, such as "get /users/{id}".
func (d *Document) Operation(key string) (Operation, bool) {
	i, ok := d.byKey[key]
	if !ok {
		return Operation{}, false
	}
	return d.Operations[i], true
}

func (d *Document) warn(pointer, format string, args ...any) {
	if len(d.Warnings) < maxWarnings {
		d.Warnings = append(d.Warnings, Warning{pointer, fmt.Sprintf(format, args...)})
	}
}

func (d *Document) servers(v any) (out []Server) {
	list, _ := v.([]any)
	for _, x := range list {
		m := object(x)
		s := Server{URL: clip(text(m["url"]), 2000), Description: clip(text(m["description"]), 300)}
		vars := object(m["variables"])
		for _, name := range slices.Sorted(maps.Keys(vars)) {
			m := object(vars[name])
			v := Variable{Name: name, Default: text(m["default"]), Description: clip(text(m["description"]), 300), hasDefault: m["default"] != nil}
			values, _ := m["enum"].([]any)
			for _, e := range values {
				v.Enum = append(v.Enum, text(e))
			}
			s.Variables = append(s.Variables, v)
		}
		out = append(out, s)
	}
	return out
}

// object returns v as an object; nil, which can be read like an empty one, if it is none.
func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// text returns v as text if it is a string or a number: versions are often written without quotes.
func text(v any) string {
	s, _ := scalar(v)
	return s
}

func texts(v any) (out []string) {
	list, _ := v.([]any)
	for _, x := range list {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

func truth(v any) bool {
	b, _ := v.(bool)
	return b
}

// clip shortens a text to n bytes at a character.
func clip(s string, n int) string {
	s = strings.TrimSpace(s)
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// sortedByPath orders operations by path, then method.
func sortedByPath(a, b Operation) int {
	return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
}
