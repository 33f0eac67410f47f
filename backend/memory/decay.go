package memory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
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

// DecayingTx returns memories of the caller that are not in the trash, in the order of their ids:
// at most limit, after an id. With ids it returns those instead.
func (s *Service) DecayingTx(ctx context.Context, tx *storage.Tx, after uuid.UUID, limit int, ids ...uuid.UUID) ([]Decaying, error) {
	var c where
	c.add("user_id = ?", identity.UserID(ctx))
	c.add("deleted_at IS NULL")
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
