package search

import (
	"slices"
	"strings"
)

// cues are what a question says about who spoke and when, besides what about. They prefer
// items and exclude none: a question may be wrong about either.
type cues struct {
	speakers map[uint32]bool // names that are meant; nil: any
	spans    []span          // times that are meant; nil: any
}

// CueWeights are how much a cue that fits adds to a score, as a share of it.
type CueWeights struct{ Speaker, Time float64 }

// factor is what a row's score is multiplied by.
func (q *cues) factor(r *row, w CueWeights) float64 {
	f := 1.0
	if q.speakers[r.speaker] {
		f += w.Speaker
	}
	if r.occurred != noTime && slices.ContainsFunc(q.spans, func(s span) bool { return r.occurred >= s.from && r.occurred < s.to }) {
		f *= 1 + w.Time
	}
	return f
}

// speakersIn finds the one speaker whom a query names. A query that names two asks about what
// is between them, and neither is preferred.
func (c *catalog) speakersIn(ws []word) map[uint32]bool {
	in := make(map[string]bool, len(ws))
	for _, w := range ws {
		in[w.token] = true
	}
	named := map[string]bool{}
	out := map[uint32]bool{}
	for id, tokens := range c.speakerTokens {
		for _, t := range tokens {
			if in[t] && !stopWords[t] && !roleWords[t] {
				named[t] = true
				out[uint32(id)] = true
			}
		}
	}
	if len(named) != 1 {
		return nil
	}
	return out
}

// roleWords name no person.
var roleWords = map[string]bool{"user": true, "assistant": true, "human": true, "ai": true, "system": true, "bot": true, "agent": true, "chatgpt": true, "claude": true}

// speakerID gives a speaker a number and remembers the words of the name.
func (c *catalog) speakerID(name string) uint32 {
	id := c.names.id(name)
	for int(id) >= len(c.speakerTokens) {
		var tokens []string
		for _, w := range tokenize(c.names.text[len(c.speakerTokens)]) {
			tokens = append(tokens, strings.Clone(w.token))
		}
		c.speakerTokens = append(c.speakerTokens, tokens)
	}
	return id
}
