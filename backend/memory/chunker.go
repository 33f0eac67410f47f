package memory

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"helix/backend/memory/search"
)

// Sizes of the parts that a document is cut into, in characters (Unicode code points).
const (
	chunkSize    = 640
	chunkOverlap = 96
	chunkLeast   = chunkSize / 2 // minimum size of a part, except the last of a section
)

// extent is the part text[start:end] of a text, in bytes. It has at most chunkSize characters, and
// neither its first nor its last is white space.
type extent struct {
	heading    string // heading path, from the outermost heading to its own
	start, end int
}

// cutText cuts a text into extents. Every extent except the last of a section ends at the best
// place in its second half: the end of a paragraph, else of a sentence, of a line, or of a word.
// Text without any of these is cut anywhere between grapheme clusters. The next extent begins up to
// chunkOverlap characters earlier, at the beginning of a sentence or word. Text that no extent
// covers is white space. With markdown, headings begin sections, and no extent spans two sections.
func cutText(text string, markdown bool) []extent {
	sections := []section{{end: len(text)}}
	if markdown {
		sections = cutSections(text)
	}
	var out []extent
	for _, s := range sections {
		out = cutSection(out, text, s)
	}
	return out
}

// cutSection appends the extents of one section.
func cutSection(out []extent, text string, s section) []extent {
	start, end := trim(text, s.start, s.end)
	for start < end {
		limit := forward(text, start, end, chunkSize)
		if limit == end {
			return append(out, extent{s.heading, start, end})
		}
		cut := bestCut(text, start, limit, end)
		_, last := trim(text, start, cut)
		out = append(out, extent{s.heading, start, last})
		// No overlap across a long stretch of white space: it might leave no room for the text after it.
		after, _ := trim(text, cut, end)
		if after > forward(text, cut, end, chunkOverlap) {
			start = after
			continue
		}
		next := overlapStart(text, start, cut)
		start, _ = trim(text, next, end)
	}
	return out
}

// Kinds of places where a text may be cut, from worst to best.
const (
	cutWord = iota + 1
	cutLine
	cutSentence
	cutParagraph
	cutKinds
)

// bestCut returns where the extent that begins at start should end, limit at the latest.
func bestCut(text string, start, limit, end int) int {
	least := forward(text, start, limit, chunkLeast)
	var at [cutKinds]int
	breaks(text, start, limit, end, func(pos, kind int) {
		if pos >= least {
			at[kind] = pos
		}
	})
	for kind := cutParagraph; kind >= cutWord; kind-- {
		if at[kind] > 0 {
			return at[kind]
		}
	}
	return graphemeBoundary(text, least, limit, end)
}

// overlapStart returns where the extent after the one that ends at cut begins.
func overlapStart(text string, start, cut int) int {
	back := backward(text, start, cut, chunkOverlap)
	var at [cutKinds]int
	// The rune before back determines whether a word begins at back.
	breaks(text, backward(text, start, back, 1), cut, cut, func(pos, kind int) {
		if pos, _ = trim(text, pos, cut); pos < back || pos >= cut {
			return
		}
		if at[kind] == 0 {
			at[kind] = pos
		}
	})
	best := 0
	for _, kind := range []int{cutParagraph, cutSentence, cutLine} {
		if at[kind] > 0 && (best == 0 || at[kind] < best) {
			best = at[kind]
		}
	}
	switch {
	case best > 0:
		return best
	case at[cutWord] > 0:
		return at[cutWord]
	}
	for n := 0; n < 32 && back < cut; n++ {
		r, size := utf8.DecodeRuneInString(text[back:])
		if !isMark(r) {
			break
		}
		back += size
	}
	return back
}

// breaks calls fn for each place after start, up to limit, where the text may be cut. The text
// between limit and end is only used to decide whether limit is such a place.
func breaks(text string, start, limit, end int, fn func(pos, kind int)) {
	var prev rune
	stop, wide, blank := false, false, false // a sentence has ended; it needs no space after it; only white space since the line began
	for i := start; i <= limit; {
		r, size := rune(' '), 1
		if i < end {
			r, size = utf8.DecodeRuneInString(text[i:])
		}
		if i > start {
			switch space := unicode.IsSpace(r); {
			case prev == '\n' && blank:
				fn(i, cutParagraph)
			case prev == '\n':
				fn(i, cutLine)
			case stop && (space || wide && !isCloser(r) && !isStop(r)):
				fn(i, cutSentence)
			case space && !unicode.IsSpace(prev), !space && unicode.IsSpace(prev):
				fn(i, cutWord)
			}
		}
		switch {
		case isStop(r):
			stop, wide = true, isWideStop(r)
		case !isCloser(r):
			stop, wide = false, false
		}
		if prev == '\n' {
			blank = true
		}
		if !unicode.IsSpace(r) {
			blank = false
		}
		prev = r
		i += size
	}
}

func isStop(r rune) bool {
	switch r {
	case '.', '!', '?', '…', '؟', '۔', '।', '॥':
		return true
	}
	return isWideStop(r)
}

// isWideStop reports whether r is a full stop in a script that puts no space after it.
func isWideStop(r rune) bool {
	switch r {
	case '。', '！', '？', '｡', '．':
		return true
	}
	return false
}

func isCloser(r rune) bool {
	return r == '"' || r == '\'' || unicode.In(r, unicode.Pe, unicode.Pf)
}

// graphemeBoundary returns the last position from least to pos that does not separate a character
// from its combining marks, or pos if there is none nearby.
func graphemeBoundary(text string, least, pos, end int) int {
	at := pos
	for n := 0; n < 32 && at > least && at < end; n++ {
		next, _ := utf8.DecodeRuneInString(text[at:])
		prev, size := utf8.DecodeLastRuneInString(text[:at])
		if !isMark(next) && prev != zeroWidthJoiner {
			return at
		}
		at -= size
	}
	if at > least && at < pos {
		return pos // an unbounded run of marks
	}
	return max(at, least)
}

const zeroWidthJoiner = '\u200d'

// isMark reports whether a rune modifies the one before it.
func isMark(r rune) bool {
	return r == zeroWidthJoiner || unicode.Is(unicode.M, r) || r >= 0x1f3fb && r <= 0x1f3ff
}

// forward returns the position n characters after pos, end at the most.
func forward(text string, pos, end, n int) int {
	for ; n > 0 && pos < end; n-- {
		_, size := utf8.DecodeRuneInString(text[pos:end])
		pos += size
	}
	return pos
}

// backward returns the position n characters before pos, start at the least.
func backward(text string, start, pos, n int) int {
	for ; n > 0 && pos > start; n-- {
		_, size := utf8.DecodeLastRuneInString(text[start:pos])
		pos -= size
	}
	return pos
}

// trim narrows text[start:end] to exclude white space at both ends.
func trim(text string, start, end int) (int, int) {
	s := text[start:end]
	left := len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace))
	right := len(strings.TrimRightFunc(s, unicode.IsSpace))
	return start + left, max(start+left, start+right)
}

// utf16Offsets converts the offsets of extents to UTF-16 code units, which JavaScript uses.
func utf16Offsets(text string, extents []extent) (starts, ends []int64) {
	starts, ends = make([]int64, len(extents)), make([]int64, len(extents))
	pos, units := 0, int64(0)
	to := func(at int) int64 {
		if at < pos { // an overlap: count back
			units -= search.UTF16Len(text[at:pos])
		} else {
			units += search.UTF16Len(text[pos:at])
		}
		pos = at
		return units
	}
	for i, p := range extents {
		starts[i], ends[i] = to(p.start), to(p.end)
	}
	return starts, ends
}
