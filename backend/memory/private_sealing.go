package memory

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/storage"
)

const (
	sealedMark  = "memory.private" // in meta: the private storage setting that all stored texts conform to
	sealedBatch = 200              // texts per transaction
)

// runSealing converts texts that were stored under the other setting of private storage to the
// current one. The service can read both forms meanwhile.
func (s *Service) runSealing(ctx context.Context) error {
	again := make(chan struct{}, 1)
	defer bus.Subscribe(s.db.Bus(), func(_ uuid.UUID, _ storage.Replaced) {
		select {
		case again <- struct{}{}:
		default:
		}
	})()
	for {
		if err := s.sealAll(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("change the form of stored texts", "private", s.o.Private, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again: // another database, with its own texts
		}
	}
}

func (s *Service) sealAll(ctx context.Context) error {
	want := fmt.Sprint(s.o.Private)
	var have string
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce((SELECT value FROM meta WHERE key = ?), 'false')`, sealedMark).Scan(&have)
	}); err != nil || have == want {
		return err
	}
	if err := s.markSealed(ctx, "partly"); err != nil { // so that a change back before the end is noticed
		return err
	}
	if s.o.Private {
		if err := s.search.CheckWords(ctx); err != nil { // first, because the words expose the text
			return err
		}
	}
	for _, c := range storage.Sealed {
		if !c.Private {
			continue
		}
		id := c.ID
		if id == "" {
			id = "id"
		}
		for last, more := int64(0), true; more; {
			var err error
			if last, more, err = s.sealSome(ctx, c.Table, c.Column, id, last); err != nil {
				return fmt.Errorf("%s.%s: %w", c.Table, c.Column, err)
			}
		}
	}
	if s.o.Private {
		if err := s.wipeFreed(ctx); err != nil {
			return err
		}
	}
	return s.markSealed(ctx, want)
}

func (s *Service) markSealed(ctx context.Context, mark string) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, sealedMark, mark)
		return err
	})
}

// sealSome converts a batch of texts in the other form, from the rows after last. The content is
// unchanged, so nothing is captured for sync. The old bytes in the file are overwritten.
func (s *Service) sealSome(ctx context.Context, table, column, key string, last int64) (_ int64, more bool, err error) {
	other := "text"
	if !s.o.Private {
		other = "blob"
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		type text struct {
			row    int64
			id     uuid.UUID
			stored []byte
		}
		batch, err := storage.Collect(tx.Select(`SELECT rowid, `+key+`, `+column+` FROM `+table+`
			WHERE rowid > ? AND typeof(`+column+`) = ? AND `+column+` <> '' ORDER BY rowid LIMIT ?`, last, other, sealedBatch), func(row storage.Row) (t text, err error) {
			err = row.Scan(&t.row, &t.id, &t.stored)
			return t, err
		})
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return nil
		}
		last, more = batch[len(batch)-1].row, len(batch) == sealedBatch
		if _, err := tx.Exec(`PRAGMA secure_delete = ON`); err != nil {
			return err
		}
		defer tx.Exec(`PRAGMA secure_delete = FAST`) //nolint:errcheck // a failure only makes writes slower
		return tx.WithoutCapture(func() error {
			for _, t := range batch {
				plain := string(t.stored)
				if !s.o.Private {
					if plain, err = s.open(table, column, t.id, t.stored); err != nil {
						return err
					}
				}
				form, err := s.seal(table, column, t.id, plain)
				if err != nil {
					return err
				}
				if _, err := tx.Exec(`UPDATE `+table+` SET `+column+` = ? WHERE rowid = ?`, form, t.row); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return last, more, err
}
