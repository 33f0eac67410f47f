package jcs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"helix/backend/fault"
)

// Limits on numbers in JSON from outside. Arithmetic on a number takes time and memory that grow
// with its exponent, not with its text: 1e100000000 has eleven characters and a hundred million
// digits. No double and no number that people write is beyond these limits.
const (
	MaxNumberDigits   = 1000 // before the exponent
	MaxNumberExponent = 400  // as written, with either sign
)

// NumberProblem is the details of an error about a number that is too large.
type NumberProblem struct {
	Path    string `json:"path"` // JSON pointer to the number, "" for the whole value
	Message string `json:"message"`
}

// NumberFits reports whether the text of a JSON number is within the limits.
func NumberFits(text string) bool {
	mantissa, exponent := text, ""
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		mantissa, exponent = text[:at], text[at+1:]
	}
	if len(mantissa) > MaxNumberDigits+2 { // a sign and a point
		return false
	}
	exponent = strings.TrimLeft(strings.TrimLeft(exponent, "+-"), "0")
	if len(exponent) > 3 {
		return false
	}
	if exponent == "" {
		return true
	}
	n, err := strconv.Atoi(exponent)
	return err == nil && n <= MaxNumberExponent
}

// CheckNumbers returns an error if a number in text, which must be valid JSON, is beyond the
// limits. Call it for JSON from outside whose numbers are kept as written. The error is Invalid and
// has NumberProblem as details.
func CheckNumbers(text []byte) error {
	for number := range Numbers(text) {
		if len(number) > 3 && !NumberFits(string(number)) {
			return findNumber(text, string(number))
		}
	}
	return nil
}

// Numbers gives the numbers of a text, which must be valid JSON.
func Numbers(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for i := 0; i < len(text); {
			switch c := text[i]; {
			case c == '"':
				i = stringEnd(text, i+1)
			case c == '-' || c >= '0' && c <= '9':
				from := i
				for i < len(text) && isNumberByte(text[i]) {
					i++
				}
				if !yield(text[from:i]) {
					return
				}
			default:
				i++
			}
		}
	}
}

// stringEnd is the place behind the string that goes on at i.
func stringEnd(text []byte, i int) int {
	for i < len(text) {
		end := bytes.IndexByte(text[i:], '"')
		if end < 0 {
			break
		}
		escape := bytes.IndexByte(text[i:i+end], '\\')
		if escape < 0 {
			return i + end + 1
		}
		i += escape + 2
	}
	return len(text)
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E'
}

// findNumber returns the error for a text in which a number is too large.
func findNumber(text []byte, number string) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return TooLarge("", number)
	}
	return checkValue(v)
}

// checkValue is CheckNumbers for a value whose numbers were decoded as json.Number.
func checkValue(v any) error {
	path, number, found := numberBeyond(v)
	if !found {
		return nil
	}
	slices.Reverse(path)
	return TooLarge(strings.Join(path, ""), number)
}

// numberBeyond returns the path to the first number beyond the limits, innermost step first.
func numberBeyond(v any) (path []string, number string, found bool) {
	switch v := v.(type) {
	case json.Number:
		return nil, v.String(), !NumberFits(v.String())
	case []any:
		for i, e := range v {
			if path, number, found = numberBeyond(e); found {
				return append(path, "/"+strconv.Itoa(i)), number, true
			}
		}
	case map[string]any:
		for k, e := range v {
			if path, number, found = numberBeyond(e); found {
				return append(path, "/"+EscapePointer(k)), number, true
			}
		}
	}
	return nil, "", false
}

// TooLarge returns the error for a number beyond the limits at a JSON pointer.
func TooLarge(path, number string) error {
	where := path
	if where == "" {
		where = "the value"
	}
	if len(number) > 40 {
		number = number[:40] + "…"
	}
	message := fmt.Sprintf("the number %s is beyond %d digits or an exponent from -%d to %d", number, MaxNumberDigits, MaxNumberExponent, MaxNumberExponent)
	return fault.Invalidf("%s: %s", where, message).WithDetails(NumberProblem{Path: path, Message: message})
}

// EscapePointer escapes a member's name for use in a JSON pointer (RFC 6901).
func EscapePointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
