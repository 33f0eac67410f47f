// Package expr evaluates what skills say about data: paths, conditions and templates over
// a JSON document. Paths and conditions are those of RFC 9535 and nothing else. There is
// no way from a text to code, and every evaluation is bounded.
//
// Documents are what encoding/json decodes with UseNumber: map[string]any, []any, string,
// json.Number, bool and nil. They are never changed, and results share their parts.
package expr

import (
	"encoding/json"
	"fmt"

	"helix/backend/fault"
)

// The bounds of one expression.
const (
	MaxText  = 2048      // bytes
	MaxDepth = 32        // brackets and parentheses inside each other
	MaxNodes = 1_000_000 // nodes that one evaluation may visit
)

// budget counts down the nodes that an evaluation may still visit. Running out of it is a
// panic that the exported functions turn into an error, so that the walk stays readable.
type budget struct{ left int }

type spent struct{}

func (b *budget) spend(n int) {
	if b.left -= n; b.left < 0 {
		panic(spent{})
	}
}

// guard runs f and turns a spent budget into an error of kind limit.
func guard(b *budget, f func(*budget)) (err error) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case spent:
			err = fault.Limitf("The expression visits more than %d nodes.", MaxNodes)
		default:
			panic(x)
		}
	}()
	f(b)
	return nil
}

// Decode reads one JSON document in the form that this package works on. Numbers that
// jcs.NumberFits refuses are Invalid.
func Decode(b []byte) (any, error) {
	return decode(b)
}

// weight is what looking at all of v costs: its nodes, and a part for long strings.
func weight(v any, most int) int {
	n := 1
	switch v := v.(type) {
	case string:
		n += len(v) / 64
	case json.Number:
		n += len(v) / 64
	case []any:
		for _, e := range v {
			if n >= most {
				return most
			}
			n += weight(e, most-n)
		}
	case map[string]any:
		for k, e := range v {
			if n >= most {
				return most
			}
			n += len(k)/64 + weight(e, most-n)
		}
	}
	return min(n, most)
}

func invalidf(format string, args ...any) error {
	return fault.Invalidf("%s", fmt.Sprintf(format, args...))
}
