package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helix/backend/jcs"
)

// Narrowed returns how the input is accepts less than the input was, both as Plan.Input: parameters that are
// gone or newly required, and values of which fewer are accepted. It compares the usual keywords only.
func Narrowed(was, is json.RawMessage) []string {
	a, aerr := jcs.Decode(was, maxDepth, 0)
	b, berr := jcs.Decode(is, maxDepth, 0)
	if aerr != nil || berr != nil {
		return nil
	}
	return narrowed("", object(a), object(b))
}

func narrowed(at string, was, is map[string]any) (out []string) {
	if was == nil || is == nil {
		return nil
	}
	types := func(m map[string]any) []string {
		if s, ok := m["type"].(string); ok {
			return []string{s}
		}
		return texts(m["type"])
	}
	name := strings.TrimPrefix(at, "/")
	before, now := types(was), types(is)
	if slices.Contains(now, "number") {
		now = append(now, "integer")
	}
	if len(now) > 0 && (len(before) == 0 || slices.ContainsFunc(before, func(t string) bool { return !slices.Contains(now, t) })) {
		return []string{fmt.Sprintf("%s must be of the type %s now", name, strings.Join(types(is), " or "))}
	}
	required := texts(was["required"])
	for _, r := range texts(is["required"]) {
		if !slices.Contains(required, r) {
			out = append(out, strings.TrimPrefix(at+"/"+r, "/")+" is required now")
		}
	}
	oldProps, newProps := object(was["properties"]), object(is["properties"])
	for _, p := range slices.Sorted(maps.Keys(oldProps)) {
		x, ok := newProps[p]
		switch {
		case ok:
			out = append(out, narrowed(at+"/"+p, object(oldProps[p]), object(x))...)
		case is["additionalProperties"] == false:
			out = append(out, strings.TrimPrefix(at+"/"+p, "/")+" is gone")
		}
	}
	if list, ok := is["enum"].([]any); ok {
		old, _ := was["enum"].([]any)
		if old == nil || slices.ContainsFunc(old, func(v any) bool { return !slices.Contains(list, v) }) {
			out = append(out, name+" accepts fewer values now")
		}
	}
	return append(out, narrowed(at, object(was["items"]), object(is["items"]))...)
}
