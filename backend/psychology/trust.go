package psychology

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

type trustDimension struct {
	name   string
	weight float64
}

// trustDimensions with their weights in the overall trust.
var trustDimensions = []trustDimension{{"competence", 0.20}, {"integrity", 0.25}, {"benevolence", 0.20}, {"predictability", 0.15}, {"vulnerabilitySafety", 0.20}}

type trustStage struct {
	name                      string
	trust                     float64
	interactions, highSalient int
	pace                      float64
}

// trustStages in ascending order. Each requires all three of its minimums.
var trustStages = []trustStage{
	{"pre_attachment", 0, 0, 0, 0.5}, {"early_trust", 0.15, 10, 0, 0.6}, {"attachment_forming", 0.30, 25, 5, 0.75},
	{"secure_attachment", 0.50, 50, 10, 1}, {"deep_secure", 0.70, 100, 20, 1.3}, {"primary_attachment", 0.85, 150, 30, 1.5},
}

const (
	trustStart  = 0.1
	trustStep   = 0.05
	stageMargin = 0.05 // a stage is left only this far below its minimum
)

var tierTrust = map[string]float64{"critical": 1, "high": 0.75, "medium": 0.5, "low": 0.25}

// Trust is how much a person is trusted, each value 0 to 1.
type Trust struct {
	Competence          float64 `json:"competence"`
	Integrity           float64 `json:"integrity"`
	Benevolence         float64 `json:"benevolence"`
	Predictability      float64 `json:"predictability"`
	VulnerabilitySafety float64 `json:"vulnerabilitySafety"`
	Overall             float64 `json:"overall"`
}

// TrustState is the trust in a person that results from interactions. The stage only affects tone
// and proposals; it grants no permission.
type TrustState struct {
	Trust                    Trust  `json:"trust"`
	Stage                    string `json:"stage"`
	Interactions             int    `json:"interactions"`
	HighSalienceInteractions int    `json:"highSalienceInteractions"`

	stage int
	peak  float64
	last  time.Time
}

func newTrust() TrustState {
	t := TrustState{Trust: Trust{trustStart, trustStart, trustStart, trustStart, trustStart, trustStart}, Stage: trustStages[0].name}
	t.peak = t.overall()
	return t
}

func (t *Trust) dimensions() [5]*float64 {
	return [5]*float64{&t.Competence, &t.Integrity, &t.Benevolence, &t.Predictability, &t.VulnerabilitySafety}
}

func (t *TrustState) overall() float64 {
	sum := 0.0
	for i, d := range t.Trust.dimensions() {
		sum += trustDimensions[i].weight * *d
	}
	t.Trust.Overall = min(1, max(0, sum))
	return t.Trust.Overall
}

// apply applies one interaction. Unknown evidence does not change trust.
func (t *TrustState) apply(x interaction) {
	t.Interactions++
	if x.tier == "high" || x.tier == "critical" {
		t.HighSalienceInteractions++
	}
	t.last = x.at
	if x.evidence != nil {
		step := trustStep * tierTrust[x.tier] * trustStages[t.stage].pace * math.Abs(*x.evidence)
		for i, d := range t.Trust.dimensions() {
			if x.dimension != "" && x.dimension != trustDimensions[i].name {
				continue
			}
			if *x.evidence > 0 {
				*d += step * (1 - *d)
			} else {
				*d -= step * *d
			}
			*d = min(1, max(0, *d))
		}
	}
	overall := t.overall()
	t.peak = max(t.peak, overall)
	for t.stage+1 < len(trustStages) && t.reaches(t.stage+1, overall) {
		t.stage++
	}
	for t.stage > 0 && overall < trustStages[t.stage].trust-stageMargin {
		t.stage--
	}
	t.Stage = trustStages[t.stage].name
}

func (t *TrustState) reaches(stage int, overall float64) bool {
	s := trustStages[stage]
	return overall >= s.trust && t.Interactions >= s.interactions && t.HighSalienceInteractions >= s.highSalient
}

// replay computes trust from interactions in chronological order.
func replay(list []interaction) TrustState {
	t := newTrust()
	for _, x := range list {
		t.apply(x)
	}
	return t
}

// faded returns the trust at a time if trust decays: above its initial value it decays by the law
// of layer 3 since the last interaction, to no lower than half its peak.
func (t TrustState) faded(conf Settings, now time.Time) Trust {
	out := t.Trust
	if !conf.TrustDecay || t.last.IsZero() {
		return out
	}
	share := LawOf(3).Retention(1, now.Sub(t.last).Hours()*pace("medium", conf.Rate), 0)
	for _, d := range out.dimensions() {
		if *d > trustStart {
			*d = max(trustStart+(*d-trustStart)*share, min(*d, t.peak/2))
		}
	}
	f := TrustState{Trust: out}
	f.overall()
	return f.Trust
}

type interaction struct {
	id        uuid.UUID
	at        time.Time
	dimension string
	evidence  *float64
	tier      string
}

// interactions returns the interactions with a person in chronological order.
func interactions(tx *storage.Tx, user, person uuid.UUID) ([]interaction, error) {
	return storage.Collect(tx.Select(`SELECT id, at, coalesce(dimension, ''), evidence, salience_tier FROM trust_interactions WHERE user_id = ? AND person_id = ? AND deleted_at IS NULL ORDER BY at, id`, user, person), func(r storage.Row) (x interaction, err error) {
		err = r.Scan(&x.id, storage.Time(&x.at), &x.dimension, &x.evidence, &x.tier)
		return x, err
	})
}

// readInteractions returns interactions of the caller with their notes.
func (s *Service) readInteractions(tx *storage.Tx, where string, args ...any) ([]Interaction, error) {
	return storage.Collect(tx.Select(`SELECT id, person_id, at, coalesce(dimension, ''), evidence, salience_tier, note, memory_id, before, after FROM trust_interactions WHERE user_id = ? AND deleted_at IS NULL AND `+where,
		append([]any{identity.UserID(tx.Context())}, args...)...), func(r storage.Row) (x Interaction, err error) {
		var note []byte
		if err := r.Scan(&x.ID, &x.PersonID, storage.Time(&x.At), &x.Dimension, &x.Evidence, &x.SalienceTier, &note, &x.MemoryID, &x.Before, &x.After); err != nil || len(note) == 0 {
			return x, err
		}
		plain, err := s.db.Keys().Unseal("trust_interactions", "note", x.ID, note)
		x.Note = string(plain)
		return x, err
	})
}

// insertInteraction stores an interaction. An existing one is not changed.
func (s *Service) insertInteraction(tx *storage.Tx, x Interaction) (err error) {
	var note []byte
	if x.Note != "" {
		if note, err = s.db.Keys().Seal("trust_interactions", "note", x.ID, []byte(x.Note)); err != nil {
			return err
		}
	}
	var dimension *string
	if x.Dimension != "" {
		dimension = &x.Dimension
	}
	_, err = tx.Exec(`INSERT INTO trust_interactions (id, user_id, person_id, at, dimension, evidence, salience_tier, note, memory_id, before, after, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)
		ON CONFLICT (id) DO NOTHING`, x.ID, identity.UserID(tx.Context()), x.PersonID, x.At, dimension, x.Evidence, x.SalienceTier, note, x.MemoryID, x.Before, x.After, tx.Now)
	return err
}

// trustOf returns the trust stored in the entry of a person, or nil for other entries.
func trustOf(e Entry) *TrustState {
	if e.Kind != "person" || e.Problem != "" {
		return nil
	}
	t := newTrust()
	if json.Unmarshal(e.Data, &t) != nil {
		return nil
	}
	return &t
}

// RecordInteraction records an interaction with a person and explains its effect. With replaces, it
// corrects an earlier one, and trust is recomputed from the corrected log.
func (s *Service) RecordInteraction(ctx context.Context, p InteractionParams) (out InteractionResult, err error) {
	if _, ok := tierTrust[p.SalienceTier]; !ok {
		return out, fault.InvalidField("salienceTier", fault.CodeInvalid, "The tier is critical, high, medium or low, not %q.", p.SalienceTier)
	}
	if p.Dimension != "" && !slices.ContainsFunc(trustDimensions, func(d trustDimension) bool { return d.name == p.Dimension }) {
		return out, fault.InvalidField("dimension", fault.CodeInvalid, "%q is no dimension of trust.", p.Dimension)
	}
	if e := p.Evidence; e != nil && !(*e >= -1 && *e <= 1) {
		return out, fault.InvalidField("evidence", fault.CodeRange, "evidence must be between -1 and 1, or null when the outcome is not known.")
	}
	if len(p.Note) > maxNote {
		return out, fault.InvalidField("note", fault.CodeRange, "A note has at most 4,000 bytes.")
	}
	return out, s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		conf, err := settings(tx, user)
		if err != nil {
			return err
		}
		person, err := s.one(tx, conf, p.PersonID)
		if err == nil && person.Kind != "person" {
			err = fault.NotFoundf("Person not found.")
		}
		if err != nil {
			return err
		}
		if person.Problem != "" {
			return fault.Conflictf("The entry of this person can't be read. Repair it first. Nothing was changed.")
		}
		if p.At.IsZero() {
			p.At = tx.Now
		}
		if p.At.After(tx.Now.Add(time.Hour)) {
			return fault.InvalidField("at", fault.CodeRange, "An interaction can't be in the future.")
		}
		if p.Replaces != nil {
			r, err := tx.Exec(`UPDATE trust_interactions SET deleted_at = ?1, updated_at = ?1 WHERE id = ?2 AND user_id = ?3 AND person_id = ?4 AND deleted_at IS NULL`, tx.Now, *p.Replaces, user, p.PersonID)
			if err != nil {
				return err
			}
			if n, err := r.RowsAffected(); err != nil || n == 0 {
				return fault.NotFoundf("Interaction not found. Nothing was changed.")
			}
		}
		before, err := interactions(tx, user, p.PersonID)
		if err != nil {
			return err
		}
		was := replay(before)
		x := interaction{storage.NewID(), p.At, p.Dimension, p.Evidence, p.SalienceTier}
		i, _ := slices.BinarySearchFunc(before, x, func(a, b interaction) int {
			if c := a.at.Compare(b.at); c != 0 {
				return c
			}
			return slices.Compare(a.id[:], b.id[:])
		})
		now := replay(slices.Insert(before, i, x))
		if err := s.insertInteraction(tx, Interaction{x.id, p.PersonID, p.At, p.Dimension, p.Evidence, p.SalienceTier, p.Note, p.MemoryID, was.Trust.Overall, now.Trust.Overall}); err != nil {
			return err
		}
		if err := s.storeTrust(tx, person); err != nil {
			return err
		}
		if err := s.reinforce(tx, conf, person, gains["use"]); err != nil {
			return err
		}
		if person, err = s.one(tx, conf, p.PersonID); err != nil {
			return err
		}
		out = InteractionResult{InteractionID: x.id, Person: person.Entry, Before: was.Trust.Overall, After: now.Trust.Overall, Stage: now.Stage, Needs: now.needs()}
		return nil
	})
}

// computedTrust returns the data of a person with the trust computed from the interactions. It
// overwrites trust in the data, which cannot be set directly.
func (s *Service) computedTrust(tx *storage.Tx, person uuid.UUID, data json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	log, err := interactions(tx, identity.UserID(tx.Context()), person)
	if err != nil {
		return nil, err
	}
	t := replay(log)
	for name, v := range map[string]any{"trust": t.Trust, "stage": t.Stage, "interactions": t.Interactions, "highSalienceInteractions": t.HighSalienceInteractions} {
		delete(fields, name)
		if len(log) == 0 {
			continue
		}
		if fields[name], err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	return json.Marshal(fields)
}

// storeTrust stores the computed trust in the entry of a person.
func (s *Service) storeTrust(tx *storage.Tx, person entryRow) error {
	data, err := s.computedTrust(tx, person.ID, person.Data)
	if err != nil {
		return err
	}
	var now bytes.Buffer
	if err := json.Compact(&now, person.Data); err == nil && now.String() == string(data) {
		return nil
	}
	sealed, err := s.db.Keys().SealChanged("psychology_entries", "data", person.ID, person.sealed, data)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE psychology_entries SET data = ?, updated_at = ? WHERE id = ? AND user_id = ?`, sealed, tx.Now, person.ID, identity.UserID(tx.Context()))
	s.changed(tx, identity.UserID(tx.Context()), []int{3}, person.ID)
	return err
}

// needs returns the requirements of the next stage, or nil at the last one.
func (t TrustState) needs() *StageNeeds {
	stage := slices.IndexFunc(trustStages, func(s trustStage) bool { return s.name == t.Stage })
	if stage < 0 || stage+1 == len(trustStages) {
		return nil
	}
	next := trustStages[stage+1]
	return &StageNeeds{Stage: next.name, Trust: max(0, next.trust-t.Trust.Overall), Interactions: max(0, next.interactions-t.Interactions), HighSalienceInteractions: max(0, next.highSalient-t.HighSalienceInteractions)}
}

// TrustMap returns the people with their current trust and the requirements of the next stage, and
// the last interactions of one person.
func (s *Service) TrustMap(ctx context.Context, p TrustMapParams) (TrustMapResult, error) {
	out := TrustMapResult{People: []TrustedPerson{}, Interactions: []Interaction{}}
	return out, s.db.Read(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		conf, err := settings(tx, user)
		if err != nil {
			return err
		}
		list, err := s.entries(tx, conf, "kind = 'person'")
		if err != nil {
			return err
		}
		for _, e := range list {
			t := trustOf(e)
			if t == nil {
				continue
			}
			if conf.TrustDecay {
				log, err := interactions(tx, user, e.ID)
				if err != nil {
					return err
				}
				t.Trust = replay(log).faded(conf, tx.Now)
			}
			out.People = append(out.People, TrustedPerson{Entry: e, Trust: t.Trust, Stage: t.Stage, Needs: t.needs()})
		}
		slices.SortStableFunc(out.People, func(a, b TrustedPerson) int {
			switch {
			case a.Trust.Overall > b.Trust.Overall:
				return -1
			case a.Trust.Overall < b.Trust.Overall:
				return 1
			}
			return 0
		})
		if p.PersonID == nil {
			return nil
		}
		out.Interactions, err = s.readInteractions(tx, "person_id = ? ORDER BY at DESC, id DESC LIMIT 50", *p.PersonID)
		return err
	})
}
