package schema

import (
	"context"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// maxRefs is how many consecutive references are followed for defaults and secrets.
const maxRefs = 64

// FillDefaults sets missing members of objects in v that have a default, following properties,
// items, allOf and references, and reports whether it set any. It changes v in place.
func (s *Schema) FillDefaults(ctx context.Context, v any) (changed bool, err error) {
	if !s.defaults {
		return false, nil
	}
	c, err := s.checker(ctx, v)
	if err != nil {
		return false, err
	}
	err = c.guard(func() { changed = c.fill(s.root, v, 0) })
	return changed, err
}

func (c *checker) fill(s *jsonschema.Schema, v any, depth int) (changed bool) {
	if s == nil || depth > maxRefs {
		return false
	}
	c.spend(6)
	changed = c.fill(s.Ref, v, depth+1)
	for _, sub := range s.AllOf {
		changed = c.fill(sub, v, depth+1) || changed
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range sortedKeys(c, s.Properties) {
			sub := s.Properties[name]
			if x, ok := v[name]; ok {
				changed = c.fill(sub, x, depth+1) || changed
			} else if sub.Default != nil {
				v[name], changed = c.clone(*sub.Default), true
			}
		}
	case []any:
		for i, x := range v {
			c.spend(1)
			for _, sub := range itemSchemas(s, i) {
				changed = c.fill(sub, x, depth+1) || changed
			}
		}
	}
	return changed
}

func (c *checker) clone(v any) any {
	c.spend(4)
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = c.clone(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = c.clone(x)
		}
		return out
	}
	return v
}

// itemSchemas returns the schemas for an item by its index.
func itemSchemas(s *jsonschema.Schema, i int) []*jsonschema.Schema {
	if i < len(s.PrefixItems) {
		return s.PrefixItems[i : i+1]
	}
	if s.Items2020 != nil {
		return []*jsonschema.Schema{s.Items2020}
	}
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		return []*jsonschema.Schema{items}
	case []*jsonschema.Schema:
		if i < len(items) {
			return items[i : i+1]
		}
		if more, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
			return []*jsonschema.Schema{more}
		}
	}
	return nil
}

// isSecret reports whether a schema marks its value as a secret.
func isSecret(m map[string]any) bool {
	secret, _ := m["x-secret"].(bool)
	return secret || m["format"] == "password"
}

// HasSecrets reports whether any value that the schema describes is marked as secret, with the
// format password or x-secret.
func (s *Schema) HasSecrets() bool { return len(s.secrets) > 0 }

// Redact replaces each secret by mask, in all branches of the schema whether they apply or not, and
// returns the replaced texts. It changes v in place. If that needs too much work, all of v is
// treated as secret.
func (s *Schema) Redact(v any, mask string) (any, []string) {
	if !s.HasSecrets() {
		return v, nil
	}
	var found []string
	c, err := s.checker(context.Background(), v)
	if err == nil {
		out := v
		if err = c.guard(func() { out = c.redact(s.root, v, mask, 0, &found) }); err == nil {
			return out, found
		}
	}
	texts(v, &found)
	return mask, found
}

func (c *checker) redact(s *jsonschema.Schema, v any, mask string, depth int, found *[]string) any {
	if s == nil || depth > maxRefs || v == any(mask) {
		return v
	}
	c.spend(6)
	if c.s.secrets[s] {
		texts(v, found)
		return mask
	}
	same := sameValue(s)
	c.spend(8 * len(same))
	for _, sub := range same {
		v = c.redact(sub, v, mask, depth+1, found)
	}
	switch x := v.(type) {
	case map[string]any:
		for _, name := range sortedKeys(c, x) {
			known := false
			apply := func(sub *jsonschema.Schema) {
				known = true
				x[name] = c.redact(sub, x[name], mask, depth+1, found)
			}
			if sub, ok := s.Properties[name]; ok {
				apply(sub)
			}
			for _, r := range c.s.rules[s] {
				if c.match(r.pattern, name) {
					apply(r.schema)
				}
			}
			if more, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !known {
				apply(more)
			}
			x[name] = c.redact(s.UnevaluatedProperties, x[name], mask, depth+1, found)
		}
	case []any:
		for i := range x {
			for _, sub := range itemSchemas(s, i) {
				x[i] = c.redact(sub, x[i], mask, depth+1, found)
			}
			x[i] = c.redact(s.Contains, x[i], mask, depth+1, found)
			x[i] = c.redact(s.UnevaluatedItems, x[i], mask, depth+1, found)
		}
	}
	return v
}

// texts collects the strings of a value.
func texts(v any, out *[]string) {
	switch v := v.(type) {
	case string:
		*out = append(*out, v)
	case map[string]any:
		for _, x := range v {
			texts(x, out)
		}
	case []any:
		for _, x := range v {
			texts(x, out)
		}
	}
}
