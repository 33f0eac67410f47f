package openapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helix/backend/jcs"
	"helix/backend/schema"
)

// Limits of the schema that a model reads.
const (
	MaxModelSchema = 16 << 10
	maxModelLevels = 8
	maxModelNodes  = 4_000
	maxModelValues = 100 // of an enumeration
)

// bundler converts schemas of a description to JSON Schema 2020-12. What they refer to becomes $defs, so
// that the result stands on its own and cycles stay.
type bundler struct {
	d        *Document
	response bool
	defs     map[string]any
	names    map[string]string // by reference
	broken   []string          // references that cannot be followed
}

func (d *Document) bundle(response bool) *bundler {
	return &bundler{d: d, response: response, defs: map[string]any{}, names: map[string]string{}}
}

// single, many and named are the keywords whose values are a schema, a list of them, or an object of them.
var (
	single  = []string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
	many    = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	named   = []string{"properties", "patternProperties", "dependentSchemas"}
	copied  = []string{"type", "enum", "const", "format", "pattern", "title", "description", "default", "required", "multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "maxLength", "minLength", "maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties", "maxContains", "minContains", "dependentRequired", "contentEncoding", "contentMediaType"}
	modern  = []string{"if", "then", "else", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "prefixItems", "patternProperties", "dependentSchemas", "dependentRequired", "const", "maxContains", "minContains"}
	schemas = []string{"array", "boolean", "integer", "null", "number", "object", "string"}
)

// convert returns the schema v as JSON Schema.
func (b *bundler) convert(v any) any { return b.part(v, nil) }

// part is convert of a schema that may be part of an allOf. Properties in hidden belong to the other side.
func (b *bundler) part(v any, hidden []string) any {
	m, ok := v.(map[string]any)
	if !ok {
		if t, ok := v.(bool); ok {
			return t
		}
		return true
	}
	if ref, ok := m["$ref"].(string); ok {
		out := map[string]any{"$ref": "#/$defs/" + b.refer(ref)}
		if !b.d.legacy && len(m) > 1 { // 3.1: what stands beside it counts too
			rest := maps.Clone(m)
			delete(rest, "$ref")
			return map[string]any{"allOf": []any{out, b.part(rest, hidden)}}
		}
		return out
	}
	if m["allOf"] != nil {
		left := maxHidden
		hidden = append(slices.Clip(hidden), b.hidden(m, 0, &left)...)
	}
	out := map[string]any{}
	for _, k := range copied {
		if x, ok := m[k]; ok && (!b.d.legacy || !slices.Contains(modern, k)) {
			out[k] = x
		}
	}
	for _, k := range single {
		if x, ok := m[k]; ok && (!b.d.legacy || !slices.Contains(modern, k)) {
			out[k] = b.convert(x)
		}
	}
	for _, k := range many {
		if list, ok := m[k].([]any); ok && len(list) > 0 && (!b.d.legacy || !slices.Contains(modern, k)) {
			all := make([]any, len(list))
			for i, x := range list {
				if k == "allOf" {
					all[i] = b.part(x, hidden)
				} else {
					all[i] = b.convert(x)
				}
			}
			out[k] = all
		}
	}
	for _, k := range named {
		if group := object(m[k]); group != nil && (!b.d.legacy || !slices.Contains(modern, k)) {
			all := make(map[string]any, len(group))
			for name, x := range group {
				all[name] = b.convert(x)
			}
			out[k] = all
		}
	}
	b.oneSided(m, out)
	if list, ok := out["required"].([]any); ok && len(hidden) > 0 {
		out["required"] = slices.DeleteFunc(slices.Clone(list), func(x any) bool { return slices.Contains(hidden, text(x)) })
	}
	if b.d.legacy {
		fromLegacy(m, out)
	}
	tidy(out)
	return out
}

// Bounds of the search for properties of the other side in the parts of an allOf.
const (
	maxHidden      = 1000 // schemas
	maxHiddenDepth = 8
)

// hidden returns the properties of an object and of its allOf that belong to the other side.
func (b *bundler) hidden(m map[string]any, depth int, left *int) (out []string) {
	if *left--; *left < 0 || depth > maxHiddenDepth {
		return nil
	}
	for name, x := range object(m["properties"]) {
		if b.isOneSided(object(x)) {
			out = append(out, name)
		}
	}
	list, _ := m["allOf"].([]any)
	for _, x := range list {
		if to, err := b.d.follow(x); err == nil {
			out = append(out, b.hidden(to, depth+1, left)...)
		}
	}
	return out
}

// isOneSided reports whether a property belongs to the other side.
func (b *bundler) isOneSided(m map[string]any) bool {
	word := "readOnly"
	if b.response {
		word = "writeOnly"
	}
	if truth(m[word]) {
		return true
	}
	to, err := b.d.follow(m)
	return err == nil && truth(to[word])
}

// oneSided removes properties that belong to the other side: a request must not set what is
// readOnly, and a response does not have what is writeOnly.
func (b *bundler) oneSided(in, out map[string]any) {
	props := object(out["properties"])
	for name, x := range object(in["properties"]) {
		if !b.isOneSided(object(x)) {
			continue
		}
		props[name] = false
		if b.response {
			delete(props, name)
		}
		if list, ok := out["required"].([]any); ok {
			out["required"] = slices.DeleteFunc(slices.Clone(list), func(x any) bool { return x == name })
		}
	}
}

// fromLegacy converts the keywords in which the schemas of 3.0 differ.
func fromLegacy(in, out map[string]any) {
	for limit, exclusive := range map[string]string{"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"} {
		if x, ok := out[exclusive].(bool); ok {
			delete(out, exclusive)
			if x && out[limit] != nil {
				out[exclusive] = out[limit]
				delete(out, limit)
			}
		}
	}
	if out["type"] == "file" {
		out["type"], out["format"] = "string", "binary"
	}
	if !truth(in["nullable"]) && !truth(in["x-nullable"]) {
		return
	}
	if t, ok := out["type"].(string); ok {
		out["type"] = []any{t, "null"}
	}
	if list, ok := out["enum"].([]any); ok && !slices.Contains(list, nil) {
		out["enum"] = append(slices.Clone(list), nil)
	}
	if out["allOf"] != nil || out["anyOf"] != nil || out["oneOf"] != nil { // a reference that may be null is written like this
		rest := maps.Clone(out)
		clear(out)
		out["anyOf"] = []any{rest, map[string]any{"type": "null"}}
	}
}

// tidy removes keywords whose values a JSON Schema can't have, so that one mistake in a description
// doesn't make an operation unusable.
func tidy(m map[string]any) {
	switch t := m["type"].(type) {
	case nil:
		delete(m, "type")
	case string:
		if !slices.Contains(schemas, t) {
			delete(m, "type")
		}
	case []any:
		if slices.ContainsFunc(t, func(x any) bool { s, _ := x.(string); return !slices.Contains(schemas, s) }) {
			delete(m, "type")
		}
	default:
		delete(m, "type")
	}
	if list, ok := m["required"].([]any); ok && len(texts(list)) == len(list) {
		list = slices.Clone(list) // the description has it too
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(text(a), text(b)) })
		m["required"] = slices.Compact(list)
	} else {
		delete(m, "required")
	}
	if list, ok := m["enum"].([]any); ok && len(list) == 0 || !ok {
		delete(m, "enum")
	}
	for _, k := range []string{"description", "title", "format", "pattern"} {
		if _, ok := m[k].(string); !ok {
			delete(m, k)
		}
	}
	if s, ok := m["description"].(string); ok {
		m["description"] = clip(s, 500)
	}
	for _, k := range []string{"maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf", "maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"} {
		if _, ok := m[k].(json.Number); !ok {
			delete(m, k)
		}
	}
	if _, ok := m["uniqueItems"].(bool); !ok {
		delete(m, "uniqueItems")
	}
}

// refer returns the name in $defs of what a reference leads to.
func (b *bundler) refer(ref string) string {
	if name, ok := b.names[ref]; ok {
		return name
	}
	parts, err := pointer(ref)
	var to any
	if err == nil {
		to, err = b.d.at(ref)
	}
	base := "unknown"
	if len(parts) > 0 {
		base = cmp.Or(strings.Trim(notName.ReplaceAllString(parts[len(parts)-1], "_"), "_"), "schema") // none of a name in another script
	}
	name := base
	for i := 2; b.defs[name] != nil; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	b.names[ref] = name
	b.defs[name] = true // it may refer to itself
	if err != nil {
		b.broken = append(b.broken, err.Error())
		return name
	}
	b.defs[name] = b.convert(to)
	return name
}

// document returns a schema with everything that it refers to.
func (b *bundler) document(root map[string]any) json.RawMessage {
	if len(b.defs) > 0 {
		root = maps.Clone(root)
		root["$defs"] = b.defs
	}
	raw, _ := jcs.Marshal(root) // decoded JSON can always be encoded
	return raw
}

// compile compiles a bundled schema. What the compiler doesn't accept is left out step by step: first
// patterns, which may be in a dialect that can't be checked in linear time, then everything, so that the
// server decides.
func compile(raw json.RawMessage) (_ *schema.Schema, note string) {
	s, err := schema.Compile(raw)
	if err == nil {
		return s, ""
	}
	if v, derr := jcs.Decode(raw, schema.MaxDepth, 0); derr == nil {
		dropKeyword(v, "pattern", "patternProperties", "format")
		if simpler, merr := jcs.Marshal(v); merr == nil {
			if s, serr := schema.Compile(simpler); serr == nil {
				return s, "patterns and formats aren't checked"
			}
		}
	}
	s, _ = schema.Compile(json.RawMessage(`{"type":"object"}`))
	return s, fmt.Sprintf("the input isn't checked: %s", err)
}

func dropKeyword(v any, words ...string) {
	switch v := v.(type) {
	case map[string]any:
		for _, w := range words {
			if _, isSchema := v[w].(map[string]any); !isSchema || w == "patternProperties" { // a property may have the name
				delete(v, w)
			}
		}
		for _, x := range v {
			dropKeyword(x, words...)
		}
	case []any:
		for _, x := range v {
			dropKeyword(x, words...)
		}
	}
}

// forModel returns a bundled schema without references for a model: cut at cycles and at a depth
// at which it fits.
func (b *bundler) forModel(root map[string]any) json.RawMessage {
	for levels := maxModelLevels; levels > 0; levels-- {
		c := cutter{b: b, levels: levels, left: maxModelNodes}
		v := c.cut(root, 0, nil)
		if c.left < 0 {
			continue
		}
		if raw, err := jcs.Marshal(v); err == nil && len(raw) <= MaxModelSchema {
			return raw
		}
	}
	return json.RawMessage(`{"type":"object"}`)
}

type cutter struct {
	b      *bundler
	levels int
	left   int
}

func (c *cutter) cut(v any, level int, open []string) any {
	if c.left--; c.left < 0 {
		return true
	}
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if ref, ok := m["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		if slices.Contains(open, name) {
			return map[string]any{"description": "(recursive: " + name + ")"}
		}
		return c.cut(c.b.defs[name], level, append(slices.Clone(open), name))
	}
	if level >= c.levels {
		out := map[string]any{}
		if m["type"] != nil {
			out["type"] = m["type"]
		}
		return out
	}
	out := make(map[string]any, len(m))
	if list, ok := m["enum"].([]any); ok && len(list) > maxModelValues { // the complete schema checks them
		few, _ := jcs.Marshal(list[:3]) // decoded JSON can always be encoded
		m = maps.Clone(m)
		delete(m, "enum")
		m["description"] = strings.TrimSpace(fmt.Sprintf("%s One of %d values, such as %s.", text(m["description"]), len(list), clip(strings.Trim(string(few), "[]"), 100)))
	}
	for k, x := range m {
		switch {
		case k == "description" && level > 1:
			out[k] = clip(text(x), 200)
		case slices.Contains(single, k):
			out[k] = c.cut(x, level+1, open)
		case slices.Contains(many, k):
			list, _ := x.([]any)
			all := make([]any, len(list))
			for i, x := range list {
				all[i] = c.cut(x, level+1, open)
			}
			out[k] = all
		case slices.Contains(named, k):
			group := object(x)
			all := make(map[string]any, len(group))
			for name, x := range group {
				if x == false { // a property of the other side
					continue
				}
				all[name] = c.cut(x, level+1, open)
			}
			out[k] = all
		default:
			out[k] = x
		}
	}
	return out
}
