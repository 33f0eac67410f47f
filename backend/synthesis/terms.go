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

const (
	longBurst           = 9 // texts from which a term must be in three of them
	leastOccasions      = 8 // conversations and days from which plain words can be told
	plainShare          = 2 // a word in more than one of so many is plain
	leastStandardErrors = 2
	namedShare          = 4 // one of so many texts has one of the words
	leastCoherence      = 0.06
)

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

	shared    int            // see repeated
	occasions map[string]int // conversations and days that have a word or pair; made when a burst is named
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
	in         int   // texts of the group that have it
	of         []int // which
	score      float64
}

// terms are the words and pairs that tell a group of texts from all others, best first, by
// class-based tf-idf (Grootendorst 2022) over the number of texts. A term is in at least two
// texts and in an eighth of the group; pairs go before the words in them.
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

// distinct are the words and pairs that tell a burst from the rest of the texts, best first, by how many standard errors
// their log odds in the burst are above those elsewhere (Haldane 1956). A term is in at least two texts of a burst, and
// three or an eighth of a longer one, so that what only a remark was about does not name it. What stands in more
// than half of all conversations and days is a plain word of this writer, and names none of them.
func (v *vocabulary) distinct(members []int, occasions int, of []int) []term {
	if v.occasions == nil {
		v.occasions = map[string]int{}
		last := map[string]int{} // the occasion in which a key was counted last
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
	// A pair goes before a word in it that seldom stands without the other.
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

// frequent are the words and pairs in at least so many texts of a group, in no order and without a score.
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

// apart are the first n terms of a list that share no word.
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

// terms are the words to show for a group of texts.
func (a *analysis) terms(members []int, n int) []string {
	return a.withoutPeople(a.words().terms(members, n+3), n)
}

// burstTerms are the words to show for texts of one time, and how many of the texts have one of them: at least a
// quarter, or none is shown.
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

// coherent reports whether the texts with a term are nearer to each other in meaning than those of its burst are: words
// such as "moment" or "memory" stand in texts about anything. Texts without vectors can't be told apart.
func (a *analysis) coherent(with, burst []int) bool {
	near, ok := a.closeness(with)
	usual, all := a.closeness(burst)
	return !ok || !all || near >= usual+leastCoherence
}

// closeness is the mean cosine of all pairs of texts, from the length of the sum of their unit vectors.
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

// withoutPeople shows the first n terms that name nobody; people are no topics.
func (a *analysis) withoutPeople(list []term, n int) []string {
	out := []string{}
	for _, t := range list {
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
