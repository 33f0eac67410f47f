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
	Direction string    `json:"direction"` // out: rejected by the hub; in: could not be stored on this device
	TableName string    `json:"tableName"`
	RowID     uuid.UUID `json:"rowId"`
	Title     string    `json:"title"`
	SQLState  string    `json:"sqlState,omitempty"`
	Message   string    `json:"message"`
	Attempts  int       `json:"attempts"`
	CreatedAt time.Time `json:"createdAt"`
}

// DeadLettersResult lists dead letters, oldest first.
type DeadLettersResult struct {
	DeadLetters []DeadLetterInfo `json:"deadLetters"`
}

// DeadLettersChanged is published when a dead letter was added, retried or discarded.
type DeadLettersChanged struct{}

const deadLetterColumns = `op_id, direction, tbl, row_id, sqlstate, message, attempts, created_at`

func scanDeadLetter(row storage.Row, more ...any) (d DeadLetterInfo, err error) {
	err = row.Scan(append([]any{&d.ID, &d.Direction, &d.TableName, &d.RowID, &d.SQLState, &d.Message, &d.Attempts, storage.Time(&d.CreatedAt)}, more...)...)
	return d, err
}

// DeadLetters lists the items that could not be synced, with the reasons.
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

// RetryDeadLetter sends an item that the hub rejected again with the next exchange. It has no
// effect on an item that this device could not store; those are retried automatically.
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
			return s.retryPush(tx, k)
		})
	})
}

func (s *Service) retryPush(tx *storage.Tx, k rowKey) error {
	s.deadLettersChanged(tx)
	o, err := outboxOf(tx, k)
	if err != nil {
		return err
	}
	t, ok := s.table(k.table)
	if o == nil || !ok {
		_, err := tx.Exec(`DELETE FROM sync_dead_letter WHERE direction = 'out' AND tbl = ? AND row_id = ?`, k.table, k.id)
		return err
	}
	return t.retry(tx, k, *o, s.o.Private)
}

// undefinedTable is the SQLSTATE of a push to a table that the hub lacks.
const undefinedTable = "42P01"

// retryRefused sends the items again whose table the hub lacked.
func (s *Service) retryRefused(ctx context.Context) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		keys, err := storage.Collect(tx.Select(`SELECT tbl, row_id FROM sync_dead_letter WHERE direction = 'out' AND sqlstate = ?`, undefinedTable), scanKey)
		if err != nil {
			return err
		}
		for _, k := range keys {
			if err := s.retryPush(tx, k); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Service) deadLettersChanged(tx *storage.Tx) {
	tx.AfterCommit(func() { bus.Publish(s.db.Bus(), s.db.LocalUser().ID, DeadLettersChanged{}) })
}

// DiscardResult reports where the discarded item was written.
type DiscardResult struct {
	Path string `json:"path"` // path on the computer that runs Helix
}

// discarded is the content of the file for a discarded item.
type discarded struct {
	DeadLetterInfo
	// Values are the item's values, as far as this device can decrypt them.
	Values map[string]any `json:"values,omitempty"`
	// Payload is the row as it would have been sent or stored. Its sensitive columns are encrypted.
	Payload json.RawMessage `json:"payload"`
}

// DiscardDeadLetter writes an item that could not be synced to a file and then drops it from the
// dead letters. An outgoing item stays in the local database and is sent again when it next
// changes. An incoming item arrives again when another device next changes it.
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

// version returns the version of a row in a dead letter; nil if this device cannot decrypt it.
func (t table) version(tx *storage.Tx, c Cipher, x discarded) (*Version, error) {
	if x.Direction == "in" {
		v, err := t.hubRow(c, x.RowID, x.Payload)
		if err != nil {
			return nil, nil //nolint:nilerr // the file still has the payload
		}
		return &v, nil
	}
	r, err := t.readRow(tx, x.RowID)
	if r == nil {
		return nil, err
	}
	return &r.Version, err
}

// export writes a discarded item to a new file and returns its path.
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
