package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"helix/backend/jcs"
)

func typesOf(names ...string) (t jsonschema.Types) {
	for _, n := range names {
		t.Add(n)
	}
	return t
}

var (
	nullType    = typesOf("null")
	boolType    = typesOf("boolean")
	numberType  = typesOf("number")
	integerType = typesOf("integer")
	stringType  = typesOf("string")
	arrayType   = typesOf("array")
	objectType  = typesOf("object")
)

func typeOf(v any) jsonschema.Types {
	switch v.(type) {
	case nil:
		return nullType
	case bool:
		return boolType
	case string:
		return stringType
	case []any:
		return arrayType
	case map[string]any:
		return objectType
	}
	return numberType
}

// numberText returns a number as JSON writes it. Go's own number types occur where a program built
// the value.
func numberText(v any) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), true
	case float64, float32, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		b, err := json.Marshal(v)
		return string(b), err == nil
	}
	return "", false
}

// canonicalNumber returns the digits and exponent that all texts of the same number share.
func canonicalNumber(text string) (digits string, exponent int) {
	sign := ""
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		sign, text = "-", rest
	}
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent, _ = strconv.Atoi(strings.TrimPrefix(text[at+1:], "+"))
		text = text[:at]
	}
	whole, part, _ := strings.Cut(text, ".")
	digits = strings.TrimLeft(whole+part, "0")
	exponent -= len(part)
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return "0", 0
	}
	return sign + trimmed, exponent + len(digits) - len(trimmed)
}

func isInteger(text string) bool {
	_, exponent := canonicalNumber(text)
	return exponent >= 0
}

// rational returns the value of a number within the limits.
func (c *checker) rational(text string) (*big.Rat, bool) {
	if !jcs.NumberFits(text) {
		return nil, false
	}
	size := len(text)
	if len(text) > 15 || strings.ContainsAny(text, "eE") {
		digits, exponent := canonicalNumber(text)
		size = len(digits) + max(exponent, -exponent)
	}
	c.spend(8 + size*size/1000)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil { // the common case
		return new(big.Rat).SetInt64(n), true
	}
	return new(big.Rat).SetString(text)
}

// decimal formats a limit of a schema for people.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return shorten(r.Num().String(), 60)
	}
	digits, exact := r.FloatPrec()
	if !exact || digits > 40 {
		f, _ := r.Float64()
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return shorten(r.FloatString(digits), 60)
}

// key appends a text that is the same for equal values and different for others.
func (c *checker) key(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		c.spend(1)
		return append(dst, 'n')
	case bool:
		c.spend(1)
		return strconv.AppendBool(dst, v)
	case string:
		c.spend(2 + len(v)/16)
		dst = strconv.AppendInt(dst, int64(len(v)), 10)
		return append(append(dst, ':'), v...)
	case []any:
		c.spend(2)
		dst = append(dst, '[')
		for _, x := range v {
			dst = append(c.key(dst, x), ',')
		}
		return append(dst, ']')
	case map[string]any:
		c.spend(2)
		dst = append(dst, '{')
		for _, k := range sortedKeys(c, v) {
			dst = append(c.key(c.key(dst, k), v[k]), ',')
		}
		return append(dst, '}')
	}
	text, _ := numberText(v)
	c.spend(4 + len(text)/4)
	digits, exponent := canonicalNumber(text)
	return strconv.AppendInt(append(append(append(dst, '#'), digits...), 'e'), int64(exponent), 10)
}

// newValueSet prepares the values that enum or const allows. Its numbers are within the limits.
func newValueSet(list []any) valueSet {
	c := &checker{left: int(^uint(0) >> 1)}
	set := valueSet{keys: make(map[string]struct{}, len(list))}
	for _, v := range list {
		set.keys[string(c.key(nil, v))] = struct{}{}
		set.types |= typeOf(v)
	}
	return set
}

// in reports whether v is in a set. The cost does not depend on the size of the set.
func (c *checker) in(set valueSet, t jsonschema.Types, v any) bool {
	c.spend(2)
	if set.types&t == 0 {
		return false
	}
	_, ok := set.keys[string(c.key(nil, v))]
	return ok
}

// display formats values of a schema for people.
func display(list []any) string {
	var b strings.Builder
	for i, v := range list {
		if b.Len() > 250 {
			return b.String() + ", …"
		}
		if i > 0 {
			b.WriteString(", ")
		}
		text, err := json.Marshal(v)
		if err != nil {
			text = fmt.Append(nil, v)
		}
		b.WriteString(shorten(string(text), 100))
	}
	return b.String()
}
