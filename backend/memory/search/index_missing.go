package search

import (
	"context"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// stale returns the condition of items that no longer exist or whose text has changed.
func stale(part kind) string {
	return `kind = ? AND NOT EXISTS (SELECT 1 FROM (` + part.rows + `) r WHERE r.id = search_items.item_id AND r.hash = search_items.text_hash)`
}

// checkItems numbers rows that were not written by this process, such as those of a restored export
// or of another device, and requests their vectors. Rows that were changed or deleted that way lose
// their number. CheckWords, which runs next, indexes the words.
func (x *Index) checkItems(ctx context.Context) error {
	missing := false
	for _, part := range kinds {
		var n int
		err := x.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM (`+part.rows+`) r
				WHERE NOT EXISTS (SELECT 1 FROM search_items s WHERE s.kind = ? AND s.item_id = r.id))
				OR EXISTS (SELECT 1 FROM search_items WHERE `+stale(part)+`)`, part.name, part.name).Scan(&n)
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
			gone, err := storage.Collect(tx.Select(`DELETE FROM search_items WHERE `+stale(part)+` RETURNING item`, part.name), storage.RowTo[int64])
			if err != nil {
				return err
			}
			for _, item := range gone {
				if !x.o.Private {
					if _, err := tx.Exec(`DELETE FROM search_fts WHERE rowid = ?`, item); err != nil {
						return err
					}
				}
				x.o.Meaning.Dropped(tx, item)
			}
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
