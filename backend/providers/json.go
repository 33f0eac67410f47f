package providers

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// writeJSON writes v as encoding/json does, with sorted members, but without the cost of reflection.
func writeJSON(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case string:
		writeString(b, v)
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int:
		b.WriteString(strconv.Itoa(v))
	case textMessage:
		v.write(b)
	case object:
		if v == nil {
			b.WriteString("null")
			return nil
		}
		var few [16]string
		names := slices.AppendSeq(few[:0], maps.Keys(v))
		slices.Sort(names)
		b.WriteByte('{')
		for i, name := range names {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, name)
			b.WriteByte(':')
			if err := writeJSON(b, v[name]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case []object:
		return writeList(b, v)
	case []any:
		return writeList(b, v)
	case json.RawMessage:
		return json.Compact(b, v)
	default:
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1) // the line feed that Encode adds
	}
	return nil
}

func writeList[E any](b *bytes.Buffer, list []E) error {
	if list == nil {
		b.WriteString("null")
		return nil
	}
	b.WriteByte('[')
	for i, e := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := writeJSON(b, e); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	return nil
}

func writeString(b *bytes.Buffer, s string) {
	b.WriteByte('"')
	from := 0
	for i := plain(s, 0); i < len(s); i = plain(s, i) {
		c := s[i]
		r, n := rune(c), 1
		if c >= utf8.RuneSelf {
			if r, n = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		b.WriteString(s[from:i])
		switch r {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case utf8.RuneError:
			b.WriteString(`\ufffd`)
		default:
			const hex = "0123456789abcdef"
			b.WriteString(`\u00`)
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
		i += n
		from = i
	}
	b.WriteString(s[from:])
	b.WriteByte('"')
}

// plain returns the first position in s from i on that is not printable ASCII, or is a quote or
// backslash. It tests eight bytes at once, because prompts are long and almost entirely plain.
func plain(s string, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		// The top bit is set for bytes that are not ASCII; the subtractions also set it for bytes below
		// 0x20 and for quotes and backslashes.
		if (w|(w-ones*0x20)|((w^ones*'"')-ones)|((w^ones*'\\')-ones))&tops != 0 {
			break
		}
	}
	for i < len(s) && s[i] >= 0x20 && s[i] != '"' && s[i] != '\\' && s[i] < utf8.RuneSelf {
		i++
	}
	return i
}
