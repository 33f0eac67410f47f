package voice

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const (
	tooClose = 0.05 // a smaller difference of two scores is ambiguous
	unsure   = 0.6  // below this confidence of the recognizer, the risk tier is raised by one
)

// match is a command that is similar to a text.
type match struct {
	command
	score float64
	slots map[string]any
}

// withoutWakeWord removes the user's wake word from the beginning of a text.
func withoutWakeWord(said []word, wakeWord string) []word {
	wake, rest := words(wakeWord), withoutFillers(said)
	if len(rest) > len(wake) && slices.EqualFunc(rest[:len(wake)], wake, func(a, b word) bool { return a.plain == b.plain }) {
		return rest[len(wake):]
	}
	return said
}

// matchWords returns the enabled commands that reach their threshold, best first, and the next best ones.
func matchWords(list []command, said []word, now time.Time) (hits, near []match) {
	if len(said) == 0 || len(said) > maxHeard {
		return nil, nil
	}
	variants := []*heard{hear(withoutFillers(said), now)}
	if len(variants[0].words) < len(said) {
		variants = append(variants, hear(said, now)) // for phrases that begin with a filler
	}
	for i := range list {
		c := &list[i]
		if !c.Enabled || len(c.phrase.parts) == 0 {
			continue
		}
		try := variants
		if !c.phrase.filler {
			try = variants[:1]
		}
		var best *heard
		var f found
		for _, typed := range []bool{true, false} {
			for _, h := range try {
				if best != nil && !typed || 2*h.says(c.phrase) < len(c.phrase.content) {
					continue
				}
				if got, ok := h.match(c.phrase, typed); ok && (best == nil || got.score > f.score) {
					best, f = h, got
				}
			}
		}
		if best == nil || f.score < leastAccept {
			continue
		}
		m := match{command: *c, score: f.score, slots: map[string]any{}}
		for i, slot := range m.Slots {
			v, ok := slot.parse(best.words[f.spans[i][0]:f.spans[i][1]], now)
			if !ok {
				m.Problem = cmp.Or(m.Problem, missingValue(slot))
				continue
			}
			m.slots[slot.Name] = v
		}
		if m.score >= c.TriggerConfidence-1e-9 && best.says(c.phrase) == len(c.phrase.content) {
			hits = append(hits, m)
		} else {
			near = append(near, m)
		}
	}
	for _, l := range [][]match{hits, near} {
		slices.SortStableFunc(l, func(a, b match) int {
			return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.phrase.size, a.phrase.size), bytes.Compare(a.ID[:], b.ID[:]))
		})
	}
	return hits, near
}

func missingValue(s Slot) string {
	switch s.Type {
	case "enum":
		return fmt.Sprintf("Say one of these for %s: %s.", s.Name, strings.Join(s.Values, ", "))
	case "text":
		return fmt.Sprintf("Say what %s is.", s.Name)
	}
	return fmt.Sprintf("Say a %s for %s.", s.Type, s.Name)
}

// decide returns what to do with the matches. Of two phrases that fit equally well, the one with more
// fixed words is meant, unless both have the same slots.
func decide(hits []match) string {
	switch {
	case len(hits) == 0:
		return DecideNone
	case len(hits) > 1 && hits[0].score-hits[1].score < tooClose && (hits[0].phrase.size == hits[1].phrase.size || len(hits[0].Slots) >= len(hits[1].Slots)):
		return DecideAmbiguous
	case hits[0].Problem != "":
		return DecideNone
	case hits[0].RiskTier == RiskHigh:
		return DecideConfirm
	}
	return DecideRun
}

// matchText finds the commands for a text with their risk tiers, and what to do.
func (s *Service) matchText(ctx context.Context, text string, confidence float64) (hits, near []match, decision string, err error) {
	if !utf8.ValidString(text) || len(text) > maxText {
		return nil, nil, "", fault.InvalidField("text", fault.CodeRange, "text has at most %d MiB of UTF-8.", maxText>>20)
	}
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		list, err := s.triggers(tx)
		if err != nil {
			return err
		}
		conf, err := settings(tx, identity.UserID(ctx))
		if err != nil {
			return err
		}
		hits, near = matchWords(list, withoutWakeWord(words(text), conf.WakeWord), time.Now())
		for _, l := range [][]match{hits, near} {
			for i := range min(len(l), maxCandidates) {
				m := &l[i]
				problem := m.Problem
				if m.command, err = oneCommand(tx, m.ID); err != nil {
					return err
				}
				m.Problem = problem
			}
		}
		return nil
	}); err != nil {
		return nil, nil, "", err
	}
	for _, l := range [][]match{hits, near} {
		for i := range min(len(l), maxCandidates) {
			m := &l[i]
			problem := m.Problem
			m.Problem = ""
			if err := s.resolve(ctx, &m.command); err != nil {
				return nil, nil, "", err
			}
			m.Problem = cmp.Or(m.Problem, problem)
			if confidence > 0 && confidence < unsure {
				m.RiskTier = tiers[min(slices.Index(tiers, m.RiskTier)+1, len(tiers)-1)]
			}
		}
	}
	return hits, near, decide(hits), nil
}

func candidates(list []match) []Candidate {
	out := []Candidate{}
	for _, m := range list[:min(len(list), maxCandidates)] {
		out = append(out, Candidate{CommandID: m.ID, Name: m.Name, Score: m.score, Slots: m.slots, RiskTier: m.RiskTier, Problem: m.Problem})
	}
	return out
}

// TestCommand returns what would happen if a text were said. It runs nothing.
func (s *Service) TestCommand(ctx context.Context, p TestCommandParams) (out MatchResult, err error) {
	hits, near, decision, err := s.matchText(ctx, p.Text, 0)
	if err != nil {
		return out, err
	}
	out = MatchResult{Candidates: candidates(append(slices.Clone(hits), near...)), Decision: decision}
	if len(hits) == 0 {
		return out, nil
	}
	out.Best = &out.Candidates[0]
	if hits[0].target.ID == "" || hits[0].Problem != "" {
		return out, nil
	}
	input, err := hits[0].input()
	if err != nil {
		return out, err
	}
	rights, err := s.o.Callables.Rights(ctx, hits[0].target, input)
	out.WouldAsk = err == nil && len(rights.WillAsk) > 0
	return out, err
}

// input returns the input of the target: the parameters of the command with the values of the slots.
// A slot that no parameter mentions becomes a parameter of its own name.
func (m *match) input() (json.RawMessage, error) {
	var params map[string]any
	if err := json.Unmarshal(m.ActionParams, &params); err != nil {
		return nil, fmt.Errorf("parameters of command %s: %w", m.ID, err)
	}
	used := map[string]bool{}
	for k, v := range params {
		params[k] = m.fill(v, used)
	}
	for k, v := range m.slots {
		if _, ok := params[k]; !ok && !used[k] {
			params[k] = v
		}
	}
	return json.Marshal(params)
}

// fill replaces {slot} in the strings of a value. A string that is nothing else becomes the value itself.
func (m *match) fill(v any, used map[string]bool) any {
	switch x := v.(type) {
	case string:
		for k, value := range m.slots {
			mark := "{" + k + "}"
			if !strings.Contains(x, mark) {
				continue
			}
			used[k] = true
			if x == mark {
				return value
			}
		}
		pairs := []string{}
		for k, value := range m.slots {
			pairs = append(pairs, "{"+k+"}", fmt.Sprint(value))
		}
		return strings.NewReplacer(pairs...).Replace(x)
	case []any:
		for i := range x {
			x[i] = m.fill(x[i], used)
		}
	case map[string]any:
		for k := range x {
			x[k] = m.fill(x[k], used)
		}
	}
	return v
}
