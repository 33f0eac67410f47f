package memory

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// Decaying is what the retention of a memory is computed from.
type Decaying struct {
	ID        uuid.UUID
	Version   int64
	Layer     int // 0: none
	Strength  float64
	Tier      string
	Pinned    bool
	Anchor    time.Time // since when it fades: the last reinforcement, else when it was stored
	Retention *float64  // as stored; nil: never computed
}

// RetentionOf prepares to compute what is left of memories of a user at the time of a transaction, 0 to 1.
type RetentionOf func(tx *storage.Tx, user uuid.UUID) (func(Decaying) float64, error)

// decaying is m as decay sees it.
func (m *memoryRow) decaying() Decaying {
	anchor := m.CreatedAt
	if m.LastReinforcedAt != nil {
		anchor = *m.LastReinforcedAt
	}
	return Decaying{ID: m.ID, Version: m.Version, Layer: m.Layer, Strength: m.InitialStrength, Tier: m.SalienceTier, Pinned: m.Pinned, Anchor: anchor, Retention: m.stored}
}

// fade gives memories the retention that they have now. What is stored is of the last run: it sorts and filters.
func (s *Service) fade(tx *storage.Tx, list ...*memoryRow) error {
	if s.o.Retention == nil {
		return nil
	}
	of := map[uuid.UUID]func(Decaying) float64{}
	for _, m := range list {
		if of[m.user] == nil {
			var err error
			if of[m.user], err = s.o.Retention(tx, m.user); err != nil {
				return err
			}
		}
		now := of[m.user](m.decaying())
		m.Retention = &now
	}
	return nil
}

// fadeHits is fade for memories that were found.
func (s *Service) fadeHits(ctx context.Context, hits []search.Hit) error {
	var ids []uuid.UUID
	for _, h := range hits {
		if h.Kind == KindMemory {
			ids = append(ids, h.ID)
		}
	}
	if s.o.Retention == nil || len(ids) == 0 {
		return nil
	}
	return s.db.Read(ctx, func(tx *storage.Tx) error {
		retention, err := s.o.Retention(tx, identity.UserID(ctx))
		if err != nil {
			return err
		}
		list, err := s.DecayingTx(ctx, tx, uuid.Nil, len(ids), ids...)
		for _, d := range list {
			for i := range hits {
				if hits[i].Kind == KindMemory && hits[i].ID == d.ID {
					now := retention(d)
					hits[i].Retention = &now
				}
			}
		}
		return err
	})
}

// DecayingTx returns memories of the caller that are not in the trash, in the order of their ids:
// at most limit, after an id. With ids it returns those instead.
func (s *Service) DecayingTx(ctx context.Context, tx *storage.Tx, after uuid.UUID, limit int, ids ...uuid.UUID) ([]Decaying, error) {
	var c where
	c.add("+user_id = ?", identity.UserID(ctx)) // by the primary key: an index of the user's would be sorted for each page
	c.add("+deleted_at IS NULL")
	if len(ids) > 0 {
		c.addIDs("id", ids)
		limit = len(ids)
	} else {
		c.add("id > ?", after[:])
	}
	return storage.Collect(tx.Select(`SELECT id, version, coalesce(layer, 0), initial_strength, salience_tier, pinned, coalesce(last_reinforced_at, created_at), retention
		FROM memories WHERE `+c.String()+` ORDER BY id LIMIT ?`, append(c.args, limit)...), func(r storage.Row) (d Decaying, err error) {
		err = r.Scan(&d.ID, &d.Version, &d.Layer, &d.Strength, &d.Tier, &d.Pinned, storage.Time(&d.Anchor), &d.Retention)
		return d, err
	})
}

// TrashTx moves memories of the caller to the trash, and returns those that were not there yet.
func (s *Service) TrashTx(ctx context.Context, tx *storage.Tx, ids []uuid.UUID) ([]uuid.UUID, error) {
	return s.deleteTx(tx, identity.UserID(ctx), ids)
}

// RebaseTx makes memories of the caller fade from a retention, and from now on. Pinned ones keep
// what they have.
func (s *Service) RebaseTx(ctx context.Context, tx *storage.Tx, list []Retained) error {
	if _, err := s.RetainTx(ctx, tx, list); err != nil {
		return err
	}
	for _, r := range list {
		if _, err := tx.Exec(`UPDATE memories SET initial_strength = ?1, last_reinforced_at = ?2, version = version + 1 WHERE id = ?3 AND user_id = ?4 AND version = ?5 AND NOT pinned`,
			r.Retention, tx.Now, r.ID, identity.UserID(ctx), r.Version); err != nil {
			return err
		}
	}
	return nil
}

// Retained is the computed retention of a memory, 0 to 1.
type Retained struct {
	ID        uuid.UUID
	Version   int64 // as read; a memory that has changed since keeps what it has
	Retention float64
}

// RetainTx stores computed retentions of memories of the caller, and returns how many. Nothing
// else of them changes.
func (s *Service) RetainTx(ctx context.Context, tx *storage.Tx, list []Retained) (n int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	rows := make([][3]any, len(list))
	for i, r := range list {
		if !(r.Retention >= 0 && r.Retention <= 1) {
			return 0, invalid("retention", "retention must be between 0 and 1.")
		}
		rows[i] = [3]any{hex.EncodeToString(r.ID[:]), r.Version, r.Retention}
	}
	values, err := json.Marshal(rows)
	if err != nil {
		return 0, err
	}
	kept := map[uuid.UUID]float64{}
	err = tx.Select(`UPDATE memories SET retention = j.value ->> 2, decayed_at = ?2 FROM json_each(?1) j
		WHERE memories.id = unhex(j.value ->> 0) AND version = j.value ->> 1 AND +user_id = ?3 AND +deleted_at IS NULL RETURNING id, retention`, string(values), tx.Now, identity.UserID(ctx)).
		Each(func(r storage.Row) error {
			var id uuid.UUID
			var v float64
			err := r.Scan(&id, &v)
			kept[id] = v
			return err
		})
	s.search.Retain(tx, KindMemory, kept)
	return len(kept), err
}
