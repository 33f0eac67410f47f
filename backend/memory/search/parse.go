package search

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// The modes of search.
const (
	ModeHybrid  = "hybrid"
	ModeKeyword = "keyword"
	ModeVector  = "vector"
)

const (
	maxQuery    = 8 << 10 // bytes
	defaultHits = 10
	maxHits     = 100
)

// query is a validated request with its parsed text.
type query struct {
	text string
	queryTerms
	spans   []span // times that the text mentions
	asked   time.Time
	limit   int
	mode    string
	filters *Filters
	turns   bool
	priors  bool
	lambda  float64 // below 0: no MMR
	min     float64
	explain bool
	facets  bool
	tuning  *Tuning
	except  uuid.UUID // the item to which similar ones are searched
	vec     []float32 // the vector to search for, if it is not that of text
}

// parse validates a request and parses its text.
func parse(p Params, t *Tuning) (*query, error) {
	q := &query{text: p.Query, asked: time.Now(), limit: cmp.Or(p.Limit, defaultHits), mode: cmp.Or(p.Mode, ModeHybrid), filters: p.Filters,
		turns: p.IncludeTurns == nil || *p.IncludeTurns, priors: p.Priors == nil || *p.Priors, lambda: -1, min: p.MinScore, tuning: t}
	if len(p.Query) > maxQuery {
		return nil, fault.Invalidf("The query is longer than 8 KiB.")
	}
	if q.limit < 1 || q.limit > maxHits {
		return nil, fault.Invalidf("limit is 1 to 100")
	}
	if !slices.Contains([]string{ModeHybrid, ModeKeyword, ModeVector}, q.mode) {
		return nil, fault.Invalidf("mode is hybrid, keyword or vector")
	}
	if math.IsNaN(p.MinScore) || p.MinScore < 0 {
		return nil, fault.Invalidf("minScore is 0 or more")
	}
	if p.MMR != nil {
		q.lambda = 0.7
		if p.MMR.Lambda != nil {
			q.lambda = *p.MMR.Lambda
		}
		if !(q.lambda >= 0 && q.lambda <= 1) {
			return nil, fault.Invalidf("mmr.lambda is 0 to 1")
		}
	}
	if err := q.filters.Check(); err != nil {
		return nil, err
	}
	q.queryTerms = termsOf(p.Query, !t.KeepStopWords)
	q.spans = spansIn(p.Query, q.words, q.asked)
	return q, nil
}

// queryTerms are the words of a text as they are looked up.
type queryTerms struct {
	words   []word
	terms   []term
	phrases []string // of several words, as looked up in FTS5
	stems   map[string]bool
}

// term is one word of a query.
type term struct {
	stem  string
	word  string  // as unicode61 tokenizes it
	count float64 // how often it occurs in the query
}

// maxTerms limits the work for one query. Terms beyond it are ignored.
const maxTerms = 64

// termsOf extracts the terms of a text. With skipStopWords, stop words are left out unless the text
// has no other words. Text in double quotes is a phrase. Every text is valid: operators of FTS5
// have no special meaning here.
func termsOf(text string, skipStopWords bool) queryTerms {
	q := queryTerms{words: tokenize(text)}
	if skipStopWords {
		q.read(text, stopWords)
	}
	if len(q.terms) == 0 && len(q.phrases) == 0 {
		q.read(text, nil)
	}
	return q
}

// read splits the words of text into terms and phrases.
func (q *queryTerms) read(text string, leaveOut map[string]bool) {
	q.stems = map[string]bool{}
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
	rest, end := q.words, 0
	for i, part := range parts {
		end += len(part)
		n := 0
		for n < len(rest) && rest[n].end <= end {
			n++
		}
		var ws []word
		ws, rest = rest[:n], rest[n:]
		end += len(`"`)
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
}

// FTSQuery converts a text to the query language of FTS5: each token and phrase quoted, joined with
// OR. It returns "" if the text has no words.
func FTSQuery(text string, skipStopWords bool) string {
	q := termsOf(text, skipStopWords)
	parts := make([]string, 0, len(q.terms)+len(q.phrases))
	for _, t := range q.terms {
		parts = append(parts, quoted(t.word))
	}
	for _, p := range q.phrases {
		parts = append(parts, quoted(p))
	}
	return strings.Join(parts, " OR ")
}

// quoted returns a string literal of FTS5. Tokens contain neither quotes nor NUL, because
// tokenize drops them.
func quoted(s string) string { return `"` + s + `"` }
