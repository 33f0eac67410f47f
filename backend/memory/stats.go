package memory

import (
	"context"
	"sync"
	"time"

	"helix/backend/identity"
	"helix/backend/storage"
)

// Stats counts the items, excluding the trash. It uses the catalog of search, so the first call
// after the start may wait until that is loaded.
func (s *Service) Stats(ctx context.Context, _ struct{}) (Stats, error) {
	var out Stats
	user := identity.UserID(ctx)
	counts, err := s.search.Count(ctx, user)
	if err != nil {
		return out, err
	}
	out.Counts = counts
	err = s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		for _, c := range []struct {
			dst   *int64
			query string
		}{
			{&out.Conversations, `SELECT count(*) FROM conversations WHERE user_id = ? AND deleted_at IS NULL`},
			{&out.Documents, `SELECT count(*) FROM documents WHERE user_id = ? AND deleted_at IS NULL`},
			{&out.Trash, `SELECT count(*) FROM memories WHERE user_id = ? AND deleted_at IS NOT NULL AND content <> ''`},
		} {
			if err := tx.QueryRow(c.query, user).Scan(c.dst); err != nil {
				return err
			}
		}
		out.IndexBytes, err = s.store.indexBytes(tx)
		return err
	})
	if x := s.index(); x != nil {
		out.VectorBytes = x.Stats().MemoryBytes
	}
	return out, err
}

// wordsSize caches the size of the keyword index. Computing it takes longer than everything else in
// Stats, and it changes slowly.
type wordsSize struct {
	mu    sync.Mutex
	at    time.Time
	bytes int64
}

const wordsSizeAge = time.Minute

// indexBytes returns the size of the keyword index, at most a minute old.
func (s *storeState) indexBytes(tx *storage.Tx) (int64, error) {
	w := &s.words
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); w.at.IsZero() || now.Sub(w.at) > wordsSizeAge {
		if err := tx.QueryRow(`SELECT coalesce(sum(length(block)), 0) FROM search_fts_data`).Scan(&w.bytes); err != nil {
			return 0, err
		}
		w.at = now
	}
	return w.bytes, nil
}
