package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// Decaying holds the fields that the retention of a memory is computed from.
type Decaying struct {
	ID        uuid.UUID
	Version   int64
	Layer     int // 0: none
	Strength  float64
	Tier      string
	Pinned    bool
	Anchor    time.Time // when the decay began: the last reinforcement, else the creation
	Retention *float64  // as stored; nil: never computed
	Row       int64     // rowid, valid within the transaction
}

// RetentionOf returns a function that computes the retention of a user's memories, 0 to 1, at the
// time of the transaction.
type RetentionOf func(tx *storage.Tx, user uuid.UUID) (func(Decaying) float64, error)

// decaying returns the fields of m that decay is computed from.
func (m *memoryRow) decaying() Decaying {
	anchor := m.CreatedAt
	if m.LastReinforcedAt != nil {
		anchor = *m.LastReinforcedAt
	}
	return Decaying{ID: m.ID, Version: m.Version, Layer: m.Layer, Strength: m.InitialStrength, Tier: m.SalienceTier, Pinned: m.Pinned, Anchor: anchor, Retention: m.stored}
}

// fade sets the current retention of memories. The stored value is that of the last run and is used
// only to sort and filter.
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

// fadeHits is fade for search hits.
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

// DecayingTx returns up to limit memories of the caller that are not in the trash, ordered by id,
// starting after the given id. If ids is not empty it returns those memories instead.
func (s *Service) DecayingTx(ctx context.Context, tx *storage.Tx, after uuid.UUID, limit int, ids ...uuid.UUID) ([]Decaying, error) {
	var c where
	c.add("+user_id = ?", identity.UserID(ctx)) // by the primary key: with the user's index SQLite would sort for every page
	c.add("+deleted_at IS NULL")
	if len(ids) > 0 {
		c.addIDs("id", ids)
		limit = len(ids)
	} else {
		c.add("id > ?", after[:])
	}
	return storage.Collect(tx.Select(`SELECT id, version, coalesce(layer, 0), initial_strength, salience_tier, pinned, coalesce(last_reinforced_at, created_at), retention, rowid
		FROM memories WHERE `+c.String()+` ORDER BY id LIMIT ?`, append(c.args, limit)...), func(r storage.Row) (d Decaying, err error) {
		err = r.Scan(&d.ID, &d.Version, &d.Layer, &d.Strength, &d.Tier, &d.Pinned, storage.Time(&d.Anchor), &d.Retention, &d.Row)
		return d, err
	})
}

// TextsTx returns the texts of the given memories of the caller by id. Memories in the trash are omitted.
func (s *Service) TextsTx(ctx context.Context, tx *storage.Tx, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	var c where
	c.addIDs("id", ids)
	c.add("+user_id = ? AND +deleted_at IS NULL", identity.UserID(ctx))
	out := make(map[uuid.UUID]string, len(ids))
	return out, tx.Select(`SELECT id, content FROM memories WHERE `+c.String(), c.args...).Each(func(r storage.Row) (err error) {
		var id uuid.UUID
		var content []byte
		if err = r.Scan(&id, &content); err == nil {
			out[id], err = s.open("memories", "content", id, content)
		}
		return err
	})
}

// TrashTx moves memories of the caller to the trash and returns the ids of those it moved.
func (s *Service) TrashTx(ctx context.Context, tx *storage.Tx, ids []uuid.UUID) ([]uuid.UUID, error) {
	return s.deleteTx(tx, identity.UserID(ctx), ids)
}

// RebaseTx makes memories of the caller decay from the given retention, starting now. Pinned
// memories are not changed.
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
	Version   int64 // as read; a memory with a newer version is skipped
	Row       int64 // rowid, as read in this transaction
	Retention float64
}

// digits is the width of any version or rowid in decimal.
const digits = 19

// RetainTx stores computed retentions of memories of the caller and returns the number of rows
// updated. It changes no other column but decayed_at.
func (s *Service) RetainTx(ctx context.Context, tx *storage.Tx, list []Retained) (n int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	// The retentions are one JSON array; the ids, rowids and versions are passed beside it as
	// fixed-width strings. Compared with a JSON array per memory, this and the lookup by rowid save
	// a third of the time.
	retentions, ids := make([]float64, len(list)), make([]byte, 0, 16*len(list))
	rows, versions := make([]byte, 0, digits*len(list)), make([]byte, 0, digits*len(list))
	for i, r := range list {
		if !(r.Retention >= 0 && r.Retention <= 1) {
			return 0, invalid("retention", "retention must be between 0 and 1.")
		}
		retentions[i], ids = r.Retention, append(ids, r.ID[:]...)
		rows, versions = fmt.Appendf(rows, "%0*d", digits, r.Row), fmt.Appendf(versions, "%0*d", digits, r.Version)
	}
	values, err := json.Marshal(retentions)
	if err != nil {
		return 0, err
	}
	res, err := tx.Exec(`UPDATE memories SET retention = j.value, decayed_at = ?2 FROM json_each(?1) j
		WHERE memories.rowid = CAST(substr(?5, ?7 * j.key + 1, ?7) AS INTEGER) AND +memories.id = substr(?4, 16 * j.key + 1, 16) AND version = CAST(substr(?6, ?7 * j.key + 1, ?7) AS INTEGER)
			AND +user_id = ?3 AND +deleted_at IS NULL`, string(values), tx.Now, identity.UserID(ctx), ids, rows, versions, digits)
	if err != nil {
		return 0, err
	}
	kept := make(map[uuid.UUID]float64, len(list))
	for _, r := range list {
		kept[r.ID] = r.Retention
	}
	if changed, err := res.RowsAffected(); err != nil || changed < int64(len(list)) {
		if err != nil {
			return 0, err
		}
		for _, r := range list {
			var stored bool
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM memories WHERE id = ? AND retention = ? AND decayed_at = ?)`, r.ID, r.Retention, tx.Now).Scan(&stored); err != nil {
				return 0, err
			}
			if !stored {
				delete(kept, r.ID)
			}
		}
	}
	s.search.Retain(tx, KindMemory, kept)
	return len(kept), nil
}
