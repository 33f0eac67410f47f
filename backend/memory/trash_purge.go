package memory

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
)

const (
	trashAge     = 30 * 24 * time.Hour // unless Options say otherwise
	cleanupEvery = time.Hour
	cleanupBatch = 200 // rows a transaction, so that no write waits for long
)

// runCleanup empties the trash of what is too old, and forgets undo tokens, recalls and
// revisions that no longer count, at start and then every hour.
func (s *Service) runCleanup(ctx context.Context) error {
	t := time.NewTicker(cleanupEvery)
	defer t.Stop()
	if err := s.dropLostVectors(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("forget vectors", "err", err)
	}
	for {
		if err := s.cleanup(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Warn("clean up memory", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// owned is a row and whose it is.
type owned struct{ id, user uuid.UUID }

func (s *Service) cleanup(ctx context.Context, now time.Time) error {
	age := trashAge
	if s.o.TrashAge != nil {
		age = s.o.TrashAge()
	}
	old := now.Add(-age)
	for _, part := range []struct {
		query string
		purge func(tx *storage.Tx, o owned) error
	}{
		{`SELECT id, user_id FROM memories WHERE user_id IN (SELECT id FROM users) AND deleted_at < ? AND content <> '' LIMIT ?`, func(tx *storage.Tx, o owned) error {
			_, err := s.purgeTx(tx, o.user, []uuid.UUID{o.id})
			return err
		}},
		{`SELECT id, user_id FROM conversations WHERE deleted_at < ? AND ` + notPurged[0] + ` LIMIT ?`, s.purgeOwned},
		{`SELECT id, user_id FROM documents WHERE deleted_at < ? AND ` + notPurged[1] + ` LIMIT ?`, s.purgeOwned},
	} {
		for {
			n, err := s.purgeSome(ctx, part.query, old, part.purge)
			if err != nil {
				return err
			}
			if n < cleanupBatch {
				break
			}
		}
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`DELETE FROM memory_undo WHERE created_at < ?`, now.Add(-undoAge)); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM recall_log WHERE at < ?`, now.Add(-recallAge)); err != nil {
			return err
		}
		return tx.WithoutCapture(func() error {
			_, err := tx.Exec(`DELETE FROM memory_revisions WHERE edited_at < ?`, now.Add(-revisionAge))
			return err
		})
	})
}

// dropLostVectors forgets the vectors of rows that retention has removed for good.
func (s *Service) dropLostVectors(ctx context.Context) error {
	for kind, table := range map[string]string{KindMemory: "memories", KindTurn: "conversation_turns", KindChunk: "chunks"} {
		var lost []uuid.UUID
		err := s.db.Read(ctx, func(tx *storage.Tx) error {
			rows, err := tx.Query(`SELECT v.item_id FROM item_vectors v INDEXED BY item_vectors_user
				WHERE v.item_kind = ? AND NOT EXISTS (SELECT 1 FROM `+table+` x WHERE x.id = v.item_id)`, kind)
			if err != nil {
				return err
			}
			lost, err = readIDs(rows)
			return err
		})
		if err != nil {
			return err
		}
		for batch := range slices.Chunk(lost, cleanupBatch) {
			if err := s.db.Write(ctx, func(tx *storage.Tx) error { return purgeVectors(tx, kind, batch...) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// purgeSome purges a batch of what query finds, each for its own user.
func (s *Service) purgeSome(ctx context.Context, query string, old time.Time, purge func(*storage.Tx, owned) error) (n int, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		batch, err := storage.Collect(tx.Select(query, old, cleanupBatch), func(row storage.Row) (o owned, err error) {
			err = row.Scan(&o.id, &o.user)
			return o, err
		})
		if err != nil {
			return err
		}
		for _, o := range batch {
			if err := purge(tx, o); err != nil {
				return err
			}
		}
		n = len(batch)
		return nil
	})
	return n, err
}

func (s *Service) purgeOwned(tx *storage.Tx, o owned) error {
	_, err := s.purgeWhole(tx, o.user, o.id)
	return err
}

// notPurged are the conditions of conversations and of documents that still hold something.
var notPurged = [...]string{
	`(title <> '' OR EXISTS (SELECT 1 FROM conversation_turns p WHERE p.conversation_id = conversations.id))`,
	`(title <> '' OR EXISTS (SELECT 1 FROM chunks p WHERE p.document_id = documents.id))`,
}

// purgeWhole empties a conversation or document that is in the trash: its parts go, and a
// tombstone stays.
func (s *Service) purgeWhole(tx *storage.Tx, user, id uuid.UUID) (int, error) {
	for i, w := range []struct{ table, parts, key, kind, more string }{
		{"conversations", "conversation_turns", "conversation_id", KindTurn, "participants = '[]', started_at = NULL, ended_at = NULL"},
		{"documents", "chunks", "document_id", KindChunk, "occurred_at = NULL"},
	} {
		res, err := tx.Exec(`UPDATE `+w.table+` SET title = '', tags = '[]', metadata = '{}', updated_at = ?, `+w.more+`
			WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL AND `+notPurged[i], tx.Now, id, user)
		if err != nil {
			return 0, err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return 0, err
		}
		if n == 0 {
			continue
		}
		parts, err := partsOf(tx, w.parts, w.key, id)
		if err != nil {
			return 0, err
		}
		if err := s.drop(tx, w.kind, parts...); err != nil {
			return 0, err
		}
		if err := purgeVectors(tx, w.kind, parts...); err != nil {
			return 0, err
		}
		for _, p := range parts {
			if err := purgeRecall(tx, user, w.kind, p); err != nil {
				return 0, err
			}
		}
		changed(tx, user, "purge", id)
		return 1, tx.WithoutCapture(func() error {
			_, err := tx.Exec(`DELETE FROM `+w.parts+` WHERE `+w.key+` = ?`, id)
			return err
		})
	}
	return 0, nil
}

func partsOf(tx *storage.Tx, table, key string, id uuid.UUID) ([]uuid.UUID, error) {
	rows, err := tx.Query(`SELECT id FROM `+table+` WHERE `+key+` = ? ORDER BY seq`, id)
	if err != nil {
		return nil, err
	}
	return readIDs(rows)
}

// readIDs reads a column of ids and closes rows.
func readIDs(rows *sql.Rows) ([]uuid.UUID, error) {
	defer rows.Close()
	var out []uuid.UUID
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, rows.Err()
}
