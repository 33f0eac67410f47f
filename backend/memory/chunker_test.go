package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// checkExtents checks the invariants for every text: the parts are in order, none is too long, none
// begins or ends with white space, only white space is left out, and overlaps are limited.
func checkExtents(t *testing.T, text string, parts []extent) {
	t.Helper()
	var whole strings.Builder
	at := 0
	for i, p := range parts {
		if p.start < 0 || p.end > len(text) || p.start >= p.end {
			t.Fatalf("part %d is %d to %d of %d", i, p.start, p.end, len(text))
		}
		s := text[p.start:p.end]
		if n := utf8.RuneCountInString(s); n > chunkSize {
			t.Fatalf("part %d has %d characters", i, n)
		}
		if strings.TrimSpace(s) != s {
			t.Fatalf("part %d has white space at an end: %q", i, s)
		}
		if utf8.ValidString(text) && !utf8.ValidString(s) {
			t.Fatalf("part %d tears a character: %q", i, s)
		}
		if i > 0 {
			if p.start <= parts[i-1].start || p.end <= parts[i-1].end {
				t.Fatalf("part %d, %d to %d, does not go on from %d to %d", i, p.start, p.end, parts[i-1].start, parts[i-1].end)
			}
			if p.start < at {
				if n := utf8.RuneCountInString(text[p.start:at]); n > chunkOverlap {
					t.Fatalf("parts %d and %d overlap by %d characters", i-1, i, n)
				}
			}
		}
		if p.start > at {
			gap := text[at:p.start]
			if strings.TrimFunc(gap, unicode.IsSpace) != "" {
				t.Fatalf("left out before part %d: %q", i, gap)
			}
			whole.WriteString(gap)
			at = p.start
		}
		whole.WriteString(text[at:p.end])
		at = p.end
	}
	rest := text[at:]
	if strings.TrimSpace(rest) != "" {
		t.Fatalf("left out at the end: %q", rest)
	}
	if whole.WriteString(rest); whole.String() != text {
		t.Fatal("the parts together are not the text")
	}
}

func FuzzCutText(f *testing.F) {
	for _, text := range []string{
		"", " \n\t ", "One sentence.", strings.Repeat("A sentence of some length stands here. ", 80), strings.Repeat("x", 3000), strings.Repeat("思い出はいつも雨の匂いがする。", 200),
		strings.Repeat("漢字", 900), "# A\n\n## B\ntext\n```\n# not a heading\n```\n# C\n" + strings.Repeat("line\n", 400), strings.Repeat("e\u0301", 800), strings.Repeat("👩\u200d👩\u200d👧 ", 400),
		strings.Repeat("\u0301", 2000), "a\r\nb\r\n\r\n" + strings.Repeat("c d\r\n", 500), "\xff\xfe" + strings.Repeat("\x80", 1000), strings.Repeat(" ", 2000) + "end", "a" + strings.Repeat(" ", 600) + "b" + strings.Repeat("\n", 700) + "c" + strings.Repeat(" d", 500), strings.Repeat("مرحبا بالعالم؟ ", 200),
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, markdown bool) {
		parts := cutText(text, markdown)
		checkExtents(t, text, parts)
		if again := cutText(text, markdown); !slices.Equal(parts, again) {
			t.Fatal("the same text is cut in another way")
		}
		if !utf8.ValidString(text) {
			return
		}
		starts, ends := utf16Offsets(text, parts)
		units := utf16.Encode([]rune(text))
		for i, p := range parts {
			if got := string(utf16.Decode(units[starts[i]:ends[i]])); got != text[p.start:p.end] {
				t.Fatalf("part %d by its offsets is %q instead of %q", i, got, text[p.start:p.end])
			}
		}
	})
}

func TestCutText(t *testing.T) {
	t.Parallel()
	words := func(n int) string {
		r := rand.New(rand.NewPCG(uint64(n), 1))
		var b strings.Builder
		for b.Len() < n {
			fmt.Fprintf(&b, "word%d ", r.IntN(1000))
		}
		return strings.TrimSpace(b.String())
	}
	t.Run("sentences", func(t *testing.T) {
		t.Parallel()
		var b strings.Builder
		for i := range 60 {
			fmt.Fprintf(&b, "Sentence number %d says %s. ", i, words(10+i%40))
		}
		parts := cutText(b.String(), false)
		if len(parts) < 5 {
			t.Fatalf("%d parts", len(parts))
		}
		for i, p := range parts {
			if s := b.String()[p.start:p.end]; !strings.HasSuffix(s, ".") || !strings.HasPrefix(s, "Sentence") {
				t.Errorf("part %d is not of whole sentences: %q", i, s)
			}
		}
	})
	t.Run("lines", func(t *testing.T) {
		t.Parallel()
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, "- item %d %s\n", i, words(20))
		}
		for i, p := range cutText(b.String(), false) {
			if s := b.String()[p.start:p.end]; !strings.HasPrefix(s, "- item") || p.end < b.Len() && b.String()[p.end] != '\n' {
				t.Errorf("part %d is not of whole lines: %q", i, s)
			}
		}
	})
	t.Run("words", func(t *testing.T) {
		t.Parallel()
		text := words(5000)
		parts := cutText(text, false)
		checkExtents(t, text, parts)
		for i, p := range parts {
			if p.start > 0 && text[p.start-1] != ' ' || p.end < len(text) && text[p.end] != ' ' {
				t.Errorf("part %d tears a word: %q", i, text[p.start:p.end])
			}
			if i > 0 && p.start >= parts[i-1].end {
				t.Errorf("part %d does not overlap the one before", i)
			}
		}
	})
	t.Run("without spaces", func(t *testing.T) {
		t.Parallel()
		text := strings.Repeat("雨降る夜に君を想う", 300)
		parts := cutText(text, false)
		checkExtents(t, text, parts)
		for i, p := range parts[:len(parts)-1] {
			if n := utf8.RuneCountInString(text[p.start:p.end]); n != chunkSize {
				t.Errorf("part %d has %d characters", i, n)
			}
		}
	})
	t.Run("sentences without spaces", func(t *testing.T) {
		t.Parallel()
		text := strings.Repeat("京都の小さな店で食べた湯豆腐が忘れられない。「また来よう」と彼は言った。", 40)
		for i, p := range cutText(text, false) {
			if s := text[p.start:p.end]; !strings.HasSuffix(s, "。") {
				t.Errorf("part %d does not end with a sentence: %q", i, s)
			}
		}
	})
	t.Run("marks stay with their letters", func(t *testing.T) {
		t.Parallel()
		for _, cluster := range []string{"e\u0301", "👩🏽\u200d🚀", "क्षि"} {
			text := strings.Repeat(cluster, 700)
			for i, p := range cutText(text, false) {
				if s := text[p.start:p.end]; strings.Trim(strings.ReplaceAll(s, cluster, ""), " ") != "" {
					t.Errorf("part %d of %q is torn: begins %q, ends %q", i, cluster, s[:8], s[len(s)-8:])
				}
			}
		}
	})
	t.Run("paragraphs", func(t *testing.T) {
		t.Parallel()
		var b strings.Builder
		for i := range 20 {
			fmt.Fprintf(&b, "Paragraph %d. %s. And more.\n\n", i, words(350))
		}
		for i, p := range cutText(b.String(), false) {
			if s := b.String()[p.start:p.end]; p.end < b.Len() && !strings.HasPrefix(b.String()[p.end:], "\n\n") {
				t.Errorf("part %d does not end with a paragraph: %q", i, s)
			}
		}
	})
}

func TestHeadings(t *testing.T) {
	t.Parallel()
	text := "intro\n\n# Trips #\n\n## Lisbon\n\nThe tram.\n\n```sh\n# no heading\n```\n\n   ### Food\nFish.\n\n## Porto\n\nWine.\n#tag is no heading\n####### neither\n\n# Work\nDesk."
	want := []string{"", "Trips › Lisbon", "Trips › Lisbon › Food", "Trips › Porto", "Work"}
	parts := cutText(text, true)
	checkExtents(t, text, parts)
	var got []string
	for _, p := range parts {
		got = append(got, p.heading)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("headings %q\nwant %q", got, want)
	}
	if s := text[parts[1].start:parts[1].end]; !strings.HasPrefix(s, "# Trips #\n") || !strings.Contains(s, "# no heading") {
		t.Errorf("section: %q", s)
	}
	if plain := cutText(text, false); len(plain) != 1 || plain[0].heading != "" {
		t.Errorf("plain text has %d parts", len(plain))
	}
}

// A local edit leaves most parts of a long text unchanged.
func TestCutTextIsStable(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 5))
	var paragraphs []string
	for i := range 60 {
		var b strings.Builder
		for range 2 + r.IntN(6) {
			fmt.Fprintf(&b, "In %d the %d of them spoke about matter %d at length. ", r.IntN(2000), r.IntN(90), r.IntN(100000))
		}
		paragraphs = append(paragraphs, fmt.Sprintf("%d. %s", i, b.String()))
	}
	set := func(ps []string) map[string]bool {
		text, out := strings.Join(ps, "\n\n"), map[string]bool{}
		for _, p := range cutText(text, false) {
			out[text[p.start:p.end]] = true
		}
		return out
	}
	before := set(paragraphs)
	edited := slices.Clone(paragraphs)
	edited[3] = "Something else entirely was written here."
	after, kept := set(edited), 0
	for s := range before {
		if after[s] {
			kept++
		}
	}
	if kept < len(before)*3/4 {
		t.Errorf("%d of %d parts are the same after one edit", kept, len(before))
	}
}
