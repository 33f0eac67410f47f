package expr

import (
	"strings"
	"testing"
)

// TestParsingEnds checks that a text that could be parsed in very many ways is parsed in linear
// time. Trying all of them would take years.
func TestParsingEnds(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"$" + strings.Repeat("[?@", 31) + strings.Repeat("]", 31),
		"$[?" + strings.Repeat("(", 30) + "@.a" + strings.Repeat(")", 30) + "]",
		"$[?" + strings.Repeat("!(", 30) + "@.a" + strings.Repeat(")", 30) + "]",
		"$[?" + strings.Repeat("length(", 30) + "@.a" + strings.Repeat(")", 30) + " > 1]",
		"$[?" + strings.Repeat("count(@[?", 15) + "@.a" + strings.Repeat("])>1", 15) + "]",
		"$" + strings.Repeat("..a", 600), "$" + strings.Repeat("[0,", 31),
		"$[?" + strings.Repeat("@.a||", 380) + "@.a]", "$[?" + strings.Repeat("@.a &&  ", 240) + "@.a]",
	} {
		_, _ = ParsePath(text)
		_, _ = ParseCondition(strings.TrimSuffix(strings.TrimPrefix(text, "$[?"), "]"))
		_, _ = ImportCondition(text)
	}
}
