package memory

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// Signals are the inputs for the salience of a text. An unknown signal is 0.
type Signals struct {
	Emotion    float64 `json:"emotion,omitempty"` // intensity of emotion, 0 to 1
	Goals      int     `json:"goals,omitempty"`   // number of the person's goals that it relates to
	Shifts     int     `json:"shifts,omitempty"`  // number of changes in the person's thoughts or actions
	Confidence float64 `json:"confidence"`        // confidence in the other signals, 0 to 1
}

// Score returns the salience of a text, 0 to 1, and its tier. The tier is never critical, which
// only a person can set.
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

// unit clamps v to 0 to 1. NaN becomes 0.
func unit(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return min(1, max(0, v))
}

func errCritical() error {
	return fault.Deniedf("Only a person can mark a memory as critical. Nothing was changed.")
}

// checkTier returns the value of a tier, or an error if the caller may not set it.
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

// tierUndo holds the previous tier of a memory.
type tierUndo struct {
	ID       uuid.UUID `json:"id"`
	Tier     string    `json:"tier"`
	Salience float64   `json:"salience"`
	Set      string    `json:"set"` // the tier that was set
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

// pinUndo holds the pin that was set, and the previous base of the decay.
type pinUndo struct {
	ID        uuid.UUID  `json:"id"`
	Set       bool       `json:"set"`
	Strength  float64    `json:"strength"`
	At        *time.Time `json:"at"`
	Retention *float64   `json:"retention"`
}

// setPinned pins m, or unpins it so that it decays from its current retention.
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
