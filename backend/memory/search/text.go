package search

import (
	"encoding/json"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// HeadingJoin stands between a title and a heading below it.
const HeadingJoin = " › "

// TitleOf is the title that the metadata of a memory names, as that of a note.
func TitleOf(metadata json.RawMessage) string {
	if len(metadata) <= len(`{"title":}`) {
		return ""
	}
	var v struct {
		Title any `json:"title"`
	}
	_ = json.Unmarshal(metadata, &v) // a title of another type is none
	title, _ := v.Title.(string)
	return title
}

// NormalText is the form in which a text is stored: Unicode NFC, without space at its ends and
// without what no text holds.
func NormalText(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(text, "\x00", "")
	return strings.TrimSpace(norm.NFC.String(text))
}

// NormalTag trims a tag and makes it lower case; inner space is one space.
func NormalTag(tag string) string {
	return strings.Join(strings.Fields(norm.NFC.String(strings.ToLower(NormalText(tag)))), " ")
}

// Marks are the placeholders of n arguments.
func Marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }
