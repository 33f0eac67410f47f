package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// maxDepth is the maximum nesting depth of a frame.
const maxDepth = 64

// Errors of the frame scanner. All of them are sent as a parse error.
var (
	errSyntax    = errors.New("the frame is not valid JSON")
	errUTF8      = errors.New("the frame is not valid UTF-8")
	errDepth     = errors.New("the frame nests deeper than 64 levels")
	errDuplicate = errors.New("the frame names a field twice")
	errBinary    = errors.New("frames are text, not binary")
)

// scanner walks JSON in place. encoding/json would accept what the protocol forbids: duplicate keys
// (the last wins), any depth and invalid UTF-8 (replaced). So each frame is checked here first.
type scanner struct {
	b    []byte
	i    int
	keys [][]byte // keys of the open objects, innermost last
}

// member is one field of an object: key without quotes and escapes, value as written.
type member struct {
	key []byte
	raw []byte
}

// validate checks all of b.
func validate(b []byte) error {
	if !utf8.Valid(b) {
		return errUTF8
	}
	s := scanner{b: b}
	s.space()
	if err := s.value(1); err != nil {
		return err
	}
	s.space()
	if s.i != len(b) {
		return errSyntax
	}
	return nil
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\n', '\t', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

// value reads one value; depth is the level that a container starting here would have.
func (s *scanner) value(depth int) error {
	switch s.peek() {
	case '{':
		return s.object(depth, nil)
	case '[':
		return s.array(depth, nil)
	case '"':
		_, err := s.str()
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

// object reads an object and calls fn, if not nil, for each member.
func (s *scanner) object(depth int, fn func(member) error) error {
	if depth > maxDepth {
		return errDepth
	}
	first := len(s.keys)
	defer func() { s.keys = s.keys[:first] }()
	var many map[string]bool
	s.i++
	s.space()
	if s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		s.space()
		if s.peek() != '"' {
			return errSyntax
		}
		key, err := s.str()
		if err != nil {
			return err
		}
		if key, err = unquote(key); err != nil {
			return err
		}
		if many != nil || len(s.keys)-first >= 16 {
			if many == nil {
				many = make(map[string]bool, 64)
				for _, k := range s.keys[first:] {
					many[string(k)] = true
				}
			}
			if many[string(key)] {
				return errDuplicate
			}
			many[string(key)] = true
		} else {
			for _, k := range s.keys[first:] {
				if bytes.Equal(k, key) {
					return errDuplicate
				}
			}
			s.keys = append(s.keys, key)
		}
		s.space()
		if s.peek() != ':' {
			return errSyntax
		}
		s.i++
		s.space()
		start := s.i
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if fn != nil {
			if err := fn(member{key, s.b[start:s.i]}); err != nil {
				return err
			}
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case '}':
			s.i++
			return nil
		default:
			return errSyntax
		}
	}
}

// array reads an array and calls fn, if not nil, for each element.
func (s *scanner) array(depth int, fn func(raw []byte) error) error {
	if depth > maxDepth {
		return errDepth
	}
	s.i++
	s.space()
	if s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		s.space()
		start := s.i
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if fn != nil {
			if err := fn(s.b[start:s.i]); err != nil {
				return err
			}
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			return nil
		default:
			return errSyntax
		}
	}
}

// str reads a string and returns it including its quotes.
func (s *scanner) str() ([]byte, error) {
	start := s.i
	s.i++
	for s.i < len(s.b) {
		for s.i+8 <= len(s.b) && plainText(binary.LittleEndian.Uint64(s.b[s.i:])) {
			s.i += 8
		}
		if s.i >= len(s.b) {
			break
		}
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[start:s.i], nil
		case c == '\\':
			s.i++
			switch s.peek() {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				s.i++
			case 'u':
				if s.i+5 > len(s.b) {
					return nil, errSyntax
				}
				for _, h := range s.b[s.i+1 : s.i+5] {
					if (h < '0' || h > '9') && (h < 'a' || h > 'f') && (h < 'A' || h > 'F') {
						return nil, errSyntax
					}
				}
				s.i += 5
			default:
				return nil, errSyntax
			}
		case c < ' ':
			return nil, errSyntax
		default:
			s.i++
		}
	}
	return nil, errSyntax
}

// plainText reports whether none of the eight bytes of w is a quote, a backslash or a control
// character, with the usual test for a zero byte in a word.
func plainText(w uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^(ones*'"'), w^(ones*'\\')
	return ((quote-ones)&^quote|(slash-ones)&^slash|(w-ones*0x20)&^w)&highs == 0
}

// unquote removes the quotes and resolves escapes.
func unquote(q []byte) ([]byte, error) {
	in := q[1 : len(q)-1]
	if bytes.IndexByte(in, '\\') < 0 {
		return in, nil
	}
	var t string
	if err := json.Unmarshal(q, &t); err != nil {
		return nil, errSyntax
	}
	return []byte(t), nil
}

func (s *scanner) literal(word string) error {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return errSyntax
	}
	s.i += len(word)
	return nil
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.i++
	}
	switch c := s.peek(); {
	case c == '0':
		s.i++
	case c >= '1' && c <= '9':
		s.digits()
	default:
		return errSyntax
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return errSyntax
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return errSyntax
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > start
}
