// Package jcs writes JSON in the canonical form of RFC 8785 (JCS), so that equal values have equal
// bytes and can be hashed and signed. Any package may import it; it imports only fault.
package jcs

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"helix/backend/fault"
)

// MaxDepth is the maximum nesting depth of arrays and objects.
const MaxDepth = 512

// Canonicalize returns the RFC 8785 form of one JSON text: members sorted by UTF-16 code
// units, numbers as ECMAScript prints them, the shortest strings, no white space. Errors are
// Invalid: not JSON, a duplicate member, a lone surrogate, bytes that are not UTF-8, a
// number beyond IEEE 754 double, nesting deeper than MaxDepth.
func Canonicalize(text []byte) ([]byte, error) {
	return Append(make([]byte, 0, len(text)), text)
}

// Append appends the canonical form of text to dst.
func Append(dst, text []byte) ([]byte, error) {
	p := parser{in: text, out: dst}
	p.space()
	if err := p.value(0); err != nil {
		return nil, err
	}
	p.space()
	if p.pos != len(p.in) {
		return nil, p.errorf("unexpected text after the value")
	}
	return p.out, nil
}

// Hash is SHA-256 over tag, a zero byte and the canonical JSON of v. A json.RawMessage is used
// directly; anything else is encoded with encoding/json first. The tag separates hashes for
// different purposes.
func Hash(tag string, v any) ([32]byte, error) {
	raw, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = Marshal(v); err != nil {
			return [32]byte{}, fmt.Errorf("hash %s: %w", tag, err)
		}
	}
	buf := make([]byte, 0, len(tag)+1+len(raw))
	buf = append(append(buf, tag...), 0)
	buf, err := Append(buf, raw)
	if err != nil {
		return [32]byte{}, err
	}
	return sha256.Sum256(buf), nil
}

// Marshal is json.Marshal without HTML escapes: <, > and & stay readable. The text is not
// canonical.
func Marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

type parser struct {
	in  []byte
	pos int
	out []byte
	mem []member // a stack of the members of the open objects
	tmp []byte
}

// member is one member of an object as written to out: its canonical text and its key.
type member struct {
	from, to int // in out: key, colon, value
	key      int // end of the key's text, quotes included
}

func (p *parser) errorf(format string, args ...any) error {
	return fault.Invalidf("Not valid JSON at byte %d: %s.", p.pos, fmt.Sprintf(format, args...))
}

func (p *parser) space() {
	for p.pos < len(p.in) {
		switch p.in[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

func (p *parser) value(depth int) error {
	if p.pos >= len(p.in) {
		return p.errorf("it ends too early")
	}
	switch c := p.in[p.pos]; {
	case c == '"':
		return p.str()
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case c == 't':
		return p.word("true")
	case c == 'f':
		return p.word("false")
	case c == 'n':
		return p.word("null")
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	return p.errorf("unexpected character")
}

func (p *parser) word(w string) error {
	if !bytes.HasPrefix(p.in[p.pos:], []byte(w)) {
		return p.errorf("unexpected word")
	}
	p.pos += len(w)
	p.out = append(p.out, w...)
	return nil
}

// next skips white space. If the next byte is c, it consumes it and returns true.
func (p *parser) next(c byte) bool {
	p.space()
	if p.pos < len(p.in) && p.in[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

func (p *parser) array(depth int) error {
	if depth == MaxDepth {
		return p.errorf("nested deeper than %d", MaxDepth)
	}
	p.pos++
	p.out = append(p.out, '[')
	if p.next(']') {
		p.out = append(p.out, ']')
		return nil
	}
	for {
		p.space()
		if err := p.value(depth + 1); err != nil {
			return err
		}
		if p.next(']') {
			p.out = append(p.out, ']')
			return nil
		}
		if !p.next(',') {
			return p.errorf("a comma or ] is missing")
		}
		p.out = append(p.out, ',')
	}
}

func (p *parser) object(depth int) error {
	if depth == MaxDepth {
		return p.errorf("nested deeper than %d", MaxDepth)
	}
	p.pos++
	p.out = append(p.out, '{')
	if p.next('}') {
		p.out = append(p.out, '}')
		return nil
	}
	base, start, sorted := len(p.mem), len(p.out), true
	for {
		p.space()
		if p.pos >= len(p.in) || p.in[p.pos] != '"' {
			return p.errorf("a member name is missing")
		}
		m := member{from: len(p.out)}
		if err := p.str(); err != nil {
			return err
		}
		m.key = len(p.out)
		if !p.next(':') {
			return p.errorf("a colon is missing")
		}
		p.out = append(p.out, ':')
		p.space()
		if err := p.value(depth + 1); err != nil {
			return err
		}
		m.to = len(p.out)
		if n := len(p.mem); n > base && sorted {
			last := p.mem[n-1]
			sorted = compareKeys(p.out[last.from:last.key], p.out[m.from:m.key]) < 0
		}
		p.mem = append(p.mem, m)
		if p.next('}') {
			break
		}
		if !p.next(',') {
			return p.errorf("a comma or } is missing")
		}
		p.out = append(p.out, ',')
	}
	members := p.mem[base:]
	p.mem = p.mem[:base]
	if sorted {
		p.out = append(p.out, '}')
		return nil
	}
	slices.SortFunc(members, func(a, b member) int {
		return compareKeys(p.out[a.from:a.key], p.out[b.from:b.key])
	})
	p.tmp = p.tmp[:0]
	for i, m := range members {
		if i > 0 {
			last := members[i-1]
			if bytes.Equal(p.out[last.from:last.key], p.out[m.from:m.key]) {
				return p.errorf("the member %s is there twice", p.out[m.from:m.key])
			}
			p.tmp = append(p.tmp, ',')
		}
		p.tmp = append(p.tmp, p.out[m.from:m.to]...)
	}
	p.out = append(append(p.out[:start], p.tmp...), '}')
	return nil
}

// compareKeys orders two canonical string texts by the UTF-16 code units of their values.
func compareKeys(a, b []byte) int {
	a, b = a[1:len(a)-1], b[1:len(b)-1]
	n := min(len(a), len(b))
	for i := 0; i < n; i++ {
		if a[i] == b[i] {
			if a[i] != '\\' {
				continue
			}
			return compareUnits(a, b)
		}
		if a[i] >= utf8.RuneSelf && b[i] >= utf8.RuneSelf || a[i] == '\\' || b[i] == '\\' {
			return compareUnits(a, b)
		}
		return int(a[i]) - int(b[i])
	}
	return len(a) - len(b)
}

func compareUnits(a, b []byte) int {
	return slices.Compare(units(a), units(b))
}

// units decodes the content of a canonical string to UTF-16.
func units(s []byte) []uint16 {
	var v string
	if bytes.IndexByte(s, '\\') < 0 {
		v = string(s)
	} else {
		quoted := append(append([]byte{'"'}, s...), '"')
		_ = json.Unmarshal(quoted, &v) // our own output, so always valid
	}
	return utf16.Encode([]rune(v))
}

const hexDigits = "0123456789abcdef"

// str copies one string with its escapes in canonical form.
func (p *parser) str() error {
	p.pos++
	p.out = append(p.out, '"')
	for {
		run := p.pos
		for p.pos < len(p.in) {
			if c := p.in[p.pos]; c == '"' || c == '\\' || c < 0x20 || c >= utf8.RuneSelf {
				break
			}
			p.pos++
		}
		p.out = append(p.out, p.in[run:p.pos]...)
		if p.pos >= len(p.in) {
			return p.errorf("a string does not end")
		}
		switch c := p.in[p.pos]; {
		case c == '"':
			p.pos++
			p.out = append(p.out, '"')
			return nil
		case c == '\\':
			r, err := p.escape()
			if err != nil {
				return err
			}
			p.out = appendRune(p.out, r)
		case c < 0x20:
			return p.errorf("a control character inside a string")
		default:
			r, n := utf8.DecodeRune(p.in[p.pos:])
			if r == utf8.RuneError && n == 1 {
				return p.errorf("a string is not UTF-8")
			}
			p.out = append(p.out, p.in[p.pos:p.pos+n]...)
			p.pos += n
		}
	}
}

// escape reads one escape sequence, surrogate pairs included.
func (p *parser) escape() (rune, error) {
	p.pos++
	if p.pos >= len(p.in) {
		return 0, p.errorf("a string does not end")
	}
	c := p.in[p.pos]
	p.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		r, ok := p.hex4()
		if !ok {
			return 0, p.errorf("a \\u escape needs four hexadecimal digits")
		}
		if !utf16.IsSurrogate(r) {
			return r, nil
		}
		if bytes.HasPrefix(p.in[p.pos:], []byte(`\u`)) {
			p.pos += 2
			if low, ok := p.hex4(); ok {
				if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
					return full, nil
				}
			}
		}
		return 0, p.errorf("half of a surrogate pair")
	}
	return 0, p.errorf("an unknown escape")
}

func (p *parser) hex4() (r rune, ok bool) {
	if p.pos+4 > len(p.in) {
		return 0, false
	}
	for _, c := range p.in[p.pos : p.pos+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	p.pos += 4
	return r, true
}

func appendRune(b []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(b, '\\', byte(r))
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	if r < 0x20 {
		return append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	}
	return utf8.AppendRune(b, r)
}

// number reads one number and prints it like ECMAScript's Number.prototype.toString.
func (p *parser) number() error {
	start := p.pos
	digits := func() bool {
		from := p.pos
		for p.pos < len(p.in) && p.in[p.pos] >= '0' && p.in[p.pos] <= '9' {
			p.pos++
		}
		return p.pos > from
	}
	if p.in[p.pos] == '-' {
		p.pos++
	}
	first := p.pos
	if !digits() {
		return p.errorf("a number needs a digit")
	}
	if p.in[first] == '0' && p.pos-first > 1 {
		return p.errorf("a number starts with 0")
	}
	plain := p.pos-start <= 15 // such an integer is exact and printed unchanged
	if p.pos < len(p.in) && p.in[p.pos] == '.' {
		plain = false
		p.pos++
		if !digits() {
			return p.errorf("a number needs a digit after the point")
		}
	}
	if p.pos < len(p.in) && (p.in[p.pos] == 'e' || p.in[p.pos] == 'E') {
		plain = false
		p.pos++
		if p.pos < len(p.in) && (p.in[p.pos] == '+' || p.in[p.pos] == '-') {
			p.pos++
		}
		if !digits() {
			return p.errorf("a number needs a digit in its exponent")
		}
	}
	text := p.in[start:p.pos]
	if plain && string(text) != "-0" {
		p.out = append(p.out, text...)
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return p.errorf("the number %.40q is too large", text)
	}
	p.out = appendNumber(p.out, f)
	return nil
}

// appendNumber appends f as ECMAScript prints it. f must be finite: JSON has no other.
func appendNumber(b []byte, f float64) []byte {
	if f == 0 {
		return append(b, '0') // also minus zero
	}
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	n := len(b)
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if i := bytes.IndexByte(b[n:], 'e') + n; b[i+2] == '0' { // Go writes at least two digits
		b = append(b[:i+2], b[i+3:]...)
	}
	return b
}
