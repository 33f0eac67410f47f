package tools

import (
	"math"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validationWork counts how many (schema, value) pairs a validation would visit, without
// visiting each: pairs that come again are counted from memory, so the count of a schema
// that doubles at every level takes schema × value steps although the number is 2^n.
func validationWork(s *jsonschema.Schema, v any) int64 {
	w := worker{memo: map[workKey]int64{}}
	return w.of(s, newWorkNode(v))
}

type workKey struct {
	s *jsonschema.Schema
	n *workNode
}

// workNode is a value with an identity.
type workNode struct {
	props map[string]*workNode
	items []*workNode
}

func newWorkNode(v any) *workNode {
	n := &workNode{}
	switch v := v.(type) {
	case map[string]any:
		n.props = make(map[string]*workNode, len(v))
		for k, x := range v {
			n.props[k] = newWorkNode(x)
		}
	case []any:
		for _, x := range v {
			n.items = append(n.items, newWorkNode(x))
		}
	}
	return n
}

type worker struct{ memo map[workKey]int64 }

func (w *worker) of(s *jsonschema.Schema, n *workNode) int64 {
	if s == nil {
		return 0
	}
	key := workKey{s, n}
	if c, ok := w.memo[key]; ok {
		return c
	}
	w.memo[key] = 1 // a cycle on the same value ends in the library at once
	total := int64(1)
	add := func(c int64) {
		if total > math.MaxInt64-c {
			total = math.MaxInt64
			return
		}
		total += c
	}
	for _, sub := range inPlace(s) {
		add(w.of(sub, n))
	}
	for name, child := range n.props {
		add(1)
		if p, ok := s.Properties[name]; ok {
			add(w.of(p, child))
		}
		for rx, p := range s.PatternProperties {
			if rx.MatchString(name) {
				add(w.of(p, child))
			}
		}
		if p, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
			add(w.of(p, child))
		}
		add(w.of(s.UnevaluatedProperties, child))
	}
	for i, child := range n.items {
		add(1)
		if i < len(s.PrefixItems) {
			add(w.of(s.PrefixItems[i], child))
		}
		switch items := s.Items.(type) {
		case *jsonschema.Schema:
			add(w.of(items, child))
		case []*jsonschema.Schema:
			if i < len(items) {
				add(w.of(items[i], child))
			}
		}
		add(w.of(s.Items2020, child))
		add(w.of(s.Contains, child))
		add(w.of(s.UnevaluatedItems, child))
		if p, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
			add(w.of(p, child))
		}
	}
	w.memo[key] = total
	return total
}

// inPlace lists the subschemas that apply to the same value.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	out := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
	}
	out = append(append(append(out, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, d := range s.DependentSchemas {
		out = append(out, d)
	}
	for _, d := range s.Dependencies {
		if sub, ok := d.(*jsonschema.Schema); ok {
			out = append(out, sub)
		}
	}
	return out
}
