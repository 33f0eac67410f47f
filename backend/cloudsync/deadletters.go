package cloudsync

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

// DeadLetterInfo is one item that could not be synced.
type DeadLetterInfo struct {
	ID        uuid.UUID `json:"id"`
	Direction string    `json:"direction"` // out: the hub refused it; in: this device could not store it
	TableName string    `json:"tableName"`
	RowID     uuid.UUID `json:"rowId"`
	Title     string    `json:"title"`
	SQLState  string    `json:"sqlState,omitempty"`
	Message   string    `json:"message"`
	Attempts  int       `json:"attempts"`
	CreatedAt time.Time `json:"createdAt"`
}

// DeadLettersResult lists them, the oldest first.
type DeadLettersResult struct {
	DeadLetters []DeadLetterInfo `json:"deadLetters"`
}

// DeadLettersChanged is published when an item could not be synced, or is tried again or discarded.
type DeadLettersChanged struct{}

const deadLetterColumns = `op_id, direction, tbl, row_id, sqlstate, message, attempts, created_at`

func scanDeadLetter(row storage.Row, more ...any) (d DeadLetterInfo, err error) {
	err = row.Scan(append([]any{&d.ID, &d.Direction, &d.TableName, &d.RowID, &d.SQLState, &d.Message, &d.Attempts, storage.Time(&d.CreatedAt)}, more...)...)
	return d, err
}

// DeadLetters lists what could not be synced and why.
func (s *Service) DeadLetters(ctx context.Context, _ struct{}) (r DeadLettersResult, err error) {
	err = s.loaded(ctx, func() error {
		return s.db.Read(ctx, func(tx *storage.Tx) (err error) {
			r.DeadLetters, err = storage.Collect(tx.Select(`SELECT `+deadLetterColumns+` FROM sync_dead_letter ORDER BY created_at, op_id LIMIT 1000`), func(row storage.Row) (DeadLetterInfo, error) {
				return scanDeadLetter(row)
			})
			for i := range r.DeadLetters {
				d := &r.DeadLetters[i]
				t, ok := s.table(d.TableName)
				if !ok || err != nil {
					continue
				}
				var row *localRow
				if row, err = t.readRow(tx, d.RowID); row != nil {
					d.Title = t.title(row)
				}
			}
			return err
		})
	})
	return r, err
}

// RetryParams name a dead letter.
type RetryParams struct {
	ID uuid.UUID `json:"id"`
}

var errNoDeadLetter = fault.NotFoundf("No such item.")

// RetryDeadLetter has an item that the hub refused sent again with the next exchange. What this
// device could not store is tried again by itself.
func (s *Service) RetryDeadLetter(ctx context.Context, p RetryParams) (struct{}, error) {
	return struct{}{}, s.loaded(ctx, func() error {
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			var k rowKey
			var direction string
			err := tx.QueryRow(`SELECT direction, tbl, row_id FROM sync_dead_letter WHERE op_id = ?`, p.ID).Scan(&direction, &k.table, &k.id)
			if errors.Is(err, sql.ErrNoRows) {
				return errNoDeadLetter
			}
			if err != nil || direction == "in" {
				return err
			}
			s.deadLettersChanged(tx)
			o, err := outboxOf(tx, k)
			if err != nil {
				return err
			}
			t, ok := s.table(k.table)
			if o == nil || !ok {
				_, err := tx.Exec(`DELETE FROM sync_dead_letter WHERE op_id = ?`, p.ID)
				return err
			}
			return t.retry(tx, k, *o)
		})
	})
}

func (s *Service) deadLettersChanged(tx *storage.Tx) {
	tx.AfterCommit(func() { bus.Publish(s.db.Bus(), s.db.LocalUser().ID, DeadLettersChanged{}) })
}

// DiscardResult says where the discarded item was written.
type DiscardResult struct {
	Path string `json:"path"` // on the computer that runs Helix
}

// discarded is what the file of a discarded item holds.
type discarded struct {
	DeadLetterInfo
	// Values are the item's, as far as this device can read them.
	Values map[string]any `json:"values,omitempty"`
	// Payload is what was to be sent or stored. Sensitive columns of it are encrypted.
	Payload json.RawMessage `json:"payload"`
}

// DiscardDeadLetter gives up an item that could not be synced, after it has written it to a file. An item of
// this device stays here and is sent again when it changes; of one of another device, the next change
// of it comes.
func (s *Service) DiscardDeadLetter(ctx context.Context, p RetryParams) (r DiscardResult, err error) {
	err = s.loaded(ctx, func() error {
		x, err := s.readDeadLetter(ctx, p.ID)
		if err != nil {
			return err
		}
		if r.Path, err = s.export(x); err != nil {
			return err
		}
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			s.deadLettersChanged(tx)
			_, err := tx.Exec(`DELETE FROM sync_dead_letter WHERE op_id = ?`, p.ID)
			return err
		})
	})
	return r, err
}

func (s *Service) readDeadLetter(ctx context.Context, id uuid.UUID) (x discarded, err error) {
	l, err := s.local(ctx)
	if err != nil {
		return x, err
	}
	var c Cipher
	if l.hub != nil {
		if c, err = s.readKey(ctx, l); err != nil {
			s.o.Logger.Warn("the file of a discarded item holds encrypted values", "err", err)
		}
	}
	return x, s.db.Read(ctx, func(tx *storage.Tx) error {
		var payload []byte
		x.DeadLetterInfo, err = scanDeadLetter(tx.QueryRow(`SELECT `+deadLetterColumns+`, payload FROM sync_dead_letter WHERE op_id = ?`, id), &payload)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoDeadLetter
		}
		if err != nil {
			return err
		}
		x.Payload = payload
		t, ok := s.table(x.TableName)
		if !ok {
			return nil
		}
		v, err := t.version(tx, c, x)
		if err != nil || v == nil {
			return err
		}
		x.Values = map[string]any{}
		for _, col := range t.columns {
			x.Values[col.Name] = wireValue(col, v.Values[col.Name])
		}
		x.Title = t.title(&localRow{Version: *v})
		return nil
	})
}

// version is the version of a row that a dead letter is about; nil when this device cannot read it.
func (t table) version(tx *storage.Tx, c Cipher, x discarded) (*Version, error) {
	if x.Direction == "in" {
		v, err := t.hubRow(c, x.RowID, x.Payload)
		if err != nil {
			return nil, nil //nolint:nilerr // the payload says what it is
		}
		return &v, nil
	}
	r, err := t.readRow(tx, x.RowID)
	if r == nil {
		return nil, err
	}
	return &r.Version, err
}

// export writes a discarded item to a file of its own.
func (s *Service) export(x discarded) (path string, err error) {
	text, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return "", err
	}
	path = filepath.Join(s.o.Exports, "not-synced-"+x.TableName+"-"+x.ID.String()+".json")
	if err = os.MkdirAll(s.o.Exports, 0o700); err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		return "", fault.Unavailablef("Couldn't write %s. Nothing was discarded.", path).WithCause(err)
	}
	return path, nil
}
