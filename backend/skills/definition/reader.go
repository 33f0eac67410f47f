package definition

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is an error or a warning about a definition.
type Problem struct {
	Path    string `json:"path"` // such as steps[2].condition; empty: the whole definition
	Code    string `json:"code"`
	Message string `json:"message"`
	StepID  string `json:"stepId,omitempty"`
}

// Codes of problems.
const (
	CodeType        = "wrong_type"
	CodeMissing     = "missing"
	CodeUnknown     = "unknown_field"
	CodeRange       = "out_of_range"
	CodeID          = "bad_id"
	CodeDuplicate   = "duplicate_id"
	CodeKind        = "unknown_kind"
	CodeTool        = "unknown_tool"
	CodeAmbiguous   = "ambiguous_tool"
	CodeCondition   = "bad_condition"
	CodePath        = "bad_path"
	CodeReference   = "bad_reference"
	CodeParameter   = "bad_parameter"
	CodeSchema      = "bad_schema"
	CodeCycle       = "cycle"
	CodeLimit       = "limit"
	CodeMaybeAbsent = "maybe_absent"
	CodeUnsafeRetry = "unsafe_retry"
	CodeConverted   = "converted"
)

// notes collects problems.
type notes struct {
	errors, warnings []Problem
}

// maxProblems is the maximum number of reported problems.
const maxProblems = 200

func (n *notes) bad(path, step, code, format string, args ...any) {
	if len(n.errors) < maxProblems {
		n.errors = append(n.errors, Problem{path, code, fmt.Sprintf(format, args...), step})
	}
}

func (n *notes) odd(path, step, code, format string, args ...any) {
	if len(n.warnings) < maxProblems {
		n.warnings = append(n.warnings, Problem{path, code, fmt.Sprintf(format, args...), step})
	}
}

// reader reads the fields of one JSON object and records problems.
type reader struct {
	n    *notes
	path string
	step string
	m    map[string]any
	seen map[string]bool
}

func newReader(n *notes, path string, m map[string]any) *reader {
	return &reader{n: n, path: path, m: m, seen: map[string]bool{}}
}

func (r *reader) at(key string) string {
	if r.path == "" {
		return key
	}
	return r.path + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func (r *reader) bad(key, code, format string, args ...any) {
	r.n.bad(r.at(key), r.step, code, format, args...)
}

// get returns a field and marks it as read. null counts as absent, except for keep.
func (r *reader) get(key string) (any, bool) {
	r.seen[key] = true
	v, ok := r.m[key]
	return v, ok && v != nil
}

func (r *reader) value(key string) Value {
	r.seen[key] = true
	v, ok := r.m[key]
	return Value{ok, v}
}

func (r *reader) wrong(key, want string, v any) {
	r.bad(key, CodeType, "%s is %s; it must be %s.", key, describe(v), want)
}

func (r *reader) text(key string, most int) string {
	v, ok := r.get(key)
	if !ok {
		return ""
	}
	s, isText := v.(string)
	if !isText {
		r.wrong(key, "a text", v)
		return ""
	}
	if n := utf8.RuneCountInString(s); n > most {
		r.bad(key, CodeRange, "%s has %d characters; %d are allowed.", key, n, most)
		return ""
	}
	return s
}

// oneOf reads a string that must be one of words.
func (r *reader) oneOf(key string, words ...string) string {
	s := r.text(key, 100)
	if s == "" || slices.Contains(words, s) {
		return s
	}
	r.bad(key, CodeRange, "%s is %q; it must be one of %s.", key, s, strings.Join(words, ", "))
	return ""
}

func (r *reader) boolean(key string) *bool {
	v, ok := r.get(key)
	if !ok {
		return nil
	}
	b, isBool := v.(bool)
	if !isBool {
		r.wrong(key, "true or false", v)
		return nil
	}
	return &b
}

func (r *reader) integer(key string, lo, hi int64) (int64, bool) {
	v, ok := r.get(key)
	if !ok {
		return 0, false
	}
	n, isNumber := v.(json.Number)
	if !isNumber {
		r.wrong(key, "a number", v)
		return 0, false
	}
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || f < float64(lo) || f > float64(hi) {
		r.bad(key, CodeRange, "%s is %s; it must be a whole number from %d to %d.", key, n, lo, hi)
		return 0, false
	}
	return int64(f), true
}

func (r *reader) object(key string) map[string]any {
	v, ok := r.get(key)
	if !ok {
		return nil
	}
	m, isObject := v.(map[string]any)
	if !isObject {
		r.wrong(key, "an object", v)
	}
	return m
}

func (r *reader) raw(key string) json.RawMessage {
	m := r.object(key)
	if m == nil {
		return nil
	}
	b, err := json.Marshal(m)
	if err != nil {
		r.bad(key, CodeType, "%s cannot be written as JSON.", key)
		return nil
	}
	return b
}

// array reads an array. If need is set, a missing field is a problem.
func (r *reader) array(key string, need bool) ([]any, bool) {
	r.seen[key] = true
	v, ok := r.m[key]
	if !ok {
		if need {
			r.bad(key, CodeMissing, "%s is missing.", key)
		}
		return nil, false
	}
	if v == nil && !need {
		return nil, false
	}
	a, isArray := v.([]any)
	if !isArray {
		r.wrong(key, "an array", v)
	}
	return a, isArray
}

func (r *reader) texts(key string, most, each int) []string {
	list, ok := r.array(key, false)
	if !ok {
		return nil
	}
	if len(list) > most {
		r.bad(key, CodeRange, "%s has %d entries; %d are allowed.", key, len(list), most)
		return nil
	}
	out := make([]string, 0, len(list))
	for i, v := range list {
		s, isText := v.(string)
		switch {
		case !isText:
			r.bad(index(key, i), CodeType, "An entry is %s; it must be a text.", describe(v))
		case s == "" || utf8.RuneCountInString(s) > each:
			r.bad(index(key, i), CodeRange, "An entry has 1 to %d characters.", each)
		default:
			out = append(out, s)
		}
	}
	return out
}

// rest reports the fields that were not read.
func (r *reader) rest(what string) {
	for _, k := range slices.Sorted(maps.Keys(r.m)) {
		if !r.seen[k] {
			r.n.odd(r.at(k), r.step, CodeUnknown, "%s has no field %q; it was ignored.", what, k)
		}
	}
}

func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "a text"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	}
	return "an object"
}
