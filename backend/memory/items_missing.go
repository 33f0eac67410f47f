package memory

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/storage"
)

// initItems has search look at its tables again when storage has changed them by itself.
func (s *Service) initItems() {
	cancel := bus.Subscribe(s.db.Bus(), func(_ uuid.UUID, c storage.Changed) {
		if slices.ContainsFunc(searchable, func(part searchablePart) bool { return part.table == c.Table }) {
			s.search.reset()
		}
	})
	s.closing = append(s.closing, func() error { cancel(); return nil })
}

type searchablePart struct{ kind, table, rows string }

// searchable are the tables whose rows are found, each with the rows that should be.
var searchable = []searchablePart{
	{KindMemory, "memories", `SELECT m.user_id AS user_id, m.id AS id, NULL AS parent, NULL AS seq, m.content_hash AS hash FROM memories m WHERE m.deleted_at IS NULL`},
	{KindTurn, "conversation_turns", `SELECT t.user_id AS user_id, t.id AS id, t.conversation_id AS parent, t.seq AS seq, t.content_hash AS hash FROM conversation_turns t JOIN conversations c ON c.id = t.conversation_id
		WHERE t.deleted_at IS NULL AND c.deleted_at IS NULL`},
	{KindChunk, "chunks", `SELECT k.user_id AS user_id, k.id AS id, k.document_id AS parent, k.seq AS seq, k.content_hash AS hash FROM chunks k JOIN documents d ON d.id = k.document_id
		WHERE k.deleted_at IS NULL AND d.deleted_at IS NULL`},
}

// checkItems numbers what came into the tables from elsewhere, such as an export of another
// installation, and asks for its vectors. Its words are written by checkWords, which comes next.
func (s *Service) checkItems(ctx context.Context) error {
	missing := false
	for _, part := range searchable {
		var n int
		err := s.db.Read(ctx, func(tx *storage.Tx) error {
			return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM (`+part.rows+`) r
				WHERE NOT EXISTS (SELECT 1 FROM search_items s WHERE s.kind = ? AND s.item_id = r.id))`, part.kind).Scan(&n)
		})
		if err != nil {
			return err
		}
		missing = missing || n > 0
	}
	if !missing {
		return nil
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		var last int64
		if err := tx.QueryRow(`SELECT coalesce(max(item), 0) FROM search_items`).Scan(&last); err != nil {
			return err
		}
		for _, part := range searchable {
			if _, err := tx.Exec(`INSERT INTO search_items (user_id, kind, item_id, parent_id, seq, text_hash, tokens)
				SELECT r.user_id, ?1, r.id, r.parent, r.seq, r.hash, 0 FROM (`+part.rows+`) r
				WHERE NOT EXISTS (SELECT 1 FROM search_items s WHERE s.kind = ?1 AND s.item_id = r.id)`, part.kind); err != nil {
				return err
			}
		}
		items, users, err := numberedAfter(tx, last)
		if err != nil {
			return err
		}
		for i, item := range items {
			if err := s.queueVector(tx, item, users[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func numberedAfter(tx *storage.Tx, last int64) (items []int64, users []uuid.UUID, err error) {
	err = tx.Select(`SELECT item, user_id FROM search_items WHERE item > ? ORDER BY item`, last).Each(func(row storage.Row) error {
		var item int64
		var user uuid.UUID
		if err := row.Scan(&item, &user); err != nil {
			return err
		}
		items, users = append(items, item), append(users, user)
		return nil
	})
	return items, users, err
}
