package gateway

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// encoder appends JSON to b. Its output is that of encoding/json without HTML escapes.
type encoder struct {
	b     []byte
	depth int // of pointers, to detect cycles
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

var errCycle = errors.New("the value contains itself")

// appendJSON appends the JSON of v to b.
func appendJSON(b []byte, v any) ([]byte, error) {
	if v == nil {
		return append(b, "null"...), nil
	}
	e := encoders.Get().(*encoder)
	e.b = b
	rv := reflect.ValueOf(v)
	err := codecOf(rv.Type()).write(e, rv)
	b = e.b
	*e = encoder{}
	encoders.Put(e)
	return b, err
}

// Write makes the encoder an io.Writer for encoding/json.
func (e *encoder) Write(p []byte) (int, error) {
	e.b = append(e.b, p...)
	return len(p), nil
}

func writeSlow(e *encoder, v reflect.Value) error {
	if v.CanAddr() && v.Kind() != reflect.Pointer { // use methods of the pointer where encoding/json does
		v = v.Addr()
	}
	enc := json.NewEncoder(e)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v.Interface()); err != nil {
		return err
	}
	e.b = e.b[:len(e.b)-1] // the newline that Encoder adds
	return nil
}

func writeRaw(e *encoder, v reflect.Value) error {
	raw := v.Bytes()
	if raw == nil {
		e.b = append(e.b, "null"...)
		return nil
	}
	buf := bytes.NewBuffer(e.b)
	err := json.Compact(buf, raw)
	e.b = buf.Bytes()
	return err
}

func writeUUID(e *encoder, v reflect.Value) error {
	var text [38]byte
	text[0], text[37] = '"', '"'
	var id uuid.UUID
	reflect.Copy(reflect.ValueOf(&id).Elem(), v)
	t, err := id.MarshalText()
	copy(text[1:], t)
	e.b = append(e.b, text[:]...)
	return err
}

func writeTime(e *encoder, v reflect.Value) error {
	at := len(e.b)
	b, err := v.Interface().(time.Time).AppendText(append(e.b, '"'))
	if err != nil {
		e.b = e.b[:at]
		return writeSlow(e, v) // for its error
	}
	b = append(b, '"')
	e.b = b
	return nil
}

func writeInterface(e *encoder, v reflect.Value) error {
	if v.IsNil() {
		e.b = append(e.b, "null"...)
		return nil
	}
	v = v.Elem()
	return codecOf(v.Type()).write(e, v)
}

// deeper counts a nesting level, and returns an error when there are so many that the value must be
// cyclic.
func (e *encoder) deeper() error {
	if e.depth++; e.depth > 1000 {
		return errCycle
	}
	return nil
}

func (e *encoder) pointer(v reflect.Value, elem *codec) error {
	if v.IsNil() {
		e.b = append(e.b, "null"...)
		return nil
	}
	if err := e.deeper(); err != nil {
		return err
	}
	defer func() { e.depth-- }()
	return elem.write(e, v.Elem())
}

func (e *encoder) slice(v reflect.Value, elem *codec) error {
	if v.IsNil() {
		e.b = append(e.b, "null"...)
		return nil
	}
	if err := e.deeper(); err != nil {
		return err
	}
	defer func() { e.depth-- }()
	e.b = append(e.b, '[')
	for i := range v.Len() {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		if err := elem.write(e, v.Index(i)); err != nil {
			return err
		}
	}
	e.b = append(e.b, ']')
	return nil
}

func (e *encoder) mapping(v reflect.Value, elem *codec) error {
	if v.IsNil() {
		e.b = append(e.b, "null"...)
		return nil
	}
	if err := e.deeper(); err != nil {
		return err
	}
	defer func() { e.depth-- }()
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	e.b = append(e.b, '{')
	for i, k := range keys {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.b = append(appendString(e.b, k.String()), ':')
		if err := elem.write(e, v.MapIndex(k)); err != nil {
			return err
		}
	}
	e.b = append(e.b, '}')
	return nil
}

func (c *codec) writeStruct(e *encoder, v reflect.Value) error {
	e.b = append(e.b, '{')
	first := true
	for i := range c.fields {
		f := &c.fields[i]
		x := v.Field(f.index)
		if (f.omitEmpty && isEmpty(x)) || (f.omitZero && f.isZero(x)) {
			continue
		}
		if !first {
			e.b = append(e.b, ',')
		}
		first = false
		e.b = append(e.b, f.key...)
		if err := f.codec.write(e, x); err != nil {
			return err
		}
	}
	e.b = append(e.b, '}')
	return nil
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Interface, reflect.Pointer:
		return v.IsZero()
	}
	return false
}

func (f *codecField) isZero(v reflect.Value) bool {
	if f.codec.typ == timeType {
		return v.Interface().(time.Time).IsZero()
	}
	return v.IsZero()
}

const hexDigits = "0123456789abcdef"

// appendString appends s with quotes and escapes.
func appendString(b []byte, s string) []byte {
	b = slices.Grow(b, len(s)+2)
	b = append(b, '"')
	text := []byte(s) // not copied, since it is only read
	start, i := 0, 0
	for i < len(text) {
		for i+8 <= len(text) {
			w := binary.LittleEndian.Uint64(text[i:])
			if w&0x8080808080808080 != 0 || !plainText(w) {
				break
			}
			i += 8
		}
		if i >= len(text) {
			break
		}
		c := text[i]
		if c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(text[i:])
			switch {
			case r == utf8.RuneError && n == 1:
				b = append(append(b, s[start:i]...), `\ufffd`...)
			case r == '\u2028' || r == '\u2029': // not allowed in JavaScript strings
				b = append(append(b, s[start:i]...), `\u202`...)
				b = append(b, hexDigits[r&0xf])
			default:
				i += n
				continue
			}
			i += n
			start = i
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}
