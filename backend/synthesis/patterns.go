package synthesis

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/storage"
)

const (
	listedEvidence = 3  // quotes per pattern in a list
	shownEvidence  = 50 // quotes of a single pattern
	quoteRunes     = 240
	undoAge        = 10 * time.Minute
	maxNote        = 2000
)

// UndoPrefix is the prefix of the tokens for Undo.
const UndoPrefix = "pattern-"

const patternColumns = `id, pattern_id, pattern_type, layer, description, evidence, confidence, confidence_parts, salience, subjects, recommendations, series,
	first_detected, last_observed, observation_count, status, superseded_by, user_confirmed, user_notes, engine`

func (s *Service) scanPattern(r storage.Row) (p Pattern, err error) {
	var description, evidence, subjects, recommendations, notes []byte
	if err = r.Scan(&p.ID, &p.Fingerprint, &p.Type, &p.Layer, &description, &evidence, &p.Confidence, storage.JSON(&p.ConfidenceParts), &p.Salience, &subjects,
		&recommendations, storage.JSON(&p.Series), storage.Time(&p.FirstDetected), storage.Time(&p.LastObserved), &p.ObservationCount, &p.Status, &p.SupersededBy, &p.UserConfirmed, &notes, &p.Engine); err != nil {
		return p, err
	}
	var stored []storedEvidence
	row := s.texts("memory_patterns", p.ID)
	p.Description, p.UserNotes = row.open("description", description), row.open("user_notes", notes)
	row.openJSON("evidence", evidence, &stored)
	row.openJSON("subjects", subjects, &p.Subjects)
	row.openJSON("recommendations", recommendations, &p.Recommendations)
	p.PatternType = patternName(p.Type)
	p.Evidence = make([]string, len(stored))
	for i, e := range stored {
		p.Evidence[i] = e.ID
		at := micros(e.At)
		if i == 0 || at.Before(p.FirstEvidence) {
			p.FirstEvidence = at
		}
		if at.After(p.LastEvidence) {
			p.LastEvidence = at
		}
		p.EvidenceDetail = append(p.EvidenceDetail, EvidenceDetail{ID: e.ID, Kind: e.Kind, ParentID: e.Parent, Quote: e.Quote, OccurredAt: at, Weight: e.Weight})
	}
	return p, row.err
}

// quote sets the quotes of the strongest evidence of patterns, at most n each.
func (s *Service) quote(ctx context.Context, tx *storage.Tx, list []Pattern, n int) error {
	var ids []uuid.UUID
	for i := range list {
		p := &list[i]
		slices.SortStableFunc(p.EvidenceDetail, func(a, b EvidenceDetail) int {
			switch {
			case a.Weight > b.Weight:
				return -1
			case a.Weight < b.Weight:
				return 1
			}
			return 0
		})
		p.EvidenceDetail = p.EvidenceDetail[:min(n, len(p.EvidenceDetail))]
		for _, e := range p.EvidenceDetail {
			if id, err := uuid.Parse(e.ID); err == nil && e.Kind != "conversation" {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, passages, err := s.memory.CorpusTx(ctx, tx, memory.CorpusFilter{IDs: ids})
	if err != nil {
		return err
	}
	texts := make(map[string]string, len(passages))
	for _, m := range passages {
		texts[m.ID.String()] = m.Text
	}
	for i := range list {
		for k := range list[i].EvidenceDetail {
			if e := &list[i].EvidenceDetail[k]; e.Kind != "conversation" {
				e.Quote = excerpt(texts[e.ID], quoteRunes)
			}
		}
	}
	return nil
}

// excerpt returns the beginning of a text on one line.
func excerpt(text string, runes int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= runes {
		return text
	}
	r := []rune(text)[:runes-1]
	if i := strings.LastIndexByte(string(r), ' '); i > runes/2 {
		return string(r)[:i] + "…"
	}
	return string(r) + "…"
}

// patternOrders are the orders of a list. In the order variety, the most certain pattern of each
// type comes first, then the second of each type: otherwise dozens of busy days, which are certain
// but say little, come before everything else.
var patternOrders = map[string]string{
	"": "confidence DESC, created_at DESC, id", "confidence": "confidence DESC, created_at DESC, id",
	"variety":  "row_number() OVER (PARTITION BY pattern_type ORDER BY confidence DESC, created_at DESC, id), confidence DESC, created_at DESC, id",
	"salience": "salience DESC, confidence DESC, id", "recent": "last_observed DESC, confidence DESC, id",
}

// Patterns lists patterns. Rejected and superseded ones are omitted unless their status is requested.
func (s *Service) Patterns(ctx context.Context, p PatternsParams) (PatternsResult, error) {
	out := PatternsResult{}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	out.Limit, out.Offset = p.Limit, p.Offset
	order, ok := patternOrders[p.Sort]
	if !ok {
		return out, fault.InvalidField("sort", fault.CodeInvalid, "The order must be variety, confidence, salience or recent, not %q.", p.Sort)
	}
	where, args := []string{"user_id = ? AND deleted_at IS NULL"}, []any{identity.UserID(ctx)}
	add := func(cond string, arg any) { where, args = append(where, cond), append(args, arg) }
	if p.Layer != 0 {
		if p.Layer < 1 || p.Layer > 7 {
			return out, fault.InvalidField("layer", fault.CodeRange, "The layer must be 1 to 7.")
		}
		add("layer = ?", p.Layer)
	}
	if p.PatternType != "" {
		typ, err := parsePatternType(p.PatternType)
		if err != nil {
			return out, err
		}
		add("pattern_type = ?", typ)
	}
	switch p.Status {
	case "":
		where = append(where, "status IN ('active', 'stale')")
	case "active", "stale", "rejected", "superseded":
		add("status = ?", p.Status)
	default:
		return out, fault.InvalidField("status", fault.CodeInvalid, "The status must be active, stale, rejected or superseded, not %q.", p.Status)
	}
	if math.IsNaN(p.MinConfidence) || p.MinConfidence < 0 || p.MinConfidence > 1 {
		return out, fault.InvalidField("minConfidence", fault.CodeRange, "minConfidence must be between 0 and 1.")
	}
	if p.MinConfidence > 0 {
		add("confidence >= ?", p.MinConfidence)
	}
	cond := strings.Join(where, " AND ")
	return out, s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if p.Query != "" {
			ids, err := s.describedAs(tx, p.Query, cond, args)
			if err != nil {
				return err
			}
			cond, args = cond+` AND id IN (SELECT unhex(value) FROM json_each(?))`, append(args, ids)
		}
		if err = tx.QueryRow(`SELECT count(*) FROM memory_patterns WHERE `+cond, args...).Scan(&out.Total); err != nil {
			return err
		}
		if out.Patterns, err = storage.Collect(tx.Select(`SELECT `+patternColumns+` FROM memory_patterns WHERE `+cond+` ORDER BY `+order+` LIMIT ? OFFSET ?`, append(args, p.Limit, p.Offset)...), s.scanPattern); err != nil {
			return err
		}
		for i := range out.Patterns {
			out.Patterns[i].Series = nil
		}
		return s.quote(ctx, tx, out.Patterns, listedEvidence)
	})
}

// describedAs returns the patterns whose description contains all words of a query, as a JSON list
// of hex ids. Descriptions may be sealed, so they are searched here rather than in SQL.
func (s *Service) describedAs(tx *storage.Tx, query, cond string, args []any) (string, error) {
	words, ids := strings.Fields(strings.ToLower(query)), []string{}
	err := tx.Select(`SELECT id, description FROM memory_patterns WHERE `+cond, args...).Each(func(r storage.Row) error {
		var id uuid.UUID
		var stored []byte
		if err := r.Scan(&id, &stored); err != nil {
			return err
		}
		row := s.texts("memory_patterns", id)
		text := strings.ToLower(row.open("description", stored))
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			ids = append(ids, hex.EncodeToString(id[:]))
		}
		return row.err
	})
	return compactJSON(ids), err
}

func (s *Service) readPattern(tx *storage.Tx, user, id uuid.UUID) (Pattern, error) {
	p, err := s.scanPattern(tx.QueryRow(`SELECT `+patternColumns+` FROM memory_patterns WHERE id = ? AND user_id = ? AND deleted_at IS NULL`, id, user))
	if errors.Is(err, sql.ErrNoRows) {
		return p, fault.NotFoundf("Pattern not found.")
	}
	return p, err
}

// Pattern returns a pattern with its evidence and the series of its chart.
func (s *Service) Pattern(ctx context.Context, p PatternParams) (out Pattern, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		if out, err = s.readPattern(tx, identity.UserID(ctx), p.ID); err != nil {
			return err
		}
		one := []Pattern{out}
		err = s.quote(ctx, tx, one, shownEvidence)
		out = one[0]
		return err
	})
	return out, err
}

// verdict holds the fields of a pattern that feedback changes, as the undo state.
type verdict struct {
	Status    string `json:"status"`
	Confirmed *bool  `json:"confirmed"`
	Notes     string `json:"notes"`
	Token     string `json:"token,omitempty"`
	At        int64  `json:"at,omitempty"`
}

// Feedback records the person's verdict on a pattern. Confirm keeps its description and raises its
// confidence; reject hides it and similar ones in the future; clear undoes both.
func (s *Service) Feedback(ctx context.Context, p FeedbackParams) (FeedbackResult, error) {
	if p.Note != nil && utf8.RuneCountInString(*p.Note) > maxNote {
		return FeedbackResult{}, fault.InvalidField("note", fault.CodeRange, "A note can have at most 2,000 characters.")
	}
	yes, no := true, false
	out := FeedbackResult{UndoToken: UndoPrefix + rand.Text()}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		was, err := s.readPattern(tx, identity.UserID(ctx), p.ID)
		if err != nil {
			return err
		}
		before := verdict{was.Status, was.UserConfirmed, was.UserNotes, out.UndoToken, tx.Now.UnixMicro()}
		now := verdict{Status: was.Status, Confirmed: was.UserConfirmed, Notes: was.UserNotes}
		switch p.Verdict {
		case "confirm":
			now.Status, now.Confirmed = "active", &yes
		case "reject":
			now.Status, now.Confirmed = "rejected", &no
		case "clear":
			now.Confirmed = nil
			if now.Status == "rejected" {
				now.Status = "active"
			}
		default:
			return fault.InvalidField("verdict", fault.CodeInvalid, "The verdict must be confirm, reject or clear, not %q.", p.Verdict)
		}
		if p.Note != nil {
			now.Notes = *p.Note
		}
		return s.setVerdict(tx, p.ID, now, &before, &out.Pattern)
	})
	return out, err
}

func (s *Service) setVerdict(tx *storage.Tx, id uuid.UUID, v verdict, before *verdict, out *Pattern) error {
	user := identity.UserID(tx.Context())
	var measured float64
	if err := tx.QueryRow(`SELECT measured FROM memory_patterns WHERE id = ?`, id).Scan(&measured); err != nil {
		return err
	}
	var confirmedAt any
	if v.Confirmed != nil && *v.Confirmed {
		confirmedAt = tx.Now
	}
	row := s.texts("memory_patterns", id)
	notes, undo := row.seal("user_notes", v.Notes), any(nil)
	if before != nil {
		undo = row.sealJSON("undo", before)
	}
	if row.err != nil {
		return row.err
	}
	if _, err := tx.Exec(`UPDATE memory_patterns SET status = ?, user_confirmed = ?, user_notes = ?, confidence = ?, last_confirmed = coalesce(?, last_confirmed), undo = ?, updated_at = ? WHERE id = ? AND user_id = ?`,
		v.Status, v.Confirmed, notes, confirmedConfidence(measured, v.Confirmed), confirmedAt, undo, tx.Now, id, user); err != nil {
		return err
	}
	p, err := s.readPattern(tx, user, id)
	if err != nil {
		return err
	}
	one := []Pattern{p}
	if err := s.quote(tx.Context(), tx, one, shownEvidence); err != nil {
		return err
	}
	*out = one[0]
	tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, PatternsChanged{[]uuid.UUID{id}}) })
	return nil
}

var errNoUndo = fault.NotFoundf("This can no longer be undone.")

// Undo undoes feedback or a correction of people, once and within ten minutes.
func (s *Service) Undo(ctx context.Context, p memory.UndoParams) (memory.CountResult, error) {
	out := memory.CountResult{Count: 1}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		if n, err := s.undoAliases(tx, identity.UserID(ctx), p.UndoToken); n > 0 || err != nil {
			out.Count = n
			return err
		}
		var id uuid.UUID
		var before verdict
		err := tx.Select(`SELECT id, undo FROM memory_patterns WHERE user_id = ? AND undo IS NOT NULL`, identity.UserID(ctx)).Each(func(r storage.Row) error {
			var x uuid.UUID
			var stored []byte
			if err := r.Scan(&x, &stored); err != nil {
				return err
			}
			var v verdict
			row := s.texts("memory_patterns", x)
			if row.openJSON("undo", stored, &v); v.Token == p.UndoToken {
				id, before = x, v
			}
			return row.err
		})
		if err != nil {
			return err
		}
		if id == uuid.Nil || tx.Now.Sub(micros(before.At)) > undoAge {
			return errNoUndo
		}
		var out Pattern
		return s.setVerdict(tx, id, before, nil, &out)
	})
	if err != nil {
		return memory.CountResult{}, err
	}
	return out, nil
}

var recommendationStatuses = []string{"pending", "acknowledged", "working_on", "completed"}

// Recommendations lists recommendations for patterns that are still valid.
func (s *Service) Recommendations(ctx context.Context, p RecommendationsParams) (RecommendationsResult, error) {
	out := RecommendationsResult{}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	where, args := `r.user_id = ? AND r.deleted_at IS NULL AND p.deleted_at IS NULL AND p.status IN ('active', 'stale')`, []any{identity.UserID(ctx)}
	if p.Status != "" {
		if !slices.Contains(recommendationStatuses, p.Status) {
			return out, fault.InvalidField("status", fault.CodeInvalid, "The status must be pending, acknowledged, working_on or completed, not %q.", p.Status)
		}
		where, args = where+" AND r.status = ?", append(args, p.Status)
	}
	if p.Priority != "" {
		if !slices.Contains([]string{"low", "medium", "high"}, p.Priority) {
			return out, fault.InvalidField("priority", fault.CodeInvalid, "The priority must be low, medium or high, not %q.", p.Priority)
		}
		where, args = where+" AND r.priority = ?", append(args, p.Priority)
	}
	from := ` FROM synthesis_recommendations r JOIN memory_patterns p ON p.id = r.pattern_id WHERE ` + where
	return out, s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if err = tx.QueryRow(`SELECT count(*)`+from, args...).Scan(&out.Total); err != nil {
			return err
		}
		out.Recommendations, err = storage.Collect(tx.Select(`SELECT `+recommendationColumns+from+`
			ORDER BY CASE r.priority WHEN 'high' THEN 0 WHEN 'medium' THEN 1 ELSE 2 END, r.created_at DESC, r.id DESC LIMIT ? OFFSET ?`, append(args, p.Limit, p.Offset)...), s.scanRecommendation)
		return err
	})
}

const recommendationColumns = `r.id, r.pattern_id, r.recommendation, r.category, r.priority, r.status, r.created_at, r.updated_at`

func (s *Service) scanRecommendation(r storage.Row) (x Recommendation, err error) {
	var text []byte
	if err = r.Scan(&x.ID, &x.PatternID, &text, &x.Category, &x.Priority, &x.Status, storage.Time(&x.CreatedAt), storage.Time(&x.UpdatedAt)); err != nil {
		return x, err
	}
	row := s.texts("synthesis_recommendations", x.ID)
	x.Recommendation = row.open("recommendation", text)
	return x, row.err
}

// UpdateRecommendation sets the status of a recommendation.
func (s *Service) UpdateRecommendation(ctx context.Context, p RecommendationParams) (out Recommendation, err error) {
	if !slices.Contains(recommendationStatuses, p.Status) {
		return out, fault.InvalidField("status", fault.CodeInvalid, "The status must be pending, acknowledged, working_on or completed, not %q.", p.Status)
	}
	return out, s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		if _, err := tx.Exec(`UPDATE synthesis_recommendations SET status = ?, updated_at = ? WHERE id = ? AND user_id = ?`, p.Status, tx.Now, p.ID, user); err != nil {
			return err
		}
		out, err = s.scanRecommendation(tx.QueryRow(`SELECT `+recommendationColumns+` FROM synthesis_recommendations r WHERE r.id = ? AND r.user_id = ?`, p.ID, user))
		if errors.Is(err, sql.ErrNoRows) {
			return fault.NotFoundf("Recommendation not found.")
		}
		if err == nil {
			tx.AfterCommit(func() { bus.Publish(tx.Bus(), user, PatternsChanged{[]uuid.UUID{out.PatternID}}) })
		}
		return err
	})
}
