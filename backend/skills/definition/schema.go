package definition

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"helix/backend/schema"
	"helix/backend/skills/expr"
)

// schema reads a field that contains a JSON Schema.
func (r *reader) schema(key string) json.RawMessage {
	raw := r.raw(key)
	if raw == nil {
		return nil
	}
	if _, err := schema.Compile(raw); err != nil {
		r.bad(key, CodeSchema, "%s", message(err))
	}
	return raw
}

// maxNesting is the maximum nesting depth of arrays and objects in a definition.
const maxNesting = 200

// keepable reports values that canonical JSON cannot represent: numbers without an exact IEEE
// double, and values nested too deeply.
func keepable(n *notes, path string, v any, depth int) {
	switch v := v.(type) {
	case map[string]any:
		if depth == maxNesting {
			n.bad(path, "", CodeLimit, "Arrays and objects are more than %d deep inside each other.", maxNesting)
			return
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			keepable(n, strings.TrimPrefix(path+expr.Member(k), "."), v[k], depth+1)
		}
	case []any:
		if depth == maxNesting {
			n.bad(path, "", CodeLimit, "Arrays and objects are more than %d deep inside each other.", maxNesting)
			return
		}
		for i, e := range v {
			keepable(n, index(path, i), e, depth+1)
		}
	case json.Number:
		if !exact(v.String()) {
			n.bad(path, "", CodeRange, "The number %.40s cannot be kept exactly; write it as a text.", v)
		}
	}
}

// exact reports whether a JSON number equals the shortest decimal of its nearest double.
func exact(text string) bool {
	if len(text) <= 15 && !strings.ContainsAny(text, "eE") {
		return true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || len(text) > 64 {
		return false
	}
	if f == 0 { // also if it underflows
		digits, _, _ := strings.Cut(strings.ToLower(text), "e")
		return !strings.ContainsAny(digits, "123456789")
	}
	a, ok := new(big.Rat).SetString(text)
	b, ok2 := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	return ok && ok2 && a.Cmp(b) == 0
}

// memberPath converts a JSON pointer to the form of paths in problems.
func memberPath(pointer string) string {
	path := ""
	for _, name := range strings.Split(pointer, "/")[1:] {
		if i, err := strconv.Atoi(name); err == nil {
			path = index(path, i)
			continue
		}
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		path = strings.TrimPrefix(path+expr.Member(name), ".")
	}
	return path
}
