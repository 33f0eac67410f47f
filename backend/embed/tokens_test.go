package embed

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// vocabOf encodes pieces like build/models/gen, after the reserved ones.
func vocabOf(pieces ...piece) []byte {
	all := slices.Repeat([]piece{{"?", 0}}, reserved)
	all = append(all, pieces...)
	b := []byte{byte(len(all)), 0, 0, 0}
	for _, p := range all {
		bits := math.Float64bits(p.score)
		for i := range 8 {
			b = append(b, byte(bits>>(8*i)))
		}
		b = append(append(b, byte(len(p.text))), p.text...)
	}
	return b
}

func TestTokens(t *testing.T) {
	t.Parallel()
	tok := newTokenizer(vocabOf(
		piece{"▁", -1},    // 6
		piece{"a", -2},    // 7
		piece{"b", -2},    // 8
		piece{"ab", -3},   // 9: better than a and b
		piece{"▁ab", -5},  // 10: worse than ▁ and ab
		piece{":", 0},     // 11: no score
		piece{"xyz", -1},  // 12: no part of it is a piece
		piece{"b", -9},    // 13: duplicate text; the last one is used
		piece{"日本", -2},   // 14
		piece{"▁▁", -1.5}, // 15
	))
	for text, want := range map[string][]int32{
		"":          nil,
		" ":         {15},
		"ab":        {6, 9},
		"a b":       {6, 7, 6, 13},
		"ａb":        {6, 9}, // of full width
		"ab ab":     {6, 9, 6, 9},
		"xyz":       {6, 0}, // y is not the start of a piece, and unknown ones cost nothing
		"xy":        {6, 0},
		"qq":        {6, 0}, // unknown characters are joined
		"q q":       {6, 0, 6, 0},
		"aqqqb":     {6, 7, 0, 13},
		"a:":        {6, 7, 11},
		"\xff\xfea": {6, 0, 7},
		"日本":        {6, 0}, // the same
		"日本日":       {6, 0},
		"\u00a0a":   {15, 7}, // a no-break space is a space
	} {
		got, err := tok.tokens(context.Background(), &lattice{}, nil, text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v (%v)", text, got, want, err)
		}
	}
}

func TestTruncatedVocabIsAnError(t *testing.T) {
	t.Parallel()
	whole := vocabOf(piece{"▁", -1}, piece{"ab", -2})
	if p, err := parseVocab(whole); err != nil || len(p) != reserved+2 || p[7] != (piece{"ab", -2}) {
		t.Fatalf("%v, %v", p, err)
	}
	for n := range whole {
		if _, err := parseVocab(whole[:n]); err == nil {
			t.Errorf("no error after %d bytes", n)
		}
	}
}

func TestTokensAreText(t *testing.T) {
	t.Parallel()
	m := model(t)
	pieces, err := parseVocab(m.weights.vocab)
	if err != nil || len(pieces) != 8000 {
		t.Fatalf("%d pieces, %v", len(pieces), err)
	}
	for _, text := range ordinary(t, 200) {
		var b strings.Builder
		for _, id := range m.Tokens(text) {
			if id == unknown {
				b.Reset()
				break
			}
			b.WriteString(pieces[id].text)
		}
		if want := strings.ReplaceAll(" "+text, " ", string(space)); b.Len() > 0 && b.String() != want && isASCII(text) {
			t.Errorf("the pieces of %q are %q", text, b.String())
		}
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// FuzzTokens tokenizes arbitrary bytes: no piece is outside of the vocabulary, no two unknown ones
// are adjacent, and no text has more pieces than characters.
func FuzzTokens(f *testing.F) {
	for _, s := range difficult()[:120] {
		f.Add(s)
	}
	f.Add("\xff\xc0\xaf\xed\xb0\x80")
	m := model(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<16 {
			t.Skip()
		}
		ids := m.Tokens(text)
		for i, id := range ids {
			if id != unknown && id < reserved || id >= 8000 || id < 0 {
				t.Fatalf("piece %d", id)
			}
			if i > 0 && id == unknown && ids[i-1] == unknown {
				t.Fatal("two unknown pieces in a row")
			}
		}
		// Compatibility forms of one character have up to 18, and a mark may be in between.
		if limit := 20*utf8.RuneCountInString(text) + 1; len(ids) > limit || (len(ids) == 0) != (text == "") {
			t.Fatalf("%d pieces of %d bytes", len(ids), len(text))
		}
	})
}
