package synthesis

import (
	_ "embed" // for the word list
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"helix/backend/lazyregexp"
	"helix/backend/memory/search"
)

// fillerWords lists everyday words that do not indicate a topic, in addition to the stop words of
// search.
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

// attachment matches the text that importers add for a picture in a message.
var attachment = lazyregexp.New(`\[shares [^\]]*\]`)

func withoutAttachments(body string) string {
	if !strings.Contains(body, "[shares ") {
		return body
	}
	return attachment().ReplaceAllString(body, "")
}

const (
	longBurst           = 9 // number of texts from which on a term must occur in three of them
	leastOccasions      = 8 // minimum number of conversations and days to determine plain words
	plainShare          = 2 // a word in more than one of this many occasions is plain
	leastStandardErrors = 2
	namedShare          = 4 // one of this many texts must contain one of the words
	leastCoherence      = 0.06
)

// token is a word of a text that can be part of a term.
type token struct {
	stem, shown string
	next        bool // the next token follows directly
}

// tokens returns the words of a text that may indicate its topic.
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
		// A capital within a sentence indicates a name; at its beginning it may not.
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

// vocabulary counts the texts that contain each word and each pair of adjacent words.
type vocabulary struct {
	texts [][]token
	df    map[string]int

	shared    int            // see repeated
	occasions map[string]int // number of conversations and days by word or pair; computed on first use
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

// keys returns the words and pairs of a text, with a form to display.
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

// term is a word or a pair that describes a group of texts.
type term struct {
	key, shown string
	in         int   // number of texts of the group that contain it
	of         []int // their indexes
	score      float64
}

// terms returns the words and pairs that distinguish a group of texts from all others, best first,
// by class-based tf-idf (Grootendorst 2022) over the number of texts. A term occurs in at least two
// texts and an eighth of the group; pairs take precedence over their words.
func (v *vocabulary) terms(members []int, n int) []term {
	var list []term
	for _, t := range v.frequent(members, max(2, (len(members)+7)/8)) {
		share, rest := float64(t.in)/float64(len(members)), float64(v.df[t.key])/float64(len(v.texts))
		if share <= rest*1.2 { // as frequent elsewhere
			continue
		}
		t.score = share * math.Log(1+float64(len(v.texts))/float64(v.df[t.key]))
		if strings.Contains(t.key, " ") {
			t.score *= 1.5
		}
		list = append(list, t)
	}
	byScore(list)
	return apart(list, n)
}

// distinct returns the words and pairs that distinguish a burst from the other texts, best first,
// by how many standard errors their log odds in the burst exceed those elsewhere (Haldane 1956). A
// term occurs in at least two texts of a burst, and in three or an eighth of a longer one, so that
// a passing remark does not determine it. Words in more than half of all conversations and days are
// plain words of this writer and are excluded.
func (v *vocabulary) distinct(members []int, occasions int, of []int) []term {
	if v.occasions == nil {
		v.occasions = map[string]int{}
		last := map[string]int{} // the occasion in which a key was last counted
		order := make([]int, len(of))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return of[a] - of[b] })
		for _, i := range order {
			for key := range v.keys(i) {
				if v.df[key] < 2*plainShare {
					continue // too rare to be plain
				}
				if at, ok := last[key]; !ok || at != of[i] {
					last[key] = of[i]
					v.occasions[key]++
				}
			}
		}
	}
	least := 2
	if len(members) >= longBurst {
		least = max(3, len(members)/8)
	}
	in, rest := float64(len(members)), float64(len(v.texts)-len(members))
	var list []term
	for _, t := range v.frequent(members, least) {
		if occasions >= leastOccasions && plainShare*v.occasions[t.key] > occasions {
			continue
		}
		a, b := float64(t.in), float64(v.df[t.key]-t.in)
		odds := math.Log((a+0.5)/(in-a+0.5)) - math.Log((b+0.5)/(rest-b+0.5))
		t.score = odds / math.Sqrt(1/(a+0.5)+1/(in-a+0.5)+1/(b+0.5)+1/(rest-b+0.5))
		if t.score >= leastStandardErrors {
			list = append(list, t)
		}
	}
	// A pair takes precedence over a word in it that seldom occurs without the other.
	for i := range list {
		for _, w := range strings.Fields(list[i].key) {
			if k := slices.IndexFunc(list, func(t term) bool { return t.key == w }); k >= 0 && k != i && 3*list[i].in >= 2*list[k].in {
				list[i].score = max(list[i].score, list[k].score) + 1e-6
			}
		}
	}
	byScore(list)
	return list
}

// frequent returns the words and pairs in at least least texts of a group, unsorted and without a score.
func (v *vocabulary) frequent(members []int, least int) (list []term) {
	type seen struct {
		of    []int
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
			s.of = append(s.of, m)
			s.shown[shown]++
		}
	}
	for key, s := range found {
		if len(s.of) < least {
			continue
		}
		t := term{key: key, in: len(s.of), of: s.of}
		for shown, c := range s.shown { // the most frequent form, the first of equals
			if best := s.shown[t.shown]; c > best || c == best && (t.shown == "" || shown < t.shown) {
				t.shown = shown
			}
		}
		list = append(list, t)
	}
	return list
}

func byScore(list []term) {
	slices.SortFunc(list, func(a, b term) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return strings.Compare(a.key, b.key)
	})
}

// apart returns the first n terms of a list that have no word in common.
func apart(list []term, n int) (out []term) {
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

// terms returns the words to display for a group of texts.
func (a *analysis) terms(members []int, n int) []string {
	return a.withoutPeople(a.words().terms(members, n+3), n)
}

// burstTerms returns the words to display for a burst, and the number of texts that contain one of
// them: if it is less than a quarter, no words are returned.
func (a *analysis) burstTerms(members []int, n int) (shown []string, have int) {
	list, of := a.occasions()
	terms := slices.DeleteFunc(a.words().distinct(members, len(list), of), func(t term) bool { return !a.coherent(t.of, members) })
	terms = apart(terms, n+3)
	shown = a.withoutPeople(terms, n)
	with := map[int]bool{}
	for _, t := range terms {
		if slices.Contains(shown, t.shown) {
			for _, m := range t.of {
				with[m] = true
			}
		}
	}
	if have = len(with); namedShare*have < len(members) {
		return nil, 0
	}
	return shown, have
}

// coherent reports whether the texts with a term are closer in meaning than those of the burst. Words such
// as "moment" or "memory" occur in texts about anything. For texts without vectors it returns true.
func (a *analysis) coherent(with, burst []int) bool {
	near, ok := a.closeness(with)
	usual, all := a.closeness(burst)
	return !ok || !all || near >= usual+leastCoherence
}

// closeness returns the mean cosine of all pairs of texts, computed from the length of the sum of
// their unit vectors.
func (a *analysis) closeness(members []int) (mean float64, ok bool) {
	var sum []float64
	n := 0.0
	for _, m := range members {
		v := a.in.Texts[m].Vector
		norm := 0.0
		for _, f := range v {
			norm += float64(f) * float64(f)
		}
		if norm == 0 || math.IsNaN(norm) || math.IsInf(norm, 0) || sum != nil && len(sum) != len(v) {
			continue
		}
		if sum == nil {
			sum = make([]float64, len(v))
		}
		norm = math.Sqrt(norm)
		for k, f := range v {
			sum[k] += float64(f) / norm
		}
		n++
	}
	if n < 2 {
		return 0, false
	}
	square := 0.0
	for _, f := range sum {
		square += f * f
	}
	return (square - n) / (n * (n - 1)), true
}

// withoutPeople returns the first n terms that are not names of people, because people are not topics.
func (a *analysis) withoutPeople(list []term, n int) []string {
	out := []string{}
	for _, t := range list {
		if len(out) < n && !slices.ContainsFunc(strings.Fields(strings.ToLower(t.shown)), a.isPerson) {
			out = append(out, t.shown)
		}
	}
	return out
}

// isPerson reports whether a word in lower case is somebody's name, or short for one.
func (a *analysis) isPerson(word string) bool {
	a.people()
	return a.nameOf[word] != ""
}

// words counts the words of all texts, once.
func (a *analysis) words() *vocabulary {
	if a.vocabulary == nil {
		a.vocabulary = newVocabulary(a.in.Texts)
	}
	return a.vocabulary
}
