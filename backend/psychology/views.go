package psychology

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/synthesis"
)

// View returns a method that lists the entries of a layer by their own time: when it was felt, when
// a goal is due, when a change began, else when the entry was created.
func (s *Service) View(layer int) func(context.Context, ViewParams) (ViewResult, error) {
	return func(ctx context.Context, p ViewParams) (ViewResult, error) {
		out := ViewResult{Entries: []ViewEntry{}}
		if p.Kind != "" {
			if _, err := s.kindOf(layer, p.Kind); err != nil {
				return out, err
			}
		}
		return out, s.db.Read(ctx, func(tx *storage.Tx) error {
			conf, err := settings(tx, identity.UserID(ctx))
			if err != nil {
				return err
			}
			list, err := s.entries(tx, conf, "layer_number = ? AND (? = '' OR kind = ?)", layer, p.Kind, p.Kind)
			if err != nil {
				return err
			}
			for _, e := range list {
				v := ViewEntry{Entry: e, At: e.CreatedAt}
				var d struct{ LastFelt, TargetDate, StartedAt, At, Status string }
				_ = json.Unmarshal(e.Data, &d) // an unreadable entry is listed at its creation time
				for _, day := range []string{d.LastFelt, d.TargetDate, d.StartedAt, d.At} {
					if t, err := time.Parse(time.DateOnly, day); err == nil {
						v.At = t
						v.PastDue = day == d.TargetDate && (d.Status == "" || d.Status == "open" || d.Status == "active") && t.AddDate(0, 0, 1).Before(tx.Now)
					}
				}
				if p.Start != nil && v.At.Before(*p.Start) || p.End != nil && !v.At.Before(*p.End) {
					continue
				}
				out.Entries = append(out.Entries, v)
			}
			slices.SortStableFunc(out.Entries, func(a, b ViewEntry) int { return a.At.Compare(b.At) })
			return nil
		})
	}
}

// proposed maps types of patterns to kinds of entries.
var proposed = map[string]struct {
	layer int
	kind  string
}{
	"goal": {4, "goal"}, "aspiration": {4, "hope"}, "fear": {4, "feared_self"}, "possible_self": {4, "possible_self"}, "value": {4, "value"},
	"relationship": {3, "person"}, "attachment": {3, "person"}, "trust": {3, "person"}, "conflict": {3, "person"}, "support": {3, "person"},
	"emotional_trigger": {2, "emotion"}, "emotional_regulation": {2, "emotion"}, "intensity_pattern": {2, "emotion"}, "emotional_positive": {2, "emotion"}, "emotional_negative": {2, "emotion"},
	"narrative_theme": {1, "narrative"}, "sense_making": {1, "narrative"}, "growth_theme": {1, "narrative"}, "identity_development": {6, "transformation"},
}

func (s *Service) proposal(ctx context.Context, id uuid.UUID) (p synthesis.Pattern, err error) {
	conf, err := s.Settings(ctx, struct{}{})
	switch {
	case err != nil:
		return p, err
	case s.o.Patterns == nil || !conf.Enabled || !conf.Proposals:
		return p, fault.Unavailablef("Proposals are off. Turn them on in the settings of psychology.")
	}
	return s.o.Patterns.Pattern(ctx, synthesis.PatternParams{ID: id})
}

// AcceptProposal creates an entry from a pattern, with its evidence, and confirms the pattern. If there is
// already an entry for a person of that name, its text is not changed and the evidence is linked to it.
func (s *Service) AcceptProposal(ctx context.Context, p ProposalParams) (out Entry, err error) {
	pattern, err := s.proposal(ctx, p.PatternID)
	if err != nil {
		return out, err
	}
	to, ok := proposed[pattern.Type]
	if !ok {
		return out, fault.Invalidf("Patterns of the type %s don't become entries.", pattern.Type)
	}
	data, title, err := proposedData(pattern, to.kind)
	if err != nil {
		return out, err
	}
	kind, err := s.kindOf(to.layer, to.kind)
	if err == nil {
		err = kind.checkData(ctx, data)
	}
	if err != nil {
		return out, err
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		conf, err := settings(tx, identity.UserID(ctx))
		if err != nil {
			return err
		}
		memories, err := s.evidence(tx, pattern)
		if err != nil {
			return err
		}
		there, err := s.entries(tx, conf, "layer_number = ? AND kind = ?", to.layer, to.kind)
		if err != nil {
			return err
		}
		for _, e := range there {
			if e.PatternID != nil && *e.PatternID == p.PatternID {
				return fault.Conflictf("This proposal was accepted already.").WithDetails(e)
			}
		}
		for _, e := range there {
			if e.title() == title && e.Problem == "" {
				out, err = s.upsert(tx, UpsertParams{LayerNumber: to.layer, Kind: to.kind, Data: e.Data, MemoryIDs: append(memories, e.MemoryIDs...), ID: &e.ID}, e.Origin, nil)
				return err
			}
		}
		out, err = s.upsert(tx, UpsertParams{LayerNumber: to.layer, Kind: to.kind, Data: data, MemoryIDs: memories}, "synthesis", &p.PatternID)
		return err
	})
	if err == nil {
		_, err = s.o.Patterns.Feedback(ctx, synthesis.FeedbackParams{ID: p.PatternID, Verdict: "confirm"})
	}
	return out, err
}

// evidence returns the memories of a pattern that still exist.
func (s *Service) evidence(tx *storage.Tx, p synthesis.Pattern) (out []uuid.UUID, err error) {
	var ids []uuid.UUID
	for _, text := range p.Evidence {
		if id, err := uuid.Parse(text); err == nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := s.memory.DecayingTx(tx.Context(), tx, uuid.Nil, len(ids), ids...)
	for _, d := range found {
		out = append(out, d.ID)
	}
	return out, err
}

// proposedData returns the data of the entry for a pattern, which contains only what the pattern states.
func proposedData(p synthesis.Pattern, kind string) (data json.RawMessage, title string, err error) {
	text := strings.ReplaceAll(p.Description, "*", "") // terms are enclosed in asterisks
	title = text
	if len(p.Subjects) > 0 && (kind == "person" || kind == "emotion") {
		title = p.Subjects[0]
	}
	if r := []rune(title); len(r) > 200 {
		title = string(r[:199]) + "…"
	}
	fields := map[string]any{}
	switch kind {
	case "person":
		fields["name"] = title
	case "emotion":
		fields["emotion"], fields["trigger"] = title, text
		if v, ok := p.ConfidenceParts["mean"]; ok && v >= -1 && v <= 1 {
			fields["valence"] = v
		}
	case "narrative":
		fields["title"], fields["summary"] = title, text
	case "transformation":
		fields["title"], fields["after"] = title, text
	default:
		fields["title"], fields["status"] = title, "open"
	}
	data, err = json.Marshal(fields)
	return data, title, err
}

// DismissProposal rejects a pattern, so that it is not proposed again.
func (s *Service) DismissProposal(ctx context.Context, p ProposalParams) (out UndoResult, err error) {
	if _, err := s.proposal(ctx, p.PatternID); err != nil {
		return out, err
	}
	r, err := s.o.Patterns.Feedback(ctx, synthesis.FeedbackParams{ID: p.PatternID, Verdict: "reject"})
	return UndoResult{1, r.UndoToken}, err
}
