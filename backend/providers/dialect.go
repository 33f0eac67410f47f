package providers

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// geminiKeywords is the subset of JSON Schema that Gemini accepts.
var geminiKeywords = map[string]bool{
	"type": true, "format": true, "title": true, "description": true, "nullable": true, "enum": true, "items": true, "maxItems": true, "minItems": true,
	"properties": true, "required": true, "minimum": true, "maximum": true, "minLength": true, "maxLength": true, "pattern": true, "anyOf": true, "propertyOrdering": true,
}

// openAIDropped are keywords that strict mode rejects.
var openAIDropped = map[string]bool{
	"default": true, "minLength": true, "maxLength": true, "patternProperties": true, "unevaluatedProperties": true, "propertyNames": true,
	"minProperties": true, "maxProperties": true, "unevaluatedItems": true, "contains": true, "minContains": true, "maxContains": true,
	"uniqueItems": true, "if": true, "then": true, "else": true, "not": true, "dependentRequired": true, "dependentSchemas": true, "$schema": true, "$id": true, "examples": true,
}

const maxInlined = 8

// dialect converts a 2020-12 schema to what a wire accepts, and lists what it left out; Helix checks
// the complete schema itself anyway. structured is set for answers, for which strict mode has
// separate rules.
func dialect(wire string, structured bool, schema json.RawMessage) (any, []string) {
	var v any
	if json.Unmarshal(schema, &v) != nil {
		return object{"type": "object"}, []string{"the schema can't be read"}
	}
	d := dialecter{root: v, dropped: map[string]bool{}}
	switch {
	case wire == WireGemini:
		v = d.gemini(v, 0, "")
	case structured && (wire == WireChat || wire == WireResponses):
		v = d.strict(v, 0, "")
	}
	return v, slices.Sorted(maps.Keys(d.dropped))
}

type dialecter struct {
	root    any
	dropped map[string]bool
}

func (d *dialecter) drop(path, keyword string) {
	d.dropped[fmt.Sprintf("%s/%s was left out", path, keyword)] = true
}

// strict makes every property required and closes objects; optional properties may be null instead.
func (d *dialecter) strict(v any, depth int, path string) any {
	m, ok := v.(object)
	if !ok || depth > 64 {
		return v
	}
	out := object{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		switch sub := m[k]; {
		case openAIDropped[k]:
			d.drop(path, k)
		case k == "oneOf":
			out["anyOf"] = d.list(sub, depth, path+"/"+k, d.strict)
		case k == "anyOf" || k == "allOf":
			out[k] = d.list(sub, depth, path+"/"+k, d.strict)
		case k == "items":
			out[k] = d.strict(sub, depth+1, path+"/items")
		case k == "$defs" || k == "definitions":
			out[k] = d.members(sub, depth, path+"/"+k, d.strict)
		case k == "properties":
		default:
			out[k] = sub
		}
	}
	props, _ := m["properties"].(object)
	if props == nil && m["type"] != "object" {
		return out
	}
	required := map[string]bool{}
	list, _ := m["required"].([]any)
	for _, r := range list {
		if s, ok := r.(string); ok {
			required[s] = true
		}
	}
	strict, names := object{}, []string{}
	for _, k := range slices.Sorted(maps.Keys(props)) {
		p := d.strict(props[k], depth+1, path+"/properties/"+k)
		if !required[k] {
			p = object{"anyOf": []any{p, object{"type": "null"}}}
		}
		strict[k] = p
		names = append(names, k)
	}
	out["properties"], out["required"], out["additionalProperties"] = strict, names, false
	return out
}

func (d *dialecter) list(v any, depth int, path string, fn func(any, int, string) any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = fn(e, depth+1, fmt.Sprintf("%s/%d", path, i))
	}
	return out
}

func (d *dialecter) members(v any, depth int, path string, fn func(any, int, string) any) any {
	m, ok := v.(object)
	if !ok {
		return v
	}
	out := object{}
	for k, e := range m {
		out[k] = fn(e, depth+1, path+"/"+k)
	}
	return out
}

// gemini keeps the supported subset and inlines references.
func (d *dialecter) gemini(v any, depth int, path string) any {
	m, ok := v.(object)
	if !ok || depth > 64 {
		return object{}
	}
	if ref, ok := m["$ref"].(string); ok {
		if strings.Count(path, "/$ref") >= maxInlined {
			d.drop(path, "$ref")
			return object{"type": "object"}
		}
		return d.gemini(d.resolve(ref), depth+1, path+"/$ref")
	}
	out := object{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		sub := m[k]
		switch {
		case k == "type":
			d.geminiType(out, sub)
		case k == "const":
			out["enum"] = []any{fmt.Sprint(sub)}
		case k == "enum":
			list, _ := sub.([]any)
			var values []any
			for _, e := range list {
				if e == nil {
					out["nullable"] = true
				} else {
					values = append(values, fmt.Sprint(e))
				}
			}
			if m["type"] != "integer" && m["type"] != "number" { // Gemini supports enum only for strings
				out["enum"] = values
			} else {
				d.drop(path, k)
			}
		case k == "oneOf" || k == "anyOf":
			out["anyOf"] = d.list(sub, depth, path+"/"+k, d.gemini)
		case k == "properties":
			out[k] = d.members(sub, depth, path+"/"+k, d.gemini)
		case k == "items":
			out[k] = d.gemini(sub, depth+1, path+"/items")
		case k == "format" && sub != "enum" && sub != "date-time":
			d.drop(path, k)
		case geminiKeywords[k]:
			out[k] = sub
		case k == "$defs" || k == "definitions" || k == "$schema":
		default:
			d.drop(path, k)
		}
	}
	return out
}

func (d *dialecter) geminiType(out object, v any) {
	list, ok := v.([]any)
	if !ok {
		out["type"] = v
		return
	}
	var kinds []any
	for _, k := range list {
		if k == "null" {
			out["nullable"] = true
		} else {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 1 {
		out["type"] = kinds[0]
		return
	}
	var any []any
	for _, k := range kinds {
		any = append(any, object{"type": k})
	}
	out["anyOf"] = any
}

// resolve follows a reference inside the schema.
func (d *dialecter) resolve(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := d.root
	for _, step := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		m, ok := at.(object)
		if !ok {
			return nil
		}
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)]
	}
	return at
}
