package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// codec converts values of one Go type from and to JSON. It behaves like encoding/json and
// delegates unusual types to it (custom marshalers, embedded structs, base64). It handles the usual
// types itself, because every call passes through it twice and the scanner has already validated
// what encoding/json would validate again byte by byte.
type codec struct {
	typ    reflect.Type
	read   func(s *scanner, v reflect.Value) error
	write  func(e *encoder, v reflect.Value) error
	slow   bool // both directions use encoding/json
	fields []codecField
	byName map[string]int
}

// codecField is one field of a struct.
type codecField struct {
	name      string
	key       string // with quotes and colon, as written
	index     int
	codec     *codec
	omitEmpty bool
	omitZero  bool
}

// codecs caches the codec of each type, as encoding/json does.
var codecs sync.Map // reflect.Type → *codec

func codecOf(t reflect.Type) *codec {
	if c, ok := codecs.Load(t); ok {
		return c.(*codec)
	}
	b := codecBuilder{}
	c := b.of(t)
	for t, c := range b { // all at once, since they refer to each other
		codecs.LoadOrStore(t, c)
	}
	return c
}

// readJSON decodes raw, which is known to be valid JSON, into dst.
func readJSON(raw []byte, dst any) error {
	v := reflect.ValueOf(dst)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return json.Unmarshal(raw, dst) // for its error
	}
	s := scan(raw)
	defer s.done()
	s.space()
	return codecOf(v.Type().Elem()).read(s, v.Elem())
}

// codecBuilder builds the codecs of types that may be recursive.
type codecBuilder map[reflect.Type]*codec

func (b codecBuilder) of(t reflect.Type) *codec {
	if c, ok := codecs.Load(t); ok {
		return c.(*codec)
	}
	if c := b[t]; c != nil {
		return c
	}
	c := &codec{typ: t}
	b[t] = c
	b.fill(c, t)
	return c
}

func (b codecBuilder) fill(c *codec, t reflect.Type) {
	c.read, c.write = readSlow, writeSlow
	ptr := reflect.PointerTo(t)
	switch {
	case t == rawType:
		c.read, c.write = readRaw, writeRaw
		return
	case t == uuidType:
		c.read, c.write = readUUID, writeUUID
		return
	case t == timeType:
		c.read, c.write = readTime, writeTime
		return
	case t == numberType || ptr.Implements(jsonUnmarshal) || ptr.Implements(jsonMarshal) || ptr.Implements(textUnmarshal) || ptr.Implements(textMarshal):
		c.slow = true
		return
	}
	switch t.Kind() {
	case reflect.String:
		c.read, c.write = readString, func(e *encoder, v reflect.Value) error { e.b = appendString(e.b, v.String()); return nil }
	case reflect.Bool:
		c.read, c.write = readBool, func(e *encoder, v reflect.Value) error { e.b = strconv.AppendBool(e.b, v.Bool()); return nil }
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		c.read, c.write = readInt, func(e *encoder, v reflect.Value) error { e.b = strconv.AppendInt(e.b, v.Int(), 10); return nil }
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.read, c.write = readUint, func(e *encoder, v reflect.Value) error { e.b = strconv.AppendUint(e.b, v.Uint(), 10); return nil }
	case reflect.Float64:
		c.read = readFloat
	case reflect.Pointer:
		elem := b.of(t.Elem())
		c.read = func(s *scanner, v reflect.Value) error { return readPointer(s, v, elem) }
		c.write = func(e *encoder, v reflect.Value) error { return e.pointer(v, elem) }
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			c.slow = true
			return
		}
		elem := b.of(t.Elem())
		c.read = func(s *scanner, v reflect.Value) error { return readSlice(s, v, elem) }
		c.write = func(e *encoder, v reflect.Value) error { return e.slice(v, elem) }
	case reflect.Map:
		key := reflect.PointerTo(t.Key())
		if t.Key().Kind() != reflect.String || key.Implements(textMarshal) || key.Implements(textUnmarshal) {
			c.slow = true
			return
		}
		elem := b.of(t.Elem())
		c.read = func(s *scanner, v reflect.Value) error { return readMap(s, v, elem) }
		c.write = func(e *encoder, v reflect.Value) error { return e.mapping(v, elem) }
	case reflect.Interface:
		c.write = writeInterface
	case reflect.Struct:
		if !b.structFields(c, t) {
			c.fields, c.slow = nil, true
			return
		}
		c.read, c.write = c.readStruct, c.writeStruct
	default:
		c.slow = true
	}
}

// structFields fills c's fields. It returns false for structs that are left to encoding/json.
func (b codecBuilder) structFields(c *codec, t reflect.Type) bool {
	c.byName = map[string]int{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		if f.Anonymous {
			return false
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		_, twice := c.byName[name]
		if twice || strings.ContainsAny(name, "\"\\<>&'") || hasWord(opts, "string") {
			return false
		}
		cf := codecField{name: name, key: `"` + name + `":`, index: i, omitEmpty: hasWord(opts, "omitempty"), omitZero: hasWord(opts, "omitzero")}
		if _, own := reflect.PointerTo(f.Type).MethodByName("IsZero"); own && cf.omitZero && f.Type != timeType {
			return false
		}
		cf.codec = b.of(f.Type)
		c.byName[name] = len(c.fields)
		c.fields = append(c.fields, cf)
	}
	return true
}

func hasWord(list, word string) bool { return slices.Contains(strings.Split(list, ","), word) }

// null moves the cursor past null, and reports whether it was there.
func (s *scanner) null() bool {
	if s.peek() != 'n' {
		return false
	}
	s.i = min(s.i+4, len(s.b))
	return true
}

// take returns the value at the cursor and moves past it.
func (s *scanner) take() []byte {
	start := s.i
	switch s.peek() {
	case '"':
		s.text() //nolint:errcheck // checked before
	case '{', '[':
		for depth := 0; s.i < len(s.b); {
			switch s.b[s.i] {
			case '"':
				s.text() //nolint:errcheck // checked before
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			s.i++
			if depth == 0 {
				break
			}
		}
	default:
		for s.i < len(s.b) && !bytes.ContainsRune([]byte(" \t\r\n,]}"), rune(s.b[s.i])) {
			s.i++
		}
	}
	return s.b[start:s.i]
}

func readSlow(s *scanner, v reflect.Value) error {
	return json.Unmarshal(s.take(), v.Addr().Interface())
}

func readRaw(s *scanner, v reflect.Value) error {
	v.SetBytes(bytes.Clone(s.take()))
	return nil
}

// text returns the content of the string at the cursor, which must have been validated. It is part
// of the frame unless it contains escapes.
func (s *scanner) text() ([]byte, error) {
	if n := bytes.IndexByte(s.b[s.i+1:], '"'); n >= 0 {
		if t := s.b[s.i+1 : s.i+1+n]; bytes.IndexByte(t, '\\') < 0 {
			s.i += n + 2
			return t, nil
		}
	}
	q, err := s.str()
	if err != nil {
		return nil, err
	}
	return unquote(q)
}

func readString(s *scanner, v reflect.Value) error {
	if s.peek() != '"' {
		return readSlow(s, v)
	}
	t, err := s.text()
	if err == nil {
		v.SetString(string(t))
	}
	return err
}

func readUUID(s *scanner, v reflect.Value) error {
	if raw := s.take(); len(raw) == 38 {
		if id, err := uuid.ParseBytes(raw[1:37]); err == nil {
			*v.Addr().Interface().(*uuid.UUID) = id
			return nil
		}
		return json.Unmarshal(raw, v.Addr().Interface())
	} else {
		return json.Unmarshal(raw, v.Addr().Interface())
	}
}

func readTime(s *scanner, v reflect.Value) error {
	return v.Addr().Interface().(*time.Time).UnmarshalJSON(s.take())
}

func readBool(s *scanner, v reflect.Value) error {
	switch c := s.peek(); c {
	case 't', 'f':
		v.SetBool(c == 't')
		s.take()
		return nil
	}
	return readSlow(s, v)
}

func readInt(s *scanner, v reflect.Value) error {
	raw := s.take()
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || v.OverflowInt(n) {
		return json.Unmarshal(raw, v.Addr().Interface())
	}
	v.SetInt(n)
	return nil
}

func readUint(s *scanner, v reflect.Value) error {
	raw := s.take()
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil || v.OverflowUint(n) {
		return json.Unmarshal(raw, v.Addr().Interface())
	}
	v.SetUint(n)
	return nil
}

func readFloat(s *scanner, v reflect.Value) error {
	raw := s.take()
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return json.Unmarshal(raw, v.Addr().Interface())
	}
	v.SetFloat(n)
	return nil
}

func readPointer(s *scanner, v reflect.Value, elem *codec) error {
	if s.null() {
		v.SetZero()
		return nil
	}
	if v.IsNil() {
		v.Set(reflect.New(elem.typ))
	}
	return elem.read(s, v.Elem())
}

func readSlice(s *scanner, v reflect.Value, elem *codec) error {
	if s.null() {
		v.SetZero()
		return nil
	}
	if s.peek() != '[' {
		return readSlow(s, v)
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	return s.elements(func(i int) error {
		if i == v.Cap() {
			v.Grow(1)
		}
		v.SetLen(i + 1)
		return elem.read(s, v.Index(i))
	})
}

// elements calls fn for each element of the array at the cursor; fn must consume the value.
func (s *scanner) elements(fn func(i int) error) error {
	s.i++
	for i := 0; ; i++ {
		s.space()
		switch s.peek() {
		case ']':
			s.i++
			return nil
		case ',':
			s.i++
			s.space()
		case 0:
			return errSyntax
		}
		if err := fn(i); err != nil {
			return err
		}
	}
}

// members calls fn for each key of the object at the cursor; fn must consume the value.
func (s *scanner) members(fn func(key []byte) error) error {
	s.i++
	for {
		s.space()
		switch s.peek() {
		case '}':
			s.i++
			return nil
		case ',':
			s.i++
			s.space()
		}
		if s.peek() != '"' {
			return errSyntax
		}
		key, err := s.text()
		if err != nil {
			return err
		}
		s.space()
		s.i++ // the colon
		s.space()
		if err := fn(key); err != nil {
			return err
		}
	}
}

func readMap(s *scanner, v reflect.Value, elem *codec) error {
	if s.null() {
		v.SetZero()
		return nil
	}
	if s.peek() != '{' {
		return readSlow(s, v)
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	kt := v.Type().Key()
	return s.members(func(key []byte) error {
		x := reflect.New(elem.typ).Elem()
		if err := elem.read(s, x); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(string(key)).Convert(kt), x)
		return nil
	})
}

func (c *codec) readStruct(s *scanner, v reflect.Value) error {
	if s.null() {
		return nil
	}
	if s.peek() != '{' {
		return readSlow(s, v)
	}
	return s.members(func(key []byte) error {
		i, ok := c.byName[string(key)]
		if !ok { // encoding/json ignores case
			i = slices.IndexFunc(c.fields, func(f codecField) bool { return strings.EqualFold(f.name, string(key)) })
			if i < 0 {
				s.take()
				return nil
			}
		}
		f := &c.fields[i]
		err := f.codec.read(s, v.Field(f.index))
		if te := (*json.UnmarshalTypeError)(nil); errors.As(err, &te) {
			te.Field = strings.TrimSuffix(f.name+"."+te.Field, ".")
		}
		return err
	})
}
