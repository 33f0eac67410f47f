package lifecycle

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"helix/backend/fault"
	"helix/backend/jcs"
)

// HashTag separates the hashes of definitions from those of other objects.
const HashTag = "helix-def-v1"

// Limits on the texts of definitions, in characters.
const (
	MaxName        = 64
	MaxDescription = 2000
)

// namePattern allows letters, digits, space and _ - . in any script, and the suffix that Clone
// adds.
var namePattern = regexp.MustCompile(`^[\p{L}\p{M}\p{N}_.-]([\p{L}\p{M}\p{N} _.-]{0,62}[\p{L}\p{M}\p{N}_.-])?( ?\(Clone( \d{1,4})?\))?$`)

// CheckName trims and checks the name of a tool or a WASM tool.
func CheckName(noun, name string) (string, error) {
	name = strings.TrimSpace(name)
	if !utf8.ValidString(name) || utf8.RuneCountInString(name) > MaxName || !namePattern.MatchString(name) {
		return "", fault.Invalidf("A %s's name must have 1 to 64 letters, digits, spaces, underscores, hyphens or dots.", noun)
	}
	return name, nil
}

// CheckText rejects control characters in a one-line text, and a text longer than limit.
func CheckText(what, s string, limit int) error {
	if n := utf8.RuneCountInString(s); n > limit {
		return fault.Invalidf("The %s has %d characters; the limit is %d.", what, n, limit)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
		return fault.Invalidf("The %s contains characters that can't be displayed.", what)
	}
	return nil
}

// CheckEnum rejects a value that is not in its list; an empty value passes.
func CheckEnum[T interface {
	~string
	Enum() []string
}](what string, v T) error {
	if v != "" && !slices.Contains(v.Enum(), string(v)) {
		return fault.Invalidf("%q isn't a %s. Use one of %s.", Shorten(string(v), 40), what, strings.Join(v.Enum(), ", "))
	}
	return nil
}

// CheckVersion rejects a label that is not a semantic version.
func CheckVersion(v string) error {
	if !isVersion(v) {
		return fault.Invalidf("%q isn't a semantic version such as 1.2.3.", Shorten(v, 64))
	}
	return nil
}

// Shorten truncates s to n characters with an ellipsis.
func Shorten(s string, n int) string {
	count := 0
	for i := range s {
		if count == n {
			return s[:i] + "…"
		}
		count++
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// Text returns a value of a definition as the JSON that its row stores.
func Text(v any) json.RawMessage {
	b, err := jcs.Marshal(v)
	if err != nil {
		return json.RawMessage("null") // cannot happen: all values were read from JSON
	}
	return b
}
