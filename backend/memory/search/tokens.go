package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// word is a token of a text with its byte offsets.
type word struct {
	token      string // lower case, without diacritics
	start, end int
}

// tokenize splits a text like the unicode61 tokenizer of FTS5 with remove_diacritics 2: letters,
// numbers and private-use characters form tokens, marks within a token are dropped, and everything
// else separates tokens.
func tokenize(text string) []word {
	var out []word
	var buf []byte
	start, plain := -1, true
	flush := func(end int) {
		if start < 0 {
			return
		}
		if plain { // only lower-case ASCII: no copy needed
			out = append(out, word{text[start:end], start, end})
		} else {
			out = append(out, word{string(buf), start, end})
		}
		start, plain, buf = -1, true, buf[:0]
	}
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			switch {
			case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
				if start < 0 {
					start = i
				}
				buf = append(buf, c)
			case 'A' <= c && c <= 'Z':
				if start < 0 {
					start = i
				}
				buf, plain = append(buf, c+'a'-'A'), false
			default:
				flush(i)
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case unicode.In(r, unicode.L, unicode.N, unicode.Co):
			if start < 0 {
				start = i
			}
			buf, plain = appendFolded(buf, r), false
		case start >= 0 && unicode.Is(unicode.Mn, r) && r <= 0x36f: // a combining mark
			plain = false
		default:
			flush(i)
		}
		i += size
	}
	flush(len(text))
	return out
}

// appendFolded appends r in lower case. A Latin letter is appended without its diacritics.
func appendFolded(b []byte, r rune) []byte {
	r = unicode.ToLower(r)
	var enc [utf8.UTFMax]byte
	n := utf8.EncodeRune(enc[:], r)
	if d := norm.NFD.Properties(enc[:n]).Decomposition(); d != nil {
		if base, _ := utf8.DecodeRune(d); unicode.Is(unicode.Latin, base) {
			if rest := d[utf8.RuneLen(base):]; len(rest) > 0 && strings.IndexFunc(string(rest), notMark) < 0 {
				r = base
			}
		}
	}
	return utf8.AppendRune(b, r)
}

func notMark(r rune) bool { return !unicode.Is(unicode.Mn, r) }
