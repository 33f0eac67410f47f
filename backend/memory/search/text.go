package search

import (
	"encoding/json"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// HeadingJoin separates a title from a heading below it.
const HeadingJoin = " › "

// TitleOf returns the title in the metadata of a memory, such as that of a note, or "".
func TitleOf(metadata json.RawMessage) string {
	if len(metadata) <= len(`{"title":}`) {
		return ""
	}
	var v struct {
		Title any `json:"title"`
	}
	_ = json.Unmarshal(metadata, &v) // a title that is not a string is ignored
	title, _ := v.Title.(string)
	return title
}

// NormalText returns the form in which a text is stored: Unicode NFC, trimmed, without NUL, and
// with U+FFFD in place of invalid UTF-8.
func NormalText(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(text, "\x00", "")
	return strings.TrimSpace(norm.NFC.String(text))
}

// NormalTag trims a tag, converts it to lower case and collapses inner white space to one space.
func NormalTag(tag string) string {
	return strings.Join(strings.Fields(norm.NFC.String(strings.ToLower(NormalText(tag)))), " ")
}

// Marks returns the placeholders of n SQL arguments.
func Marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }
