package config

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Line of a .env file: a variable and its position.
type Line struct {
	Name, Value string
	No          int
}

// parseDotenv reads KEY=value lines: an optional export, values bare or in single or double
// quotes, # comments, any line ends, a byte order mark. Double quotes support \n \r \t \" \\ and
// \$. Nothing is substituted or executed. Invalid lines are listed in problems and skipped.
func parseDotenv(text []byte) (lines []Line, problems []string) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	s := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\r", "\n")
	for no := 1; s != ""; no++ {
		var line string
		line, s, _ = strings.Cut(s, "\n")
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		bad := func(why string) { problems = append(problems, fmt.Sprintf("line %d: %s", no, why)) }
		if rest, ok := strings.CutPrefix(line, "export"); ok && rest != "" && (rest[0] == ' ' || rest[0] == '\t') {
			line = strings.TrimSpace(rest)
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || !validName(name) {
			bad("not NAME=value")
			continue
		}
		value, why := unquote(strings.TrimLeft(value, " \t"))
		switch {
		case why != "":
			bad(why)
		case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			bad("not UTF-8 text")
		default:
			lines = append(lines, Line{Name: name, Value: value, No: no})
		}
	}
	return lines, problems
}

func validName(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func unquote(v string) (value, why string) {
	if v == "" {
		return "", ""
	}
	switch q := v[0]; q {
	case '\'':
		body, rest, ok := strings.Cut(v[1:], "'")
		if !ok {
			return "", "the quote is not closed"
		}
		return body, afterQuote(rest)
	case '"':
		var b strings.Builder
		for i := 1; i < len(v); i++ {
			switch c := v[i]; c {
			case '"':
				return b.String(), afterQuote(v[i+1:])
			case '\\':
				if i++; i == len(v) {
					return "", "the quote is not closed"
				}
				switch e := v[i]; e {
				case 'n':
					b.WriteByte('\n')
				case 'r':
					b.WriteByte('\r')
				case 't':
					b.WriteByte('\t')
				case '"', '\\', '$':
					b.WriteByte(e)
				default:
					b.WriteByte('\\')
					b.WriteByte(e)
				}
			default:
				b.WriteByte(c)
			}
		}
		return "", "the quote is not closed"
	}
	for i := range len(v) { // a comment requires a space before it: a#b is a value
		if v[i] == '#' && (i == 0 || v[i-1] == ' ' || v[i-1] == '\t') {
			v = v[:i]
			break
		}
	}
	return strings.TrimSpace(v), ""
}

func afterQuote(rest string) string {
	if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
		return "text after the closing quote"
	}
	return ""
}
