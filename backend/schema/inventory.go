package schema

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"helix/backend/jcs"
)

// inventory lists the subschemas of a document before the library sees it, to limit the cost of its
// compilation: some tables of the library grow quadratically.
type inventory struct {
	schemas map[string]map[string]any // by JSON pointer; nil for true and false
	targets []string                  // JSON pointers that references point to
	places  int                       // total bytes of all pointers
	ids     int
	dynamic bool
	leaving string // position of the first reference to another document
}

// Keywords that contain subschemas.
var (
	holdsOne  = []string{"additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
	holdsList = []string{"allOf", "anyOf", "items", "oneOf", "prefixItems"}
	holdsMap  = []string{"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)

// take adds v and the schemas below it. base is the pointer to the enclosing resource.
func (in *inventory) take(v any, path, base string) error {
	m, ok := v.(map[string]any)
	if _, isBool := v.(bool); !ok && !isBool {
		return nil
	}
	if _, known := in.schemas[path]; known {
		return nil
	}
	in.schemas[path] = m
	if in.places += len(path); len(in.schemas) > maxSchemas || in.places > maxPlaces {
		return limit(path, "The schema is too large: at most %d subschemas are allowed, with names of usual length.", maxSchemas)
	}
	for _, id := range []string{"$id", "id"} {
		if to, ok := m[id].(string); ok {
			in.ids++
			if !strings.HasPrefix(to, "#") {
				base = path
			}
		}
	}
	for _, k := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if to, ok := m[k].(string); ok {
			in.dynamic = in.dynamic || k != "$ref"
			if strings.HasPrefix(to, "#/") {
				in.targets = append(in.targets, base+fragment(to))
			}
			if in.leaving == "" && !strings.HasPrefix(to, "#") {
				in.leaving = path + "/" + k
			}
		}
	}
	for _, k := range holdsOne {
		if err := in.take(m[k], path+"/"+k, base); err != nil {
			return err
		}
	}
	for _, k := range holdsList {
		list, _ := m[k].([]any)
		for i, x := range list {
			if err := in.take(x, path+"/"+k+"/"+strconv.Itoa(i), base); err != nil {
				return err
			}
		}
	}
	for _, k := range holdsMap {
		named, _ := m[k].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(named)) {
			if err := in.take(named[name], path+"/"+k+"/"+jcs.EscapePointer(name), base); err != nil {
				return err
			}
		}
	}
	return nil
}

// references adds the targets of references that are not schemas by their keyword.
func (in *inventory) references(doc any) error {
	for i := 0; i < len(in.targets); i++ { // the list grows
		to := in.targets[i]
		if _, known := in.schemas[to]; known {
			continue
		}
		if in.ids++; in.ids > maxResources {
			break
		}
		if v, ok := lookup(doc, to); ok {
			if err := in.take(v, to, ""); err != nil {
				return err
			}
		}
	}
	if in.ids > maxResources {
		return limit("", "The schema has more than %d parts with their own $id, or in places where no schema belongs.", maxResources)
	}
	return nil
}

// lookup follows a JSON pointer.
func lookup(v any, place string) (any, bool) {
	for _, name := range strings.Split(place, "/")[1:] {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		switch x := v.(type) {
		case map[string]any:
			if _, ok := x[name]; !ok {
				return nil, false
			}
			v = x[name]
		case []any:
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || n >= len(x) {
				return nil, false
			}
			v = x[n]
		default:
			return nil, false
		}
	}
	return v, true
}

// prepare traverses what the library compiled and computes what a check needs in addition.
func (s *Schema) prepare(c *jsonschema.Compiler, in *inventory) error {
	seen := map[*jsonschema.Schema]bool{}
	todo := []*jsonschema.Schema{s.root}
	if in.dynamic {
		s.scopes = map[*jsonschema.Schema]*scope{}
		more, err := dynamicAnchors(c, in)
		if err != nil {
			return in.explain(err)
		}
		todo = append(todo, more...)
	}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		if todo = todo[:len(todo)-1]; seen[at] {
			continue
		}
		seen[at] = true
		if u, _, _ := strings.Cut(at.Location, "#"); u != address {
			return problem(in.leaving, "The schema refers to another document. Only references inside it (#…) are followed.")
		}
		if m := in.schemas[fragment(at.Location)]; isSecret(m) {
			s.secrets[at] = true
		}
		s.defaults = s.defaults || at.Default != nil
		if at.Enum != nil {
			s.values[at.Enum] = newValueSet(at.Enum.Values)
		}
		if at.Const != nil {
			s.values[at.Const] = newValueSet([]any{*at.Const})
		}
		for rx, sub := range at.PatternProperties {
			s.rules[at] = append(s.rules[at], rule{rx.(*pattern), sub})
		}
		slices.SortFunc(s.rules[at], func(a, b rule) int { return strings.Compare(a.pattern.String(), b.pattern.String()) })
		todo = append(todo, children(at)...)
	}
	if !in.dynamic {
		return nil
	}
	for at := range seen {
		if err := s.addScope(c, in, at); err != nil {
			return in.explain(err)
		}
	}
	for at := range seen {
		if at.DynamicAnchor != "" && at.DraftVersion >= 2020 {
			s.scopes[at].anchors[at.DynamicAnchor] = at
		}
	}
	return nil
}

// dynamicAnchors compiles the schemas that can only be reached by a dynamic reference.
func dynamicAnchors(c *jsonschema.Compiler, in *inventory) ([]*jsonschema.Schema, error) {
	var out []*jsonschema.Schema
	for place, m := range in.schemas {
		if _, ok := m["$dynamicAnchor"].(string); ok {
			s, err := c.Compile(address + "#" + escapeFragment(place))
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// addScope determines the resource that a schema belongs to: the nearest enclosing schema with its
// own $id, or the whole document.
func (s *Schema) addScope(c *jsonschema.Compiler, in *inventory, at *jsonschema.Schema) error {
	place := fragment(at.Location)
	for place != "" {
		m := in.schemas[place]
		if m["$id"] != nil || m["id"] != nil {
			res, err := c.Compile(address + "#" + escapeFragment(place))
			if err != nil {
				return err
			}
			if res.ID != "" {
				s.scopes[at] = s.scopeOf(res)
				return nil
			}
		}
		place = place[:strings.LastIndexByte(place, '/')]
	}
	s.scopes[at] = s.scopeOf(s.root)
	return nil
}

func (s *Schema) scopeOf(root *jsonschema.Schema) *scope {
	if sc := s.scopes[root]; sc != nil && sc.root == root {
		return sc
	}
	sc := &scope{root: root, anchors: map[string]*jsonschema.Schema{}}
	s.scopes[root] = sc
	return sc
}

// fragment returns the JSON pointer in a location of the library.
func fragment(location string) string {
	_, f, _ := strings.Cut(location, "#")
	if p, err := url.PathUnescape(f); err == nil {
		return p
	}
	return f
}

func escapeFragment(place string) string {
	parts := strings.Split(place, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// children returns the schemas that a schema contains or refers to.
func children(s *jsonschema.Schema) []*jsonschema.Schema {
	out := sameValue(s)
	out = append(out, s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems)
	out = append(out, s.PrefixItems...)
	out = slices.AppendSeq(out, maps.Values(s.Properties))
	out = slices.AppendSeq(out, maps.Values(s.PatternProperties))
	for _, x := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		switch x := x.(type) {
		case *jsonschema.Schema:
			out = append(out, x)
		case []*jsonschema.Schema:
			out = append(out, x...)
		}
	}
	return slices.DeleteFunc(out, func(s *jsonschema.Schema) bool { return s == nil })
}

// sameValue returns the subschemas that apply to the same value, in a fixed order; some are nil.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	out := []*jsonschema.Schema{s.Ref, s.RecursiveRef}
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
	}
	out = append(out, s.AllOf...)
	out = append(out, s.AnyOf...)
	out = append(out, s.OneOf...)
	out = append(out, s.Not, s.If, s.Then, s.Else)
	for _, k := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		out = append(out, s.DependentSchemas[k])
	}
	for _, k := range slices.Sorted(maps.Keys(s.Dependencies)) {
		if sub, ok := s.Dependencies[k].(*jsonschema.Schema); ok {
			out = append(out, sub)
		}
	}
	return out
}
