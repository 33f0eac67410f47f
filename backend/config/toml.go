package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"helix/backend/fault"
)

// decodeTOML returns the values of a config.toml by dotted key. An error contains line and column.
func decodeTOML(text []byte) (map[string]any, error) {
	tree := map[string]any{}
	if _, err := toml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, bom))).Decode(&tree); err != nil {
		var pe toml.ParseError
		if errors.As(err, &pe) {
			return nil, fault.Invalidf("config.toml, line %d, column %d: %s", pe.Position.Line, pe.Position.Col, pe.Message).
				WithDetails(map[string]int{"line": pe.Position.Line, "column": pe.Position.Col}).WithCause(err)
		}
		return nil, fault.Invalidf("config.toml: %s", err.Error()).WithCause(err)
	}
	flat := map[string]any{}
	flatten(flat, "", tree)
	return flat, nil
}

var bom = []byte("\xef\xbb\xbf")

func flatten(into map[string]any, prefix string, tree map[string]any) {
	for k, v := range tree {
		if sub, ok := v.(map[string]any); ok && len(sub) > 0 {
			flatten(into, prefix+k+".", sub)
			continue
		}
		into[prefix+k] = v
	}
}

// edit is one change of config.toml; a nil value removes the key.
type edit struct {
	key   string
	value any
}

// editTOML changes single lines and leaves all others, including comments and order, unchanged. The
// result is parsed again and compared, so an unusual file causes an error and not a wrong edit.
func editTOML(text []byte, edits []edit) ([]byte, error) {
	want, err := decodeTOML(text)
	if err != nil {
		return nil, err
	}
	for _, e := range edits {
		key := e.key
		for k := range want {
			if fold(k) == fold(e.key) {
				key = k // the file's own spelling
				delete(want, k)
			}
		}
		if e.value != nil {
			want[key] = e.value
		}
		text = editOne(text, e)
	}
	got, err := decodeTOML(text)
	if err == nil && !sameValues(got, want) {
		err = errors.New("the edited text does not have the requested value")
	}
	if err != nil {
		return nil, fault.Conflictf("Helix can't edit config.toml as it is written. Nothing was changed. Edit it by hand.").WithCause(err)
	}
	return text, nil
}

func sameValues(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for k, x := range a {
		y, ok := b[k]
		if !ok {
			return false
		}
		if l, isList := texts(x); isList {
			m, _ := texts(y)
			if !reflect.DeepEqual(l, m) {
				return false
			}
			continue
		}
		if fmt.Sprint(x) != fmt.Sprint(y) { // treat NaN as equal to NaN, and compare dates as text
			return false
		}
	}
	return true
}

func editOne(text []byte, e edit) []byte {
	eol := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		eol = "\r\n"
	}
	var out bytes.Buffer
	at, done := 0, false
	for _, en := range scanTOML(text) {
		if fold(en.key) != fold(e.key) {
			continue
		}
		out.Write(text[at:en.keyStart])
		at = en.valueEnd
		if e.value != nil && !done {
			out.Write(text[en.keyStart:en.valueStart])
			out.WriteString(tomlValue(e.value))
			done = true
			continue
		}
		// Remove the line, but keep a comment at its end.
		rest := text[en.valueEnd:en.lineEnd]
		if c := bytes.TrimLeft(rest, " \t"); len(c) > 0 && c[0] == '#' {
			at = en.lineEnd - len(c)
		} else {
			at = en.lineEnd
			if at < len(text) && text[at] == '\r' {
				at++
			}
			if at < len(text) && text[at] == '\n' {
				at++
			}
		}
	}
	out.Write(text[at:])
	if e.value == nil || done {
		return out.Bytes()
	}
	// A new key goes before the first table header; after it, it would belong to the table.
	body := out.Bytes()
	line := e.key + " = " + tomlValue(e.value) + eol
	cut := len(body)
	if h := firstHeader(body); h >= 0 {
		cut = h
	}
	head := body[:cut:cut]
	if len(head) > 0 && len(bytes.TrimPrefix(head, bom)) > 0 && head[len(head)-1] != '\n' {
		head = append(head, eol...)
	}
	if cut < len(body) {
		line += eol
	}
	return append(append(head, line...), body[cut:]...)
}

// entry is one key of the text with the positions needed for editing.
type entry struct {
	key                                     string // dotted, with its table
	keyStart, valueStart, valueEnd, lineEnd int
}

// scanTOML returns the key = value pairs at line starts. The text must be valid TOML.
func scanTOML(text []byte) []entry {
	var out []entry
	table := ""
	for i := bomLen(text); i < len(text); {
		start := i
		for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
			i++
		}
		switch {
		case i >= len(text):
			return out
		case text[i] == '\n' || text[i] == '\r':
			i++
			continue
		case text[i] == '#':
			i = lineEnd(text, i)
			continue
		case text[i] == '[':
			double := i+1 < len(text) && text[i+1] == '['
			if double {
				i++
			}
			key, end := scanKey(text, i+1)
			table = key + "."
			if double {
				table = "[[]]." // an array of tables contains none of our settings
			}
			i = lineEnd(text, end)
			continue
		}
		key, end := scanKey(text, i)
		for end < len(text) && text[end] != '=' && text[end] != '\n' {
			end++
		}
		if end >= len(text) || text[end] != '=' {
			i = lineEnd(text, start) + 1
			continue
		}
		v := end + 1
		for v < len(text) && (text[v] == ' ' || text[v] == '\t') {
			v++
		}
		ve := scanValue(text, v)
		le := lineEnd(text, ve)
		out = append(out, entry{key: table + key, keyStart: start, valueStart: v, valueEnd: ve, lineEnd: le})
		i = le
	}
	return out
}

func bomLen(text []byte) int {
	if bytes.HasPrefix(text, bom) {
		return len(bom)
	}
	return 0
}

func firstHeader(text []byte) int {
	for i := bomLen(text); i < len(text); {
		j := i
		for j < len(text) && (text[j] == ' ' || text[j] == '\t') {
			j++
		}
		switch {
		case j >= len(text):
			return -1
		case text[j] == '[':
			return i
		case text[j] == '\n' || text[j] == '\r':
			i = j + 1
		case text[j] == '#':
			i = lineEnd(text, j)
		default:
			_, end := scanKey(text, j)
			for end < len(text) && text[end] != '=' && text[end] != '\n' {
				end++
			}
			i = lineEnd(text, scanValue(text, min(end+1, len(text))))
		}
	}
	return -1
}

// lineEnd returns the position of the line break at or after i, or the end of the text.
func lineEnd(text []byte, i int) int {
	for i < len(text) && text[i] != '\n' {
		i++
	}
	if i > 0 && i < len(text) && text[i-1] == '\r' {
		i--
	}
	return i
}

// scanKey reads a dotted key, bare or quoted, and returns it unquoted with its end.
func scanKey(text []byte, i int) (string, int) {
	var b strings.Builder
	for i < len(text) {
		switch c := text[i]; c {
		case ' ', '\t':
			i++
		case '"', '\'':
			end := scanString(text, i)
			raw := string(text[i:end])
			if c == '"' {
				if u, err := strconv.Unquote(raw); err == nil {
					raw = u
				}
			} else {
				raw = strings.Trim(raw, "'")
			}
			b.WriteString(raw)
			i = end
		case '=', ']', '#', '\n', '\r':
			return b.String(), i
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String(), i
}

// scanValue returns the end of the value that begins at i.
func scanValue(text []byte, i int) int {
	depth := 0
	for i < len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			i = scanString(text, i)
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == '#':
			if depth <= 0 {
				return trimBack(text, i)
			}
			i = lineEnd(text, i)
			continue
		case c == '\n' && depth <= 0:
			return trimBack(text, i)
		}
		i++
	}
	return trimBack(text, i)
}

func trimBack(text []byte, i int) int {
	for i > 0 && (text[i-1] == ' ' || text[i-1] == '\t' || text[i-1] == '\r') {
		i--
	}
	return i
}

// scanString returns the end of the string, of one line or many, that begins at i.
func scanString(text []byte, i int) int {
	q := text[i]
	if long := bytes.Repeat([]byte{q}, 3); bytes.HasPrefix(text[i:], long) {
		for i += 3; i < len(text); i++ {
			if q == '"' && text[i] == '\\' {
				i++
				continue
			}
			if bytes.HasPrefix(text[i:], long) {
				i += 3
				for n := 0; n < 2 && i < len(text) && text[i] == q; n++ { // """a"" ends after five
					i++
				}
				return i
			}
		}
		return len(text)
	}
	for i++; i < len(text) && text[i] != '\n'; i++ {
		if q == '"' && text[i] == '\\' {
			i++
			continue
		}
		if text[i] == q {
			return i + 1
		}
	}
	return min(i, len(text))
}

// tomlValue formats an accepted value.
func tomlValue(v any) string {
	switch x := v.(type) {
	case bool:
		return strconv.FormatBool(x)
	case int64:
		return strconv.FormatInt(x, 10)
	case []string:
		parts := make([]string, len(x))
		for i, t := range x {
			parts[i] = tomlString(t)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return tomlString(x)
	}
	return fmt.Sprint(v)
}

func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
