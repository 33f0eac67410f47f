// Package expr evaluates the expressions of skills: paths, conditions and templates over a JSON
// document. Paths and conditions are exactly those of RFC 9535. Expressions cannot run code, and
// the work of every evaluation is limited.
//
// Documents consist of the types that encoding/json decodes with UseNumber: map[string]any, []any, string,
// json.Number, bool and nil. They are never modified, and results may share parts with them.
package expr

import (
	"encoding/json"
	"fmt"

	"helix/backend/fault"
)

// The limits of one expression.
const (
	MaxText  = 2048      // bytes
	MaxDepth = 32        // nesting of brackets and parentheses
	MaxNodes = 1_000_000 // nodes visited by one evaluation
)

// budget counts down the nodes that an evaluation may still visit. Exhausting it panics, which
// keeps the walk simple; the exported functions recover and return an error.
type budget struct{ left int }

type spent struct{}

func (b *budget) spend(n int) {
	if b.left -= n; b.left < 0 {
		panic(spent{})
	}
}

// guard runs f and converts an exhausted budget to an error of kind limit.
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

// Decode decodes one JSON document to the types that this package uses. The error is Invalid for
// numbers that jcs.NumberFits rejects.
func Decode(b []byte) (any, error) {
	return decode(b)
}

// weight returns the cost of visiting all of v: its nodes, plus a share for long strings.
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
