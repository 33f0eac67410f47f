package search

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	snippetBytes = 280 // bytes of text shown for a hit
	quoteBytes   = 480 // bytes of text quoted as evidence
)

// passage is a part of a text.
type passage struct{ start, end int }

// passageOf returns the part of at most size bytes that contains the most search words: first by
// distinct words, then by occurrences, then the earliest. It begins and ends between words.
func passageOf(text string, ws []word, stems map[string]bool, size int) passage {
	if len(text) <= size {
		return passage{0, len(text)}
	}
	var hits []int // indexes into ws
	var hitStems []string
	for i, w := range ws {
		if st := stem(w.token); stems[st] {
			hits, hitStems = append(hits, i), append(hitStems, st)
		}
	}
	if len(hits) == 0 {
		return passage{0, cutAt(text, size)}
	}
	best, bestKinds, bestAll := 0, 0, 0
	count := map[string]int{}
	for from, to := 0, 0; from < len(hits); from++ {
		for to < len(hits) && ws[hits[to]].end-ws[hits[from]].start <= size*3/4 {
			count[hitStems[to]]++
			to++
		}
		if to == from { // a word longer than the snippet
			count[hitStems[to]]++
			to++
		}
		if kinds, all := len(count), to-from; kinds > bestKinds || kinds == bestKinds && all > bestAll {
			best, bestKinds, bestAll = from, kinds, all
		}
		if count[hitStems[from]]--; count[hitStems[from]] == 0 {
			delete(count, hitStems[from])
		}
	}
	first := ws[hits[best]].start
	start := max(0, first-size/8)
	if start > 0 { // at the beginning of a sentence, else of a word
		i, _ := slices.BinarySearchFunc(ws, start, func(w word, at int) int { return w.start - at })
		start = min(ws[min(i, hits[best])].start, first)
		if j := strings.LastIndexAny(text[max(0, first-size/4):first], ".!?\n"); j >= 0 {
			from := max(0, first-size/4) + j + 1
			if k, _ := slices.BinarySearchFunc(ws, from, func(w word, at int) int { return w.start - at }); ws[k].start <= first {
				start = ws[k].start
			}
		}
	}
	return passage{start, start + cutAt(text[start:], size)}
}

// cutAt returns the length of the longest prefix of at most size bytes that ends between words, or
// at least between characters.
func cutAt(text string, size int) int {
	if len(text) <= size {
		return len(text)
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	if i := strings.LastIndexAny(text[:size], " \n\t"); i > size/2 {
		size = i
	}
	return size
}

// highlights returns the occurrences of search words in a text, in UTF-16 code units. Adjacent
// words are separate spans.
func highlights(text string, stems map[string]bool) []Span {
	out := []Span{}
	at, units := 0, 0
	for _, w := range tokenize(text) {
		if !stems[stem(w.token)] {
			continue
		}
		units += int(UTF16Len(text[at:w.start]))
		n := int(UTF16Len(text[w.start:w.end]))
		out = append(out, Span{units, units + n})
		units, at = units+n, w.end
	}
	return out
}

// UTF16Len returns the length of a text in UTF-16 code units, as in JavaScript.
func UTF16Len(s string) (n int64) {
	for _, r := range s {
		n++
		if r >= 0x10000 {
			n++
		}
	}
	return n
}

// excerpt returns a passage of a text, with an ellipsis where it was cut.
func excerpt(text string, p passage) string {
	s := strings.TrimSpace(text[p.start:p.end])
	if p.start > 0 {
		s = "… " + s
	}
	if p.end < len(text) {
		s += " …"
	}
	return s
}
