package memory

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// Signals are what the salience of a text is computed from; each is 0 when it is not known.
type Signals struct {
	Emotion    float64 `json:"emotion,omitempty"` // strength of feeling, 0 to 1
	Goals      int     `json:"goals,omitempty"`   // goals of the person that it touches
	Shifts     int     `json:"shifts,omitempty"`  // turns in what the person thinks or does
	Confidence float64 `json:"confidence"`        // that the others are right, 0 to 1
}

// Score is the salience of a text from 0 to 1, and the tier that it makes. It is never
// critical: only a person says that.
func Score(g Signals) (score float64, tier string) {
	score = (0.4*unit(g.Emotion) + 0.3*unit(float64(g.Goals)/5) + 0.2*unit(float64(g.Shifts)/3) + 0.1) * unit(g.Confidence)
	switch {
	case score > 0.7:
		return score, "high"
	case score < 0.2:
		return score, "low"
	}
	return score, "medium"
}

// unit brings v into 0 to 1; what is no number is 0.
func unit(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return min(1, max(0, v))
}

func errCritical() error {
	return fault.Deniedf("Only a person can mark a memory as critical. Nothing was changed.")
}

// checkTier gives the value of a tier that the caller may set.
func checkTier(ctx context.Context, field, tier string) (float64, error) {
	value, err := salienceOf(field, tier)
	if err == nil && tier == "critical" && !mayTrust(ctx) {
		err = errCritical()
	}
	return value, err
}

// SetSalience sets the tier of memories. Only a person can set critical.
func (s *Service) SetSalience(ctx context.Context, p SalienceParams) (ItemsResult, error) {
	ids, err := parseIDs(p.ID, p.IDs)
	if err != nil {
		return ItemsResult{}, err
	}
	value, err := checkTier(ctx, "tier", p.Tier)
	if err != nil {
		return ItemsResult{}, err
	}
	return s.changeMany(ctx, ids, undoSalience, func(tx *storage.Tx, m *memoryRow) (any, error) {
		if m.SalienceTier == p.Tier && m.Salience == value {
			return nil, nil
		}
		undo := tierUndo{ID: m.ID, Tier: m.SalienceTier, Salience: m.Salience, Set: p.Tier}
		return undo, s.setTier(tx, m, p.Tier, value)
	})
}

// tierUndo is what the tier of a memory was.
type tierUndo struct {
	ID       uuid.UUID `json:"id"`
	Tier     string    `json:"tier"`
	Salience float64   `json:"salience"`
	Set      string    `json:"set"` // what the act made it
}

func (s *Service) setTier(tx *storage.Tx, m *memoryRow, tier string, value float64) error {
	if _, err := tx.Exec(`UPDATE memories SET salience_tier = ?, salience = ?, updated_at = ? WHERE id = ?`, tier, value, tx.Now, m.ID); err != nil {
		return err
	}
	m.SalienceTier, m.Salience, m.UpdatedAt = tier, value, tx.Now
	return s.search.Put(tx, m.attributes())
}

// Pin pins or unpins memories. Pinning reinforces them.
func (s *Service) Pin(ctx context.Context, p PinParams) (ItemsResult, error) {
	ids, err := parseIDs(p.ID, p.IDs)
	if err != nil {
		return ItemsResult{}, err
	}
	on := p.On == nil || *p.On
	return s.changeMany(ctx, ids, undoPin, func(tx *storage.Tx, m *memoryRow) (any, error) {
		if m.Pinned == on {
			return nil, nil
		}
		was := pinUndo{m.ID, on, m.InitialStrength, m.LastReinforcedAt, m.stored}
		if err := s.setPinned(tx, m, on); err != nil {
			return nil, err
		}
		if on {
			if err := reinforce(tx, m, gainConfirm); err != nil {
				return nil, err
			}
		}
		return was, nil
	})
}

// pinUndo is what an act made the pin of a memory, and what it faded from before.
type pinUndo struct {
	ID        uuid.UUID  `json:"id"`
	Set       bool       `json:"set"`
	Strength  float64    `json:"strength"`
	At        *time.Time `json:"at"`
	Retention *float64   `json:"retention"`
}

// setPinned pins m, or unpins it: then it fades from what it has now.
func (s *Service) setPinned(tx *storage.Tx, m *memoryRow, on bool) error {
	set := ``
	if !on {
		set = `, initial_strength = coalesce(retention, initial_strength), last_reinforced_at = ?2`
	}
	if _, err := tx.Exec(`UPDATE memories SET pinned = ?1, updated_at = ?2`+set+` WHERE id = ?3`, on, tx.Now, m.ID); err != nil {
		return err
	}
	m.Pinned, m.UpdatedAt = on, tx.Now
	return s.search.Put(tx, m.attributes())
}
