package synthesis

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/identity"
	"helix/backend/storage"
)

// sharedEvidence is the minimum Jaccard index of the evidence at which two patterns of the same
// type and subject are the same pattern.
const sharedEvidence = 0.5

// fingerprint identifies a pattern across runs and devices.
func (p *Pattern) fingerprint() string {
	kind := patternKinds[p.Type]
	sum := sha256.Sum256([]byte(strings.Join([]string{kind.detector, p.Type, string(rune('0' + p.Layer)), p.subject, p.core}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// known is a stored pattern to compare new ones with.
type known struct {
	id                            uuid.UUID
	fingerprint, typ, subject     string
	category, status, description string
	engine                        string
	evidence                      []storedEvidence
	measured                      float64
	confirmed                     *bool
	seen                          bool
}

// storedEvidence is evidence in its stored form. Quotes of stored texts are read when they are
// shown, so that a deleted text is no longer quoted.
type storedEvidence struct {
	ID     string  `json:"id"`
	Kind   string  `json:"kind"`
	Parent string  `json:"parent,omitempty"`
	Quote  string  `json:"quote,omitempty"`
	At     int64   `json:"at"` // microseconds
	Weight float64 `json:"weight"`
}

func toStored(list []EvidenceDetail) []storedEvidence {
	out := make([]storedEvidence, len(list))
	for i, e := range list {
		out[i] = storedEvidence{ID: e.ID, Kind: e.Kind, Parent: e.ParentID, At: e.OccurredAt.UnixMicro(), Weight: e.Weight}
		if e.Kind == "conversation" {
			out[i].Quote = e.Quote
		}
	}
	return out
}

func (k *known) ids() map[string]bool {
	out := make(map[string]bool, len(k.evidence))
	for _, e := range k.evidence {
		out[e.ID] = true
	}
	return out
}

// jaccard returns the Jaccard index of two sets of ids.
func jaccard(a map[string]bool, b []string) float64 {
	both := 0
	for _, id := range b {
		if a[id] {
			both++
		}
	}
	if len(a)+len(b) == 0 {
		return 0
	}
	return float64(both) / float64(len(a)+len(b)-both)
}

func (s *Service) readKnown(tx *storage.Tx, user uuid.UUID) ([]*known, error) {
	return storage.Collect(tx.Select(`SELECT id, pattern_id, pattern_type, category, subject, engine, status, description, evidence, measured, user_confirmed
		FROM memory_patterns WHERE user_id = ? AND deleted_at IS NULL ORDER BY id`, user), func(r storage.Row) (*known, error) {
		var k known
		var subject, description, evidence []byte
		if err := r.Scan(&k.id, &k.fingerprint, &k.typ, &k.category, &subject, &k.engine, &k.status, &description, &evidence, &k.measured, &k.confirmed); err != nil {
			return nil, err
		}
		row := s.texts("memory_patterns", k.id)
		k.subject, k.description = row.open("subject", subject), row.open("description", description)
		row.openJSON("evidence", evidence, &k.evidence)
		return &k, row.err
	})
}

// match returns the stored pattern that equals p. rejected means that the person has rejected it.
func match(list []*known, p *Pattern) (same *known, rejected bool) {
	best := 0.0
	for _, k := range list {
		sameKind := k.typ == p.Type && k.subject == p.subject
		var shared float64
		if sameKind || k.status == "rejected" && k.category == patternKinds[p.Type].detector {
			shared = jaccard(k.ids(), p.Evidence)
		}
		if k.status == "rejected" && (k.fingerprint == p.Fingerprint || sameKind && p.subject != "" || shared >= sharedEvidence) {
			return nil, true
		}
		switch {
		case k.seen || !sameKind || k.engine != p.Engine:
		case k.fingerprint == p.Fingerprint:
			same, best = k, 2
		case shared >= sharedEvidence && shared > best:
			same, best = k, shared
		}
	}
	return same, false
}

// confirmedConfidence returns the confidence of a pattern, adjusted for the person's verdict.
func confirmedConfidence(measured float64, confirmed *bool) float64 {
	if confirmed != nil && *confirmed {
		return min(0.99, measured*1.1)
	}
	return measured
}

// store stores all findings of a job in one transaction, and leaves in a what the person will see.
func (s *Service) store(w *work, a *Analysis, ins *Insights, in Input) error {
	return s.db.Write(w.ctx, func(tx *storage.Tx) error {
		*ins = Insights{Texts: ins.Texts, Summary: ins.Summary, Warnings: ins.Warnings, Model: ins.Model, InputTokens: ins.InputTokens, OutputTokens: ins.OutputTokens, CostUSD: ins.CostUSD}
		have, err := s.readKnown(tx, w.user)
		if err != nil {
			return err
		}
		var kept []Pattern
		var ids []uuid.UUID
		for i := range a.Patterns {
			p := a.Patterns[i]
			if !(p.Confidence >= in.Threshold) { // also for NaN
				continue
			}
			k, rejected := match(have, &p)
			switch {
			case rejected:
				continue
			case k == nil:
				k = &known{id: uuid.NewSHA1(s.db.IDSpace(w.user), []byte("pattern "+p.Fingerprint)), fingerprint: p.Fingerprint, typ: p.Type, subject: p.subject, category: patternKinds[p.Type].detector, engine: p.Engine, status: "active"}
				have = append(have, k)
				ins.Created++
			case k.description == p.Description && k.status == "active" && math.Abs(k.measured-p.Confidence) < 1e-9 && sameIDs(k.evidence, p.Evidence):
				ins.Unchanged++
			default:
				ins.Updated++
			}
			k.seen = true
			p.ID, p.Fingerprint, p.Status = k.id, k.fingerprint, "active"
			if k.confirmed != nil && *k.confirmed && k.description != "" {
				p.Description = k.description // a confirmed description is kept
			}
			measured := p.Confidence
			p.Confidence = confirmedConfidence(measured, k.confirmed)
			k.evidence = toStored(p.EvidenceDetail)
			if err := s.writePattern(tx, w, &p, k, measured); err != nil {
				return err
			}
			kept, ids = append(kept, p), append(ids, p.ID)
		}
		a.Patterns = kept
		retired, err := s.retire(tx, have, kept, in, w.p.Engine)
		if err != nil {
			return err
		}
		ids = append(ids, retired...)
		a.Recommendations = nil
		for i := range kept {
			for _, r := range recommend(&kept[i]) {
				if err := s.writeRecommendation(tx, w.user, &r); err != nil {
					return err
				}
				a.Recommendations = append(a.Recommendations, r)
			}
		}
		now := tx.Now
		a.LastUpdated = &now
		if len(ids) > 100 {
			ids = []uuid.UUID{}
		}
		tx.AfterCommit(func() { bus.Publish(tx.Bus(), w.user, PatternsChanged{ids}) })
		return nil
	})
}

func sameIDs(stored []storedEvidence, ids []string) bool {
	return slices.EqualFunc(stored, ids, func(e storedEvidence, id string) bool { return e.ID == id })
}

func (s *Service) writePattern(tx *storage.Tx, w *work, p *Pattern, k *known, measured float64) error {
	row := s.texts("memory_patterns", p.ID)
	args := []any{
		p.ID, w.user, p.Fingerprint, p.Type, patternKinds[p.Type].detector, p.Layer, row.seal("description", p.Description), row.sealJSON("evidence", k.evidence), p.Confidence, measured, compactJSON(p.ConfidenceParts), p.Salience,
		row.seal("subject", p.subject), row.sealJSON("subjects", p.Subjects), row.sealJSON("recommendations", p.Recommendations), compactJSON(p.Series), tx.Now, p.Engine, w.id,
	}
	if row.err != nil {
		return row.err
	}
	_, err := tx.Exec(`INSERT INTO memory_patterns (id, user_id, pattern_id, pattern_type, category, layer, description, evidence, confidence, measured, confidence_parts, salience, subject, subjects,
			recommendations, series, first_detected, last_observed, engine, job_id, created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?17, ?18, ?19, ?17, ?17)
		ON CONFLICT (user_id, pattern_id) DO UPDATE SET description = excluded.description, evidence = excluded.evidence, confidence = excluded.confidence, measured = excluded.measured,
			confidence_parts = excluded.confidence_parts, salience = excluded.salience, subjects = excluded.subjects, recommendations = excluded.recommendations, series = excluded.series,
			last_observed = excluded.last_observed, observation_count = observation_count + 1, status = 'active', superseded_by = NULL, job_id = excluded.job_id, updated_at = excluded.updated_at, deleted_at = NULL`, args...)
	if err != nil {
		return err
	}
	if err := tx.QueryRow(`SELECT first_detected, last_observed, observation_count FROM memory_patterns WHERE id = ?`, p.ID).
		Scan(storage.Time(&p.FirstDetected), storage.Time(&p.LastObserved), &p.ObservationCount); err != nil {
		return err
	}
	id := uuid.NewSHA1(s.db.IDSpace(w.user), []byte("synthesis "+p.Fingerprint))
	result := s.texts("memory_synthesis", id)
	content := result.seal("synthesis_content", p.Description)
	if result.err != nil {
		return result.err
	}
	_, err = tx.Exec(`INSERT INTO memory_synthesis (id, user_id, pattern_type, memory_ids, synthesis_content, confidence_score, fingerprint, job_id, engine, layer, last_observed, created_at, updated_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?11)
		ON CONFLICT (user_id, fingerprint) DO UPDATE SET memory_ids = excluded.memory_ids, synthesis_content = excluded.synthesis_content, confidence_score = excluded.confidence_score,
			job_id = excluded.job_id, last_observed = excluded.last_observed, observation_count = observation_count + 1, updated_at = excluded.updated_at, deleted_at = NULL`,
		id, w.user, patternName(p.Type), compactJSON(p.Evidence), content, p.Confidence, p.Fingerprint, w.id, p.Engine, p.Layer, tx.Now)
	return err
}

// retire removes patterns whose evidence has all been deleted, and marks those that this run did not
// find again although it read all that is left of their evidence: superseded if another pattern has
// taken it over, else stale. Evidence that another device has not sent yet counts as left.
func (s *Service) retire(tx *storage.Tx, have []*known, kept []Pattern, in Input, engine string) (ids []uuid.UUID, err error) {
	read := make(map[string]bool, len(in.Texts))
	for _, t := range in.Texts {
		read[t.ID] = true
	}
	deleted, err := s.deleted(tx, have, read)
	if err != nil {
		return nil, err
	}
	ran := in.detectors()
	for _, k := range have {
		if k.seen || k.status == "rejected" || len(k.evidence) == 0 {
			continue
		}
		partly, left := false, false
		for _, e := range k.evidence {
			partly = partly || !read[e.ID] && !deleted[e.ID]
			left = left || !deleted[e.ID]
		}
		if !left {
			if err := removePattern(tx, k); err != nil {
				return nil, err
			}
			ids = append(ids, k.id)
			continue
		}
		if partly || k.engine != engine || k.status == "superseded" || !ran[k.category] {
			continue
		}
		status, link := "stale", uuid.Nil
		for _, p := range kept {
			if p.Type != k.typ {
				continue
			}
			mine, taken := k.ids(), 0
			for _, id := range p.Evidence {
				if mine[id] {
					taken++
				}
			}
			if 2*taken >= len(mine) {
				status, link = "superseded", p.ID
				break
			}
		}
		if status == k.status {
			continue
		}
		if _, err := tx.Exec(`UPDATE memory_patterns SET status = ?, superseded_by = ?, updated_at = ? WHERE id = ?`, status, link, tx.Now, k.id); err != nil {
			return nil, err
		}
		ids = append(ids, k.id)
	}
	return ids, nil
}

// deleted returns the deleted evidence of the patterns that were not seen.
func (s *Service) deleted(tx *storage.Tx, have []*known, read map[string]bool) (map[string]bool, error) {
	ids := map[uuid.UUID]bool{}
	for _, k := range have {
		for _, e := range k.evidence {
			if id, err := uuid.Parse(e.ID); err == nil && !k.seen && !read[e.ID] {
				ids[id] = true
			}
		}
	}
	out := map[string]bool{}
	for some := range slices.Chunk(slices.Collect(maps.Keys(ids)), 1000) {
		list, err := s.memory.DeletedTx(tx.Context(), tx, some)
		if err != nil {
			return nil, err
		}
		for _, id := range list {
			out[id.String()] = true
		}
	}
	return out, nil
}

// removePattern removes a pattern. It returns with its notes if its evidence is restored and found again.
func removePattern(tx *storage.Tx, k *known) error {
	if _, err := tx.Exec(`UPDATE memory_patterns SET deleted_at = ?1, updated_at = ?1 WHERE id = ?2`, tx.Now, k.id); err != nil {
		return err
	}
	_, err := tx.Exec(`UPDATE memory_synthesis SET deleted_at = ?1, updated_at = ?1 WHERE user_id = ?2 AND fingerprint = ?3`, tx.Now, identity.UserID(tx.Context()), k.fingerprint)
	return err
}

func (s *Service) writeRecommendation(tx *storage.Tx, user uuid.UUID, r *Recommendation) error {
	r.ID = uuid.NewSHA1(s.db.IDSpace(user), []byte("recommendation "+r.PatternID.String()+" "+r.first))
	row := s.texts("synthesis_recommendations", r.ID)
	text := row.seal("recommendation", r.Recommendation)
	if row.err != nil {
		return row.err
	}
	if _, err := tx.Exec(`INSERT INTO synthesis_recommendations (id, user_id, pattern_id, recommendation, category, priority, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET priority = excluded.priority, updated_at = excluded.updated_at WHERE priority <> excluded.priority`,
		r.ID, user, r.PatternID, text, r.Category, r.Priority, tx.Now, tx.Now); err != nil {
		return err
	}
	var stored []byte
	if err := tx.QueryRow(`SELECT recommendation, status, created_at, updated_at FROM synthesis_recommendations WHERE id = ?`, r.ID).
		Scan(&stored, &r.Status, storage.Time(&r.CreatedAt), storage.Time(&r.UpdatedAt)); err != nil {
		return err
	}
	if row.open("recommendation", stored) == r.Recommendation || row.err != nil {
		return row.err
	}
	r.UpdatedAt = tx.Now
	_, err := tx.Exec(`UPDATE synthesis_recommendations SET recommendation = ?, updated_at = ? WHERE id = ?`, text, tx.Now, r.ID)
	return err
}

func micros(us int64) time.Time { return time.UnixMicro(us).UTC() }
