package providers

import (
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"
)

var errJSON = errors.New("malformed JSON")

// maxDepth limits the nesting of an event.
const maxDepth = 256

// cursor reads one JSON text from front to back without building values: members that the caller does
// not read are skipped. It is lenient about types, because servers differ in them, and strict about
// syntax.
type cursor struct {
	b     []byte
	i     int
	depth int
	bad   bool
}

func (c *cursor) fail() { c.bad, c.i = true, len(c.b) }

func (c *cursor) space() {
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return
		}
	}
}

// peek returns the first byte of the next token, 0 at the end.
func (c *cursor) peek() byte {
	c.space()
	if c.i < len(c.b) {
		return c.b[c.i]
	}
	return 0
}

func (c *cursor) enter() bool {
	if c.depth++; c.depth > maxDepth {
		c.fail()
	}
	c.i++
	return !c.bad
}

// object calls fn with each key; fn reads the value or ignores it. Anything but an object is skipped.
func (c *cursor) object(fn func(key []byte)) {
	if c.peek() != '{' {
		c.skip()
		return
	}
	if !c.enter() {
		return
	}
	defer func() { c.depth-- }()
	if c.peek() == '}' {
		c.i++
		return
	}
	for !c.bad {
		if c.peek() != '"' {
			c.fail()
			return
		}
		key, escaped := c.quoted()
		if escaped {
			key = unescape(key)
		}
		if c.peek() != ':' {
			c.fail()
			return
		}
		c.i++
		c.space()
		at := c.i
		fn(key)
		if c.i == at {
			c.skip()
		}
		switch c.peek() {
		case ',':
			c.i++
		case '}':
			c.i++
			return
		default:
			c.fail()
		}
	}
}

// array calls fn at each element; fn reads it or ignores it. Anything but an array is skipped.
func (c *cursor) array(fn func()) {
	if c.peek() != '[' {
		c.skip()
		return
	}
	if !c.enter() {
		return
	}
	defer func() { c.depth-- }()
	if c.peek() == ']' {
		c.i++
		return
	}
	for !c.bad {
		c.space()
		at := c.i
		fn()
		if c.i == at {
			c.skip()
		}
		switch c.peek() {
		case ',':
			c.i++
		case ']':
			c.i++
			return
		default:
			c.fail()
		}
	}
}

// skip skips one value.
func (c *cursor) skip() {
	switch ch := c.peek(); {
	case ch == '"':
		c.quoted()
	case ch == '{':
		c.object(func([]byte) {})
	case ch == '[':
		c.array(func() {})
	case ch == 't':
		c.word("true")
	case ch == 'f':
		c.word("false")
	case ch == 'n':
		c.word("null")
	case ch == '-' || ch >= '0' && ch <= '9':
		c.number()
	default:
		c.fail()
	}
}

func (c *cursor) word(w string) {
	if len(c.b)-c.i < len(w) || string(c.b[c.i:c.i+len(w)]) != w {
		c.fail()
		return
	}
	c.i += len(w)
}

// raw returns the text of one value.
func (c *cursor) raw() []byte {
	c.space()
	at := c.i
	c.skip()
	if c.bad {
		return nil
	}
	return c.b[at:c.i]
}

func (c *cursor) number() []byte {
	at := c.i
	digits := func() bool {
		from := c.i
		for c.i < len(c.b) && c.b[c.i] >= '0' && c.b[c.i] <= '9' {
			c.i++
		}
		return c.i > from
	}
	if c.b[c.i] == '-' {
		c.i++
	}
	whole := c.i
	ok := digits() && (c.b[whole] != '0' || c.i == whole+1)
	if ok && c.i < len(c.b) && c.b[c.i] == '.' {
		c.i++
		ok = digits()
	}
	if ok && c.i < len(c.b) && c.b[c.i]|0x20 == 'e' {
		c.i++
		if c.i < len(c.b) && (c.b[c.i] == '+' || c.b[c.i] == '-') {
			c.i++
		}
		ok = digits()
	}
	if !ok {
		c.fail()
		return nil
	}
	return c.b[at:c.i]
}

// quoted returns the raw text between the quotes, and whether it contains escapes.
func (c *cursor) quoted() (s []byte, escaped bool) {
	c.i++
	at := c.i
	for i := at; i < len(c.b); i++ {
		switch ch := c.b[i]; {
		case ch == '"':
			c.i = i + 1
			return c.b[at:i], escaped
		case ch == '\\':
			n := escapeLength(c.b[i:])
			if n == 0 {
				c.fail()
				return nil, false
			}
			escaped = true
			i += n - 1
		case ch < 0x20:
			c.fail()
			return nil, false
		}
	}
	c.fail()
	return nil, false
}

// escapeLength returns the length of the escape at the start of b, or 0 if it is invalid.
func escapeLength(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 {
			if _, ok := hex4(b[2:6]); ok {
				return 6
			}
		}
	}
	return 0
}

func hex4(b []byte) (r rune, ok bool) {
	for _, ch := range b {
		switch {
		case ch >= '0' && ch <= '9':
			ch -= '0'
		case ch|0x20 >= 'a' && ch|0x20 <= 'f':
			ch = ch | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(ch)
	}
	return r, true
}

// unescape resolves escapes that quoted has checked. A lone surrogate is written as three bytes that
// are not valid UTF-8, because its other half may be in the next delta.
func unescape(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, _ := hex4(s[i+1 : i+5])
			i += 4
			if r >= 0xD800 && r < 0xE000 {
				out = append(out, 0xED, 0x80|byte(r>>6)&0x3F, 0x80|byte(r)&0x3F)
			} else {
				out = utf8.AppendRune(out, r)
			}
		default:
			out = append(out, s[i])
		}
	}
	return out
}

// bytes returns a string's bytes without escapes, or nil for anything but a string. The result may
// alias the input.
func (c *cursor) bytes() []byte {
	if c.peek() != '"' {
		c.skip()
		return nil
	}
	s, escaped := c.quoted()
	if escaped {
		s = unescape(s)
	}
	return s
}

// str returns a string as valid UTF-8, or "" for anything but a string.
func (c *cursor) str() string {
	b := c.bytes()
	if utf8.Valid(b) {
		return string(b)
	}
	return string(wellFormed(b))
}

// count returns a number as an integer, rounded down and at least 0; it returns 0 for anything but a
// number.
func (c *cursor) count() int64 {
	ch := c.peek()
	if ch != '-' && (ch < '0' || ch > '9') {
		c.skip()
		return 0
	}
	n := c.number()
	if v, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return max(v, 0)
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil || !(f > 0) || f > 1<<53 {
		return 0
	}
	return int64(f)
}

// truth returns a boolean; false for anything else.
func (c *cursor) truth() bool {
	v := c.peek() == 't'
	c.skip()
	return v
}

// end returns an error unless the text was exactly one complete value.
func (c *cursor) end() error {
	if c.peek() != 0 || c.bad || c.i < len(c.b) {
		return errJSON
	}
	return nil
}

// joiner converts deltas that may be split inside a character to valid UTF-8.
type joiner struct{ rest []byte }

// add returns the complete characters of the remainder followed by b, and keeps the rest.
func (j *joiner) add(b []byte) string {
	if len(j.rest) == 0 && utf8.Valid(b) {
		return string(b)
	}
	all := slices.Concat(j.rest, b)
	n := len(all) - partial(all)
	out := string(wellFormed(all[:n]))
	j.rest = all[n:]
	return out
}

// end returns the incomplete remainder as replacement characters.
func (j *joiner) end() string {
	out := string(wellFormed(j.rest))
	j.rest = nil
	return out
}

// partial returns the number of bytes at the end of b that may be an incomplete character.
func partial(b []byte) int {
	if n := len(b); n >= 3 && highSurrogate(b[n-3:]) {
		return 3
	} else if n >= 4 { // a high surrogate and part of a low one
		for k := 1; k <= 2 && n-k >= 3; k++ {
			if b[n-k] == 0xED && highSurrogate(b[n-k-3:n-k]) {
				return k + 3
			}
		}
	}
	for k := 1; k <= min(3, len(b)); k++ {
		if tail := b[len(b)-k:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return k
			}
			return 0
		}
	}
	return 0
}

func highSurrogate(b []byte) bool { return b[0] == 0xED && b[1]&0xF0 == 0xA0 && b[2]&0xC0 == 0x80 }
func lowSurrogate(b []byte) bool  { return b[0] == 0xED && b[1]&0xF0 == 0xB0 && b[2]&0xC0 == 0x80 }

// wellFormed joins surrogate pairs and replaces invalid UTF-8.
func wellFormed(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]byte, 0, len(b)+8)
	for i := 0; i < len(b); {
		if len(b)-i >= 3 && (highSurrogate(b[i:]) || lowSurrogate(b[i:])) {
			if highSurrogate(b[i:]) && len(b)-i >= 6 && lowSurrogate(b[i+3:]) {
				hi := rune(b[i+1]&0x0F)<<6 | rune(b[i+2]&0x3F)
				lo := rune(b[i+4]&0x0F)<<6 | rune(b[i+5]&0x3F)
				out = utf8.AppendRune(out, 0x10000+hi<<10+lo)
				i += 6
				continue
			}
			out = utf8.AppendRune(out, utf8.RuneError)
			i += 3
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return out
}
