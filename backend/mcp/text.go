package mcp

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible makes text from a server safe to show: control and bidirectional characters become
// symbols, except line ends and tabs, and it has at most limit bytes.
func visible(s string, limit int) string {
	if strings.IndexFunc(s, hidden) >= 0 || !utf8.ValidString(s) {
		s = strings.Map(func(r rune) rune {
			switch {
			case !hidden(r):
				return r
			case r < 0x20:
				return '\u2400' + r
			}
			return unicode.ReplacementChar
		}, strings.ToValidUTF8(s, "\ufffd"))
	}
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r))
}
