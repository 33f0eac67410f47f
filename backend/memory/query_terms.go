package memory

import (
	"slices"
	"strings"
)

// query is a search text as its words are looked up.
type query struct {
	terms   []term
	phrases []string // of more than one word, as they are looked up in FTS5
	stems   map[string]bool
}

// term is one word of a query.
type term struct {
	stem  string
	word  string  // as unicode61 gives it
	count float64 // how often the query says it
}

// maxTerms bounds the work for one query; what is left out is what stands last.
const maxTerms = 64

// parseQuery finds the words of a query. Stop words are left out, unless nothing else is
// there. What stands in double quotes is a phrase. No text is an error: operators of FTS5 are
// words or nothing here.
func parseQuery(text string) query { return readQueryOr(text, stopWords) }

// readQueryOr is parseQuery with another list of words to leave out.
func readQueryOr(text string, leaveOut map[string]bool) query {
	q := readQuery(text, leaveOut)
	if len(q.terms) == 0 && len(q.phrases) == 0 {
		q = readQuery(text, nil)
	}
	return q
}

func readQuery(text string, leaveOut map[string]bool) query {
	q := query{stems: map[string]bool{}}
	at := map[string]int{}
	add := func(w word) {
		if leaveOut[w.token] {
			return
		}
		st := stem(w.token)
		if i, ok := at[st]; ok {
			q.terms[i].count++
			return
		}
		if len(q.terms) == maxTerms {
			return
		}
		at[st] = len(q.terms)
		q.stems[st] = true
		q.terms = append(q.terms, term{st, w.token, 1})
	}
	parts := strings.Split(text, `"`)
	for i, part := range parts {
		ws := tokenize(part)
		quoted := i%2 == 1 && i < len(parts)-1
		if !quoted || len(ws) < 2 || len(q.phrases) == maxTerms {
			for _, w := range ws {
				add(w)
			}
			continue
		}
		tokens := make([]string, len(ws))
		for j, w := range ws {
			tokens[j] = w.token
			q.stems[stem(w.token)] = true
		}
		if p := strings.Join(tokens, " "); !slices.Contains(q.phrases, p) {
			q.phrases = append(q.phrases, p)
		}
	}
	return q
}

// match is the query in the language of FTS5, "" when there is nothing to look for: each token
// and phrase in quotes, joined with OR.
func (q query) match() string {
	parts := make([]string, 0, len(q.terms)+len(q.phrases))
	for _, t := range q.terms {
		parts = append(parts, quoted(t.word))
	}
	for _, p := range q.phrases {
		parts = append(parts, quoted(p))
	}
	return strings.Join(parts, " OR ")
}

// quoted is a string of FTS5. Tokens hold no quotes and no NUL: words leaves them out.
func quoted(s string) string { return `"` + s + `"` }
