package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// elements splits one huge JSON array into its elements, or reads a single object as the only
// element. It tracks only brackets and strings; the caller validates the elements.
type elements struct {
	r     io.Reader
	name  string // for errors
	buf   []byte // bytes from off on
	off   int64
	end   error
	state int

	last   []byte // the previous element and its offset
	lastAt int64
}

const (
	atStart     = iota // before the array
	beforeValue        // expects an element, or the end of an empty array
	afterValue         // expects a comma or the end
	atEnd
)

func newElements(r io.Reader, name string) *elements { return &elements{r: r, name: name} }

// after returns the position after the element that next last returned.
func (e *elements) after() Position {
	at := Position{Offset: e.off}
	if e.state == atEnd { // the file is a single object
		at.Part = 1
	}
	return at
}

func (e *elements) broken(at int64) error { return &BrokenError{File: e.name, Offset: at} }

// peek returns the next byte that is not white space, without consuming it.
func (e *elements) peek() (byte, error) {
	for {
		for i, c := range e.buf {
			if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
				e.take(i)
				return c, nil
			}
		}
		e.take(len(e.buf))
		if e.end != nil {
			return 0, e.end
		}
		e.buf, e.end = more(e.r, e.buf)
	}
}

func (e *elements) take(n int) {
	e.buf = e.buf[n:]
	e.off += int64(n)
}

// next returns one element and its offset. The bytes are valid until the next call. The error is
// io.EOF at the end of the array, a *BrokenError if the file ends before that, and errLong for an
// element longer than MaxRecord; the next call then continues after it.
func (e *elements) next() (raw []byte, at int64, err error) {
	for {
		c, err := e.peek()
		switch {
		case errors.Is(err, io.EOF) && (e.state == atEnd || e.state == atStart):
			return nil, e.off, io.EOF
		case errors.Is(err, io.EOF):
			return nil, e.off, e.broken(e.off)
		case err != nil:
			return nil, e.off, err
		}
		switch e.state {
		case atStart:
			if c == 0xEF && e.off == 0 {
				for len(e.buf) < len(bom) && e.end == nil {
					e.buf, e.end = more(e.r, e.buf)
				}
				if bytes.HasPrefix(e.buf, bom) {
					e.take(len(bom))
					continue
				}
			}
			switch c {
			case '[':
				e.take(1)
				e.state = beforeValue
			case '{':
				e.state = atEnd
				return e.value()
			default:
				return nil, e.off, e.broken(e.off)
			}
		case beforeValue:
			if c == ']' {
				e.take(1)
				e.state = atEnd
				continue
			}
			if !begins[c] {
				return nil, e.off, e.broken(e.off)
			}
			e.state = afterValue
			return e.value()
		case afterValue:
			switch c {
			case ',':
				e.take(1)
				if c, err := e.peek(); err == nil && c == ']' {
					return nil, e.off, e.broken(e.off)
				}
				e.state = beforeValue
			case ']':
				e.take(1)
				e.state = atEnd
			default:
				return nil, e.off, e.unexpectedByte()
			}
		case atEnd:
			return nil, e.off, e.unexpectedByte()
		}
	}
}

// begins marks the bytes that a value can begin with.
var begins = [256]bool{'{': true, '[': true, '"': true, '-': true, 't': true, 'f': true, 'n': true,
	'0': true, '1': true, '2': true, '3': true, '4': true, '5': true, '6': true, '7': true, '8': true, '9': true}

// unexpectedByte returns the error for an unexpected byte after an element. The damage may be inside the
// element, if its end was misjudged.
func (e *elements) unexpectedByte() error {
	if at, bad := damage(e.last); bad {
		return e.broken(e.lastAt + int64(at))
	}
	return e.broken(e.off)
}

// value consumes the element that begins at the first byte of buf.
func (e *elements) value() ([]byte, int64, error) {
	start := e.off
	e.last = nil
	var s scan
	for i := 0; ; {
		var done bool
		i, done = s.over(e.buf, i)
		if done {
			raw := e.buf[:i]
			e.take(i)
			if len(raw) > MaxRecord {
				return nil, start, errLong
			}
			e.last, e.lastAt = raw, start
			return raw, start, nil
		}
		if len(e.buf) > MaxRecord {
			if at, bad := damage(e.buf); bad {
				return nil, start, e.broken(start + int64(at))
			}
			return nil, start, e.skip(s)
		}
		if e.end != nil {
			return e.cutOff(start)
		}
		e.buf, e.end = more(e.r, e.buf)
	}
}

// cutOff handles an element that is truncated by the end of the file.
func (e *elements) cutOff(start int64) ([]byte, int64, error) {
	if !errors.Is(e.end, io.EOF) {
		return nil, start, e.end
	}
	if at, bad := damage(e.buf); bad {
		return nil, start, e.broken(start + int64(at))
	}
	return nil, start, e.broken(start + int64(len(e.buf)))
}

// skip discards the rest of an element that is too long.
func (e *elements) skip(s scan) error {
	for {
		e.take(len(e.buf))
		if e.end != nil {
			if errors.Is(e.end, io.EOF) {
				return e.broken(e.off)
			}
			return e.end
		}
		e.buf, e.end = more(e.r, e.buf)
		if i, done := s.over(e.buf, 0); done {
			e.take(i)
			return errLong
		}
	}
}

// damage returns the offset of the first byte that is invalid JSON. bad is false for a text that is
// merely truncated.
func damage(raw []byte) (at int, bad bool) {
	var v json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal(raw, &v); errors.As(err, &syntax) && syntax.Offset < int64(len(raw)) {
		return int(max(syntax.Offset-1, 0)), true
	}
	return 0, false
}

// scan tracks the brackets and strings of one JSON value byte by byte.
type scan struct {
	depth   int
	in      bool // inside a string
	escaped bool // the previous byte was a backslash
	scalar  bool // a bare word or number
}

// special marks the bytes with a meaning outside of strings.
var special = [256]bool{'"': true, '{': true, '}': true, '[': true, ']': true, ',': true, ' ': true, '\n': true, '\r': true, '\t': true}

// over continues the scan at b[i]. It returns the index where it stopped; done means that the value
// ends before that index.
func (s *scan) over(b []byte, i int) (int, bool) {
	for i < len(b) {
		if s.in {
			if s.escaped {
				s.escaped = false
				i++
				continue
			}
			for i < len(b) && b[i] != '"' && b[i] != '\\' {
				i++
			}
			if i == len(b) {
				return i, false
			}
			if b[i] == '\\' {
				s.escaped = true
			} else if s.in = false; s.depth == 0 {
				return i + 1, true
			}
			i++
			continue
		}
		c := b[i]
		if !special[c] {
			s.scalar = s.scalar || s.depth == 0
			i++
			continue
		}
		switch c {
		case '"':
			if s.scalar {
				return i, true
			}
			s.in = true
		case '{', '[':
			if s.scalar {
				return i, true
			}
			s.depth++
		case '}', ']':
			if s.depth == 0 { // the end of the array after a bare word
				return i, true
			}
			if s.depth--; s.depth == 0 {
				return i + 1, true
			}
		default:
			if s.depth == 0 {
				return i, true
			}
		}
		i++
	}
	return i, false
}
