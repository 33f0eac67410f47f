package jcs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Decode reads one JSON text with objects as map[string]any and numbers as json.Number. Unlike
// encoding/json, it rejects duplicate keys, nesting beyond depth, more than nodes values (0: no
// limit), text after the value, and numbers that NumberFits rejects.
func Decode(raw []byte, depth, nodes int) (any, error) {
	r := jsonReader{in: raw, depth: depth, nodes: nodes}
	r.space()
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if r.space(); r.pos < len(raw) {
		return nil, errors.New("there is text after the JSON value")
	}
	if err := CheckNumbers(raw); err != nil {
		return nil, err
	}
	return v, nil
}

type jsonReader struct {
	in    []byte
	pos   int
	depth int
	nodes int
	seen  int
}

func (r *jsonReader) bad() error {
	if r.pos >= len(r.in) {
		return errors.New("the JSON ends too early")
	}
	return fmt.Errorf("not valid JSON at byte %d", r.pos)
}

func (r *jsonReader) space() {
	for r.pos < len(r.in) {
		switch r.in[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// next skips white space. If the next character is c, it consumes it and returns true.
func (r *jsonReader) next(c byte) bool {
	r.space()
	if r.pos < len(r.in) && r.in[r.pos] == c {
		r.pos++
		return true
	}
	return false
}

func (r *jsonReader) value(level int) (any, error) {
	if r.seen++; r.nodes > 0 && r.seen > r.nodes {
		return nil, fmt.Errorf("it has more than %d values", r.nodes)
	}
	if r.pos >= len(r.in) {
		return nil, r.bad()
	}
	switch c := r.in[r.pos]; {
	case c == '{':
		return r.object(level)
	case c == '[':
		return r.array(level)
	case c == '"':
		return r.str()
	case c == 't':
		return true, r.word("true")
	case c == 'f':
		return false, r.word("false")
	case c == 'n':
		return nil, r.word("null")
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	}
	return nil, r.bad()
}

func (r *jsonReader) word(w string) error {
	if !bytes.HasPrefix(r.in[r.pos:], []byte(w)) {
		return r.bad()
	}
	r.pos += len(w)
	return nil
}

func (r *jsonReader) enter(level int) error {
	if level >= r.depth {
		return fmt.Errorf("it is nested more than %d levels deep", r.depth)
	}
	r.pos++
	return nil
}

func (r *jsonReader) object(level int) (any, error) {
	if err := r.enter(level); err != nil {
		return nil, err
	}
	m := map[string]any{}
	if r.next('}') {
		return m, nil
	}
	for {
		r.space()
		if r.pos >= len(r.in) || r.in[r.pos] != '"' {
			return nil, r.bad()
		}
		key, err := r.str()
		if err != nil {
			return nil, err
		}
		if !r.next(':') {
			return nil, r.bad()
		}
		r.space()
		v, err := r.value(level + 1)
		if err != nil {
			return nil, err
		}
		n := len(m)
		if m[key] = v; len(m) == n {
			return nil, fmt.Errorf("the key %.60q is given twice", key)
		}
		if r.next('}') {
			return m, nil
		}
		if !r.next(',') {
			return nil, r.bad()
		}
	}
}

func (r *jsonReader) array(level int) (any, error) {
	if err := r.enter(level); err != nil {
		return nil, err
	}
	list := []any{}
	if r.next(']') {
		return list, nil
	}
	for {
		r.space()
		v, err := r.value(level + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if r.next(']') {
			return list, nil
		}
		if !r.next(',') {
			return nil, r.bad()
		}
	}
}

// str reads a string; r stands at its quote.
func (r *jsonReader) str() (string, error) {
	start := r.pos
	plain := true
	for i := r.pos + 1; i < len(r.in); i++ {
		switch c := r.in[i]; {
		case c == '"':
			r.pos = i + 1
			if text := r.in[start+1 : i]; plain && utf8.Valid(text) {
				return string(text), nil
			}
			var s string
			if err := json.Unmarshal(r.in[start:r.pos], &s); err != nil {
				r.pos = start
				return "", r.bad()
			}
			return s, nil
		case c == '\\':
			plain = false
			i++
		case c < 0x20:
			r.pos = i
			return "", r.bad()
		}
	}
	r.pos = len(r.in)
	return "", r.bad()
}

// number reads a number according to the grammar of RFC 8259.
func (r *jsonReader) number() (any, error) {
	start := r.pos
	if r.in[r.pos] == '-' {
		r.pos++
	}
	if r.pos < len(r.in) && r.in[r.pos] == '0' {
		r.pos++
	} else if !r.digits() {
		return nil, r.bad()
	}
	if r.pos < len(r.in) && r.in[r.pos] == '.' {
		if r.pos++; !r.digits() {
			return nil, r.bad()
		}
	}
	if r.pos < len(r.in) && (r.in[r.pos] == 'e' || r.in[r.pos] == 'E') {
		if r.pos++; r.pos < len(r.in) && (r.in[r.pos] == '+' || r.in[r.pos] == '-') {
			r.pos++
		}
		if !r.digits() {
			return nil, r.bad()
		}
	}
	return json.Number(r.in[start:r.pos]), nil
}

func (r *jsonReader) digits() bool {
	from := r.pos
	for r.pos < len(r.in) && r.in[r.pos] >= '0' && r.in[r.pos] <= '9' {
		r.pos++
	}
	return r.pos > from
}
