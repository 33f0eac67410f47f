package embed

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// joiner is what package norm inserts after each 30 consecutive marks (its stream-safe text
// format). The model was trained without it.
const joiner = "\u034F"

// nfkc returns text in the normal form NFKC, however many consecutive marks it has.
func nfkc(text string) string {
	out := norm.NFKC.String(text)
	if !strings.Contains(out, joiner) {
		return out
	}
	// Neither reordering nor composition crosses a joiner. So the parts between the joiners of the
	// text can be normalized separately, and all other joiners removed.
	parts := strings.Split(text, joiner)
	for i, p := range parts {
		runes := []rune(strings.ReplaceAll(norm.NFKD.String(p), joiner, ""))
		sortMarks(runes)
		parts[i] = strings.ReplaceAll(norm.NFC.String(string(runes)), joiner, "")
	}
	return strings.Join(parts, joiner)
}

// sortMarks puts each run of marks in canonical order, which norm does only within 30 marks.
func sortMarks(runes []rune) {
	class := func(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }
	for from := 0; from < len(runes); {
		to := from
		for to < len(runes) && class(runes[to]) != 0 {
			to++
		}
		slices.SortStableFunc(runes[from:to], func(a, b rune) int { return cmp.Compare(class(a), class(b)) })
		from = to + 1
	}
}
