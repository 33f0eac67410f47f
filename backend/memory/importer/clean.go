package importer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// clean normalizes a text for storage: valid UTF-8 in form NFC, lines that end in
//
// , without NUL and surrounding space. Lone surrogates were already replaced by U+FFFD when the
// JSON was decoded.
func clean(text string) string {
	return strings.TrimSpace(plain(text))
}

// plain is like clean but keeps surrounding space.
func plain(text string) string {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	if strings.ContainsRune(text, '\r') {
		text = strings.ReplaceAll(text, "\r\n", "\n")
		text = strings.ReplaceAll(text, "\r", "\n")
	}
	if strings.ContainsRune(text, 0) {
		text = strings.ReplaceAll(text, "\x00", "")
	}
	text = strings.TrimPrefix(text, "\uFEFF")
	return norm.NFC.String(text)
}

// line is like clean for a title or a name: it returns one line of at most maxTitle bytes.
func line(text string) string {
	return cut(strings.Join(strings.Fields(clean(text)), " "), maxTitle)
}

// cut truncates text to at most max bytes without splitting a character.
func cut(text string, max int) string {
	if len(text) <= max {
		return text
	}
	for max > 0 && !utf8.RuneStart(text[max]) {
		max--
	}
	return text[:max]
}

const (
	maxTitle = 400
	maxTags  = 16
	maxTag   = 64 // characters
)

// tidyTags trims tags, converts them to lower case and removes duplicates. It drops tags that are
// too long and those over the limit.
func tidyTags(tags []string) []string {
	out := []string{}
	seen := map[string]bool{}
	for _, t := range tags {
		t = strings.ToLower(strings.Join(strings.Fields(strings.TrimPrefix(clean(t), "#")), " "))
		t = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, t)
		if t == "" || seen[t] || utf8.RuneCountInString(t) > maxTag || len(out) == maxTags {
			continue
		}
		seen[t] = true
		out = append(out, t)
	}
	return out
}
