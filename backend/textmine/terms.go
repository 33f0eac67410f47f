package textmine

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Doc is a text with the person who said or wrote it. ID is for the caller.
type Doc struct {
	ID      string
	Speaker string // "" is the person whose memory it is
	Text    string
}

// Term is a word or a phrase that marks a group of texts.
type Term struct {
	Text  string
	Score float64
	Docs  int // of the group that have it
}

const (
	phraseBonus = 1.6 // two words say more than one
	phraseDocs  = 2   // a phrase counts from so many texts of the group; one of a small group may do
)

// usage is how often a term occurs.
type usage struct {
	count, docs, lastDoc int
	forms                map[string]int
}

// Terms gives the n terms that mark group among all, the best first: class-based tf-idf over
// lemmas, without stop words and the names by which speakers address each other. Phrases of two
// words come before their words, and names keep their capitals. all includes group.
func Terms(group, all []Doc, n int) []Term {
	var speakers []string
	for _, d := range all {
		if d.Speaker != "" && !slices.Contains(speakers, d.Speaker) {
			speakers = append(speakers, d.Speaker)
		}
	}
	inGroup, words := count(group, speakers)
	everywhere, total := count(all, speakers)
	if words == 0 || n <= 0 {
		return nil
	}
	// The rest counts as classes of the group's size.
	class := float64(total) / math.Max(2, math.Round(float64(total)/float64(words)))
	var terms []Term
	lemmas := map[string]string{}
	for lemma, u := range inGroup {
		phrase := strings.Contains(lemma, " ")
		if phrase && u.docs < min(phraseDocs, len(group)) {
			continue
		}
		f := float64(max(u.count, 1))
		if e := everywhere[lemma]; e != nil {
			f = float64(max(e.count, u.count))
		}
		score := float64(u.count) / float64(words) * math.Log(1+class/f) * (1 + math.Log(float64(u.docs)))
		if phrase {
			score *= phraseBonus
		}
		t := Term{Text: u.form(), Score: score, Docs: u.docs}
		terms = append(terms, t)
		lemmas[t.Text] = lemma
	}
	slices.SortFunc(terms, func(a, b Term) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Text, b.Text))
	})
	var out []Term
	taken := map[string]bool{}
	for _, t := range terms {
		parts := strings.Fields(lemmas[t.Text])
		if slices.ContainsFunc(parts, func(p string) bool { return taken[p] }) {
			continue
		}
		for _, p := range parts {
			taken[p] = true
		}
		if out = append(out, t); len(out) == n {
			break
		}
	}
	return out
}

// form is how a term is written most often.
func (u *usage) form() string {
	best, n := "", 0
	for f, k := range u.forms {
		if k > n || k == n && f < best {
			best, n = f, k
		}
	}
	return best
}

// count finds the words and phrases of texts, by lemma, and how many words there are.
func count(docs []Doc, speakers []string) (terms map[string]*usage, words int) {
	terms = map[string]*usage{}
	note := func(doc int, lemma, form string) {
		u := terms[lemma]
		if u == nil {
			u = &usage{lastDoc: -1, forms: map[string]int{}}
			terms[lemma] = u
		}
		u.count++
		u.forms[form]++
		if u.lastDoc != doc {
			u.docs, u.lastDoc = u.docs+1, doc
		}
	}
	address := map[string]bool{}
	isSpeaker := func(lemma string) bool {
		known, ok := address[lemma]
		if !ok {
			known = slices.ContainsFunc(speakers, func(s string) bool { return strings.EqualFold(s, lemma) || shortens(lemma, s) })
			address[lemma] = known
		}
		return known
	}
	for d, doc := range docs {
		for _, s := range Parse(doc.Text) {
			last, lastForm, lastEnd := "", "", -1
			for i, t := range s.Tokens {
				if i > 0 && t.Start == s.Tokens[i-1].Start {
					last = "" // the second half of a contraction
					continue
				}
				lemma := Lemma(t.Lower)
				if !isTopical(t, lemma) || isSpeaker(lemma) || i+1 < len(s.Tokens) && s.Tokens[i+1].Start == t.Start {
					last = ""
					continue
				}
				words++
				form := written(t)
				note(d, lemma, form)
				if last != "" && doc.Text[lastEnd:t.Start] == " " {
					note(d, last+" "+lemma, lastForm+" "+form)
				}
				last, lastForm, lastEnd = lemma, form, t.End
			}
		}
	}
	return terms, words
}

func isTopical(t Token, lemma string) bool {
	if utf8.RuneCountInString(lemma) < 3 || stopWords[t.Lower] || stopWords[lemma] || weekdays[t.Lower] > 0 {
		return false
	}
	return strings.IndexFunc(t.Lower, unicode.IsDigit) < 0
}

// written is how a word is shown: in lower case, unless its capital is its own.
func written(t Token) string {
	base := strings.TrimSuffix(strings.TrimSuffix(t.Text, "'s"), "’s")
	r, size := utf8.DecodeRuneInString(base)
	if unicode.IsUpper(r) && (t.Inner || strings.IndexFunc(base[size:], unicode.IsUpper) >= 0) {
		return base
	}
	return strings.ToLower(base)
}
