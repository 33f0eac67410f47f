package search

import (
	"slices"
	"strings"
)

// cues are the speaker and the time that a question mentions. They boost matching items and exclude
// none, because the question may be wrong about either.
type cues struct {
	speakers map[uint32]bool // mentioned speakers; nil: any
	spans    []span          // mentioned times; nil: any
}

// CueWeights are the relative increases of a score for each matching cue.
type CueWeights struct{ Speaker, Time float64 }

// factor returns the factor for a row's score.
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

// speakersIn returns the one speaker whom a query names. A query that names two is about both, so
// neither is preferred.
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

// roleWords are names of roles rather than people.
var roleWords = map[string]bool{"user": true, "assistant": true, "human": true, "ai": true, "system": true, "bot": true, "agent": true, "chatgpt": true, "claude": true}

// speakerID returns the number of a speaker and stores the tokens of a new name.
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
