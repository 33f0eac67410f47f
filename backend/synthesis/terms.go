package synthesis

import (
	_ "embed" // the list of words
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"helix/backend/memory/search"
)

// fillerWords are the words of everyday talk that name no subject, beside those that search leaves
// out of questions.
//
//go:embed filler.txt
var fillerWords string

var filler = set(fillerWords)

func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

// attachment is what importers add for a picture that a message came with.
var attachment = regexp.MustCompile(`\[shares [^\]]*\]`)

func withoutAttachments(body string) string {
	if !strings.Contains(body, "[shares ") {
		return body
	}
	return attachment.ReplaceAllString(body, "")
}

// token is a word of a text that can be part of a term.
type token struct {
	stem, shown string
	next        bool // the next token of the text follows it directly
}

// tokens gives the words of a text that may name what it is about.
func tokens(body string) []token {
	body = strings.ReplaceAll(withoutAttachments(body), "’", "'")
	words := search.Words(body)
	var out []token
	last := -2
	for i, w := range words {
		if w.Stop || filler[w.Token] || utf8.RuneCountInString(w.Token) < 3 || !letters(w.Token) {
			continue
		}
		if i == last+1 && len(out) > 0 && strings.Trim(body[words[last].End:w.Start], " -") == "" {
			out[len(out)-1].next = true
		}
		shown := body[w.Start:w.End]
		// A capital in the middle of a sentence belongs to a name; elsewhere it may not.
		if before := strings.TrimRightFunc(body[:w.Start], unicode.IsSpace); before == "" || strings.ContainsAny(before[len(before)-1:], ".!?:\"") || shown != strings.ToUpper(shown[:1])+shown[1:] {
			shown = strings.ToLower(shown)
		}
		out = append(out, token{stem: w.Stem, shown: shown})
		last = i
	}
	return out
}

func letters(s string) bool {
	for _, r := range s {
		if !unicode.IsLetter(r) {
			return false
		}
	}
	return true
}

// vocabulary counts in how many texts each word and each pair of neighboring words is.
type vocabulary struct {
	texts [][]token
	df    map[string]int

	shared int // see repeated
}

func newVocabulary(texts []Text) *vocabulary {
	v := &vocabulary{texts: make([][]token, len(texts)), df: map[string]int{}}
	for i, t := range texts {
		v.texts[i] = tokens(t.Body)
		for key := range v.keys(i) {
			v.df[key]++
		}
	}
	return v
}

// keys are the words and pairs of a text, with a form to show.
func (v *vocabulary) keys(i int) map[string]string {
	out := map[string]string{}
	for k, t := range v.texts[i] {
		out[t.stem] = t.shown
		if t.next {
			out[t.stem+" "+v.texts[i][k+1].stem] = t.shown + " " + v.texts[i][k+1].shown
		}
	}
	return out
}

// term is a word or a pair that stands for a group of texts.
type term struct {
	key, shown string
	in         int // texts of the group that have it
	score      float64
}

// terms are the words and pairs that tell a group of texts from all others, best first, by
// class-based tf-idf (Grootendorst 2022) over the number of texts. A term is in at least two
// texts and in an eighth of the group; pairs go before the words in them.
func (v *vocabulary) terms(members []int, n int) []term {
	type seen struct {
		in    int
		shown map[string]int
	}
	found := map[string]*seen{}
	for _, m := range members {
		for key, shown := range v.keys(m) {
			s := found[key]
			if s == nil {
				s = &seen{shown: map[string]int{}}
				found[key] = s
			}
			s.in++
			s.shown[shown]++
		}
	}
	least := max(2, (len(members)+7)/8)
	var list []term
	for key, s := range found {
		if s.in < least {
			continue
		}
		share, rest := float64(s.in)/float64(len(members)), float64(v.df[key])/float64(len(v.texts))
		if share <= rest*1.2 { // as frequent elsewhere
			continue
		}
		t := term{key: key, in: s.in, score: share * math.Log(1+float64(len(v.texts))/float64(v.df[key]))}
		if strings.Contains(key, " ") {
			t.score *= 1.5
		}
		for shown, c := range s.shown { // the most frequent form, the first of equals
			if best := s.shown[t.shown]; c > best || c == best && (t.shown == "" || shown < t.shown) {
				t.shown = shown
			}
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b term) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return strings.Compare(a.key, b.key)
	})
	var out []term
	for _, t := range list {
		if len(out) == n {
			break
		}
		overlaps := slices.ContainsFunc(out, func(o term) bool {
			return slices.ContainsFunc(strings.Fields(t.key), func(w string) bool { return slices.Contains(strings.Fields(o.key), w) })
		})
		if !overlaps {
			out = append(out, t)
		}
	}
	return out
}

// terms are the words to show for a group of texts; people are no topics.
func (a *analysis) terms(members []int, n int) []string {
	out := []string{}
	for _, t := range a.words().terms(members, n+3) {
		if len(out) < n && !slices.ContainsFunc(strings.Fields(strings.ToLower(t.shown)), a.isPerson) {
			out = append(out, t.shown)
		}
	}
	return out
}

// isPerson reports whether a word in lower case is the name of somebody, or short for it.
func (a *analysis) isPerson(word string) bool {
	a.people()
	return a.nameOf[word] != ""
}

// words counts the words of all texts once.
func (a *analysis) words() *vocabulary {
	if a.vocabulary == nil {
		a.vocabulary = newVocabulary(a.in.Texts)
	}
	return a.vocabulary
}
