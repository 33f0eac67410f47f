package expr

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// MaxSize is the maximum size of the value of a template, in bytes of JSON.
const MaxSize = 1 << 20

// Meter limits the size of values, in bytes of JSON, while they are built. Values share their
// parts, so a small template can describe a result that does not fit in memory.
type Meter struct{ most, left int }

// NewMeter returns a meter for results of at most most bytes.
func NewMeter(most int) *Meter { return &Meter{most, most} }

// Take adds the size of v. It visits v only as far as the limit allows. The error is of kind limit.
func (m *Meter) Take(v any) error {
	if m.left -= size(v, m.left); m.left < 0 {
		return m.full()
	}
	return nil
}

func (m *Meter) take(n int) error {
	if m.left -= n; m.left < 0 {
		return m.full()
	}
	return nil
}

func (m *Meter) full() error {
	m.left = -1
	return fault.Limitf("The value has more than %s.", bytesText(m.most))
}

func bytesText(n int) string {
	if n >= 1<<20 {
		return strconv.Itoa(n>>20) + " MiB"
	}
	return strconv.Itoa(n) + " bytes"
}

// Encode encodes v as JSON of at most most bytes, without escaping <, > and &. It checks the size
// before it allocates anything; the error is of kind limit.
func Encode(v any, most int) (json.RawMessage, error) {
	if err := NewMeter(most).Take(v); err != nil {
		return nil, err
	}
	return jcs.Marshal(v)
}

// size returns the number of bytes of v as JSON, or any number above most.
func size(v any, most int) int {
	n := 0
	switch v := v.(type) {
	case nil:
		n = 4
	case bool:
		n = 5
		if v {
			n = 4
		}
	case string:
		return textSize(v)
	case json.Number:
		return max(len(v), 1)
	case []any:
		n = 2 + max(len(v)-1, 0)
		for _, e := range v {
			if n > most {
				break
			}
			n += size(e, most-n)
		}
	case map[string]any:
		n = 2 + max(len(v)-1, 0)
		for k, e := range v {
			if n > most {
				break
			}
			n += textSize(k) + 1
			n += size(e, most-n)
		}
	case json.RawMessage:
		n = len(v)
	default: // a Go number
		n = 24
	}
	return n
}

// textSize returns the number of bytes of a string as JSON.
func textSize(s string) int {
	n := len(s) + 2
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\' || c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t':
			n++
		case c < 0x20:
			n += 5
		case c >= utf8.RuneSelf:
			r, width := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && width == 1: // encoded as an escape
				n += 5
			case r == 0x2028 || r == 0x2029:
				n += 3
			}
			i += width
			continue
		}
		i++
	}
	return n
}
