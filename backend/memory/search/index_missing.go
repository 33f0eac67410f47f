package search

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// checkItems numbers what came into the tables from elsewhere, such as an export of another
// installation, and asks for its vectors. Its words are written by CheckWords, which comes next.
func (x *Index) checkItems(ctx context.Context) error {
	missing := false
	for _, part := range kinds {
		var n int
		err := x.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM (`+part.rows+`) r
				WHERE NOT EXISTS (SELECT 1 FROM search_items s WHERE s.kind = ? AND s.item_id = r.id))`, part.name).Scan(&n)
		})
		if err != nil {
			return err
		}
		missing = missing || n > 0
	}
	if !missing {
		return nil
	}
	return x.db.Write(ctx, func(tx *storage.Tx) error {
		var last int64
		if err := tx.QueryRow(`SELECT coalesce(max(item), 0) FROM search_items`).Scan(&last); err != nil {
			return err
		}
		for _, part := range kinds {
			if _, err := tx.Exec(`INSERT INTO search_items (user_id, kind, item_id, parent_id, seq, text_hash, tokens)
				SELECT r.user_id, ?1, r.id, r.parent, r.seq, r.hash, 0 FROM (`+part.rows+`) r
				WHERE NOT EXISTS (SELECT 1 FROM search_items s WHERE s.kind = ?1 AND s.item_id = r.id)`, part.name); err != nil {
				return err
			}
		}
		type numbered struct {
			item int64
			user uuid.UUID
		}
		added, err := storage.Collect(tx.Select(`SELECT item, user_id FROM search_items WHERE item > ? ORDER BY item`, last), func(r storage.Row) (n numbered, err error) {
			err = r.Scan(&n.item, &n.user)
			return n, err
		})
		if err != nil {
			return err
		}
		for _, n := range added {
			if err := x.o.Meaning.Queue(tx, n.item, n.user); err != nil {
				return err
			}
		}
		return nil
	})
}
