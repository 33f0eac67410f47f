package embed

import (
	"cmp"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// joiner is what package norm puts after each 30 marks in a row (its stream-safe text format).
// The model never saw it there.
const joiner = "\u034F"

// nfkc is the normal form NFKC of text, whatever the number of marks in a row.
func nfkc(text string) string {
	out := norm.NFKC.String(text)
	if !strings.Contains(out, joiner) {
		return out
	}
	// No order and no composition goes over a joiner, so what is between those of the text can
	// be brought into form by itself, and all the others are to be taken out.
	parts := strings.Split(text, joiner)
	for i, p := range parts {
		runes := []rune(strings.ReplaceAll(norm.NFKD.String(p), joiner, ""))
		sortMarks(runes)
		parts[i] = strings.ReplaceAll(norm.NFC.String(string(runes)), joiner, "")
	}
	return strings.Join(parts, joiner)
}

// sortMarks brings each run of marks into the canonical order, which norm only does within 30.
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
