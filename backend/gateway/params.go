package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// decodeParams decodes raw into dst, which plan describes. raw is from a frame that parseFrame
// accepted, so it is valid JSON without duplicate keys. Field names must match exactly
// (encoding/json would ignore case), required fields must exist, and each value must have the right
// type; the error names the field. `_meta` is reserved for the protocol and skipped.
func decodeParams(raw []byte, p *plan, lenient bool, dst any) error {
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if raw[0] != '{' {
		return badParams("params must be an object with named fields")
	}
	s := scan(raw)
	defer s.done()
	if err := s.check(p, place{}, lenient, true); err != nil {
		return err
	}
	if err := readJSON(raw, dst); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return badParams("field %q: a %s is out of range or of the wrong type", te.Field, te.Value)
		}
		return badParams("params do not decode")
	}
	return nil
}

// place is the path of a value in params; it is converted to a string only for an error.
type place struct {
	up   *place
	name string
	idx  int
}

func (p place) String() string {
	var parts []string
	for at := &p; at != nil && (at.up != nil || at.name != ""); at = at.up {
		part := at.name
		if part == "" {
			part = fmt.Sprintf("[%d]", at.idx)
		}
		parts = append(parts, part)
	}
	slices.Reverse(parts)
	return strings.ReplaceAll(strings.Join(parts, "."), ".[", "[")
}

func wrongType(at place, want string, got byte) error {
	return badParams("field %q: expected %s, got %s", at.String(), want, jsonKind(got))
}

func jsonKind(c byte) string {
	switch c {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// check checks the value at the cursor against p. The JSON is known to be valid.
func (s *scanner) check(p *plan, at place, lenient, top bool) error {
	c := s.peek()
	if c == 'n' && !top {
		if !p.nullable {
			return wrongType(at, p.want(), c)
		}
		s.null()
		return nil
	}
	switch p.shape {
	case anyShape:
		if err := jcs.CheckNumbers(s.take()); err != nil {
			p, _ := fault.As(err).Details.(jcs.NumberProblem)
			return badParams("field %q: %s", at.String()+p.Path, p.Message)
		}
		return nil
	case structShape:
		if c != '{' {
			return wrongType(at, "an object", c)
		}
		return s.checkStruct(p, at, lenient, top)
	case mapShape:
		if c != '{' {
			return wrongType(at, "an object", c)
		}
		return s.members(func(key []byte) error {
			return s.check(p.elem, place{up: &at, name: string(key)}, lenient, false)
		})
	case listShape:
		if c != '[' {
			return wrongType(at, "an array", c)
		}
		return s.elements(func(i int) error {
			return s.check(p.elem, place{up: &at, idx: i}, lenient, false)
		})
	}
	raw := s.take()
	switch p.shape {
	case boolShape:
		if c != 't' && c != 'f' {
			return wrongType(at, "a boolean", c)
		}
		return nil
	case intShape, floatShape:
		if c != '-' && (c < '0' || c > '9') {
			return wrongType(at, p.want(), c)
		}
		if p.shape == intShape && strings.ContainsAny(string(raw), ".eE") {
			return badParams("field %q: expected a whole number", at.String())
		}
		return nil
	case customShape:
		return probe(p, raw, at)
	}
	if c != '"' {
		return wrongType(at, p.want(), c)
	}
	return checkText(p, raw, at)
}

func (s *scanner) checkStruct(p *plan, at place, lenient, top bool) error {
	var seen uint64
	err := s.members(func(key []byte) error {
		f := p.byName[string(key)]
		if f == nil {
			if lenient || (top && string(key) == "_meta") {
				s.take()
				return nil
			}
			return unknownField(p, string(key), at)
		}
		if f.index >= 0 {
			seen |= 1 << f.index
		}
		if f.optional && s.null() {
			return nil
		}
		return s.check(f.plan, place{up: &at, name: f.name}, lenient, false)
	})
	if err != nil {
		return err
	}
	for _, f := range p.fields {
		if f.index >= 0 && seen&(1<<f.index) == 0 {
			return badParams("missing field %q", place{up: &at, name: f.name}.String())
		}
	}
	return nil
}

// want describes what p accepts.
func (p *plan) want() string {
	switch p.shape {
	case uuidShape:
		return "a UUID"
	case timeShape:
		return "an RFC 3339 time"
	case bytesShape:
		return "a base64 string"
	case boolShape:
		return "a boolean"
	case intShape:
		return "a whole number"
	case floatShape:
		return "a number"
	case listShape:
		return "an array"
	case mapShape, structShape:
		return "an object"
	}
	return "a string"
}

func checkText(p *plan, raw []byte, at place) error {
	if p.shape == stringShape && p.enum == nil {
		return nil
	}
	text, err := unquote(raw)
	if err != nil {
		return err
	}
	switch p.shape {
	case uuidShape:
		if _, err := uuid.ParseBytes(text); err != nil || len(text) != 36 {
			return badParams("field %q: expected a UUID", at.String())
		}
	case timeShape:
		if _, err := time.Parse(time.RFC3339Nano, string(text)); err != nil {
			return badParams("field %q: expected an RFC 3339 time", at.String())
		}
	case bytesShape, textShape:
		if err := probe(p, raw, at); err != nil {
			return err
		}
	}
	if p.enum != nil && !slices.Contains(p.enum, string(text)) {
		return badParams("field %q: expected one of %s", at.String(), strings.Join(p.enum, ", "))
	}
	return nil
}

// probe decodes the value with the type's own decoder, so that the error can name the field.
func probe(p *plan, raw []byte, at place) error {
	if err := json.Unmarshal(raw, reflect.New(p.typ).Interface()); err != nil {
		return badParams("field %q: not a valid %s", at.String(), strings.ToLower(p.typ.Name()))
	}
	return nil
}

func unknownField(p *plan, name string, at place) error {
	full := place{up: &at, name: name}.String()
	if len(full) > 128 {
		full = full[:128] + "…"
	}
	if best := nearest(name, p); best != "" {
		return badParams("unknown field %q; did you mean %q?", full, best)
	}
	return badParams("unknown field %q", full)
}

// nearest returns the field whose name differs from name only in case and underscores, else one
// within two edits.
func nearest(name string, p *plan) string {
	if len(name) > 64 {
		return ""
	}
	plain := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
	}
	best, bestAt := "", 3
	for _, f := range p.fields {
		d := editDistance(plain(name), plain(f.name))
		if d < bestAt && d*2 < max(len(f.name), 2) {
			best, bestAt = f.name, d
		}
	}
	return best
}

// editDistance returns the Levenshtein distance.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diag+cost)
		}
	}
	return row[len(b)]
}

// applyPreset sets the fixed fields of an alias in raw.
func applyPreset(raw []byte, preset map[string]string) ([]byte, error) {
	var obj map[string]json.RawMessage
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	if raw[0] != '{' || json.Unmarshal(raw, &obj) != nil {
		return nil, badParams("params must be an object with named fields")
	}
	for name, value := range preset {
		want, err := marshal(value)
		if err != nil {
			return nil, err
		}
		if got, ok := obj[name]; ok && string(got) != string(want) {
			return nil, badParams("field %q: this name always means %s", name, value)
		}
		obj[name] = want
	}
	return json.Marshal(obj)
}
