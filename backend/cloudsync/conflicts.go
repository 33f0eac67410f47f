package cloudsync

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// ConflictsParams choose conflicts.
type ConflictsParams struct {
	// Status is open, resolved, auto or all; default open. An auto conflict was decided by the
	// later write, and keeps what the other one had.
	Status    string `json:"status,omitempty"`
	TableName string `json:"tableName,omitempty"`
	Limit     int    `json:"limit,omitempty"`
	Offset    int    `json:"offset,omitempty"`
}

// ConflictInfo is one conflict.
type ConflictInfo struct {
	ID        uuid.UUID `json:"id"`
	TableName string    `json:"tableName"`
	RowID     uuid.UUID `json:"rowId"`
	Title     string    `json:"title"` // of the row, or the beginning of its text
	Kind      string    `json:"kind"`
	Strategy  string    `json:"strategy"`
	// Field is the column, or definition: all columns that the definition hash is of.
	Field      string          `json:"field"`
	Base       json.RawMessage `json:"base"`
	Mine       json.RawMessage `json:"mine"`
	Theirs     json.RawMessage `json:"theirs"`
	Status     string          `json:"status"`
	Resolution string          `json:"resolution,omitempty"`
	CreatedAt  time.Time       `json:"createdAt"`
}

// ConflictsResult is one page, the latest first.
type ConflictsResult struct {
	Conflicts []ConflictInfo `json:"conflicts"`
	Total     int            `json:"total"`
}

// ConflictsChanged is published when conflicts came or were resolved.
type ConflictsChanged struct{}

// Conflicts lists what two devices wrote into the same field without knowing of each other.
func (s *Service) Conflicts(ctx context.Context, p ConflictsParams) (r ConflictsResult, err error) {
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 200); err != nil {
		return r, err
	}
	switch p.Status {
	case "":
		p.Status = "open"
	case "open", "resolved", "auto", "all":
	default:
		return r, fault.InvalidField("status", fault.CodeInvalid, "status: %.32q is not one of open, resolved, auto and all.", p.Status)
	}
	r.Conflicts = []ConflictInfo{}
	err = s.loaded(ctx, func() error {
		return s.db.Read(ctx, func(tx *storage.Tx) error {
			const where = ` FROM sync_conflicts WHERE user_id = ?1 AND deleted_at IS NULL AND (?2 = 'all' OR status = ?2) AND (?3 = '' OR table_name = ?3)`
			me := identity.UserID(ctx)
			if err := tx.QueryRow(`SELECT count(*)`+where, me, p.Status, p.TableName).Scan(&r.Total); err != nil {
				return err
			}
			ids, err := storage.Collect(tx.Select(`SELECT id`+where+` ORDER BY created_at DESC, id LIMIT ?4 OFFSET ?5`, me, p.Status, p.TableName, p.Limit, p.Offset), storage.RowTo[uuid.UUID])
			if err != nil {
				return err
			}
			for _, id := range ids {
				c, err := s.conflict(tx, id)
				if err != nil {
					return err
				}
				r.Conflicts = append(r.Conflicts, c)
			}
			return nil
		})
	})
	return r, err
}

var errNoConflict = fault.NotFoundf("Conflict not found.")

// conflict reads one conflict of the caller.
func (s *Service) conflict(tx *storage.Tx, id uuid.UUID) (c ConflictInfo, err error) {
	t, _ := s.table("sync_conflicts")
	r, err := t.readRow(tx, id)
	if err != nil {
		return c, err
	}
	if r == nil || r.user != identity.UserID(tx.Context()) || r.deleted() {
		return c, errNoConflict
	}
	text := func(name string) string { s, _ := r.Values[name].(string); return s }
	raw := func(name string) json.RawMessage {
		if t := text(name); json.Valid([]byte(t)) {
			return json.RawMessage(t)
		}
		return json.RawMessage("null")
	}
	c = ConflictInfo{
		ID: id, TableName: text("table_name"), Field: text("field"), Kind: text("kind"), Strategy: text("strategy"), Status: text("status"), Resolution: text("resolution"),
		Base: raw("base"), Mine: raw("local_value"), Theirs: raw("remote_value"), CreatedAt: time.UnixMicro(r.Created).UTC(),
	}
	if b, ok := r.Values["row_id"].([]byte); ok {
		copy(c.RowID[:], b)
	}
	if of, ok := s.table(c.TableName); ok {
		c.Title, err = of.title(tx, c.RowID)
	}
	return c, err
}

// title is what a person calls a row.
func (t table) title(tx *storage.Tx, id uuid.UUID) (string, error) {
	r, err := t.readRow(tx, id)
	if err != nil || r == nil {
		return "", err
	}
	for _, name := range []string{"name", "title", "content", "text", "description", "layer_name", "alias"} {
		if s, _ := r.Values[name].(string); strings.TrimSpace(s) != "" {
			if words := []rune(strings.Join(strings.Fields(s), " ")); len(words) > 60 {
				return string(words[:60]) + "…", nil
			}
			return s, nil
		}
	}
	return "", nil
}

// ResolveParams decide a conflict.
type ResolveParams struct {
	ConflictID uuid.UUID `json:"conflictId"`
	// Choice is mine, theirs or merged. Of a row that was deleted on one device and edited on
	// another, mine and theirs are what the two did.
	Choice string `json:"choice"`
	// Value is the merged value; only for merged.
	Value json.RawMessage `json:"value,omitempty"`
}

// ResolveResult names the row that was written.
type ResolveResult struct {
	RowID uuid.UUID `json:"rowId"`
}

// Resolve writes the chosen value and closes the conflict, on all devices.
func (s *Service) Resolve(ctx context.Context, p ResolveParams) (r ResolveResult, err error) {
	switch {
	case p.Choice != "mine" && p.Choice != "theirs" && p.Choice != "merged":
		return r, fault.InvalidField("choice", fault.CodeInvalid, "choice: %.32q is not one of mine, theirs and merged.", p.Choice)
	case (p.Choice == "merged") != (len(p.Value) > 0):
		return r, fault.InvalidField("value", fault.CodeInvalid, "Give value with the choice merged, and only then.")
	}
	err = s.loaded(ctx, func() error {
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			c, err := s.conflict(tx, p.ConflictID)
			if err != nil {
				return err
			}
			if c.Status == "resolved" {
				return fault.Conflictf("This conflict is already resolved.")
			}
			value := map[string]json.RawMessage{"mine": c.Mine, "theirs": c.Theirs, "merged": p.Value}[p.Choice]
			if err := s.setField(tx, c, value); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE sync_conflicts SET status = 'resolved', resolution = ?, resolved_at = ?, updated_at = ? WHERE id = ?`, p.Choice, tx.Now, tx.Now, c.ID); err != nil {
				return err
			}
			r.RowID = c.RowID
			tx.AfterCommit(func() { bus.Publish(tx.Bus(), identity.UserID(ctx), ConflictsChanged{}) })
			return nil
		})
	})
	return r, err
}

// setField writes the value of a conflict into its row, as an edit of this device.
func (s *Service) setField(tx *storage.Tx, c ConflictInfo, value json.RawMessage) error {
	t, ok := s.table(c.TableName)
	if !ok {
		return fault.Invalidf("This version of Helix does not know %s.", c.TableName)
	}
	r, err := t.readRow(tx, c.RowID)
	if err != nil {
		return err
	}
	if r == nil || r.user != identity.UserID(tx.Context()) {
		return fault.NotFoundf("The item of this conflict is gone.")
	}
	fields := map[string]any{c.Field: nil}
	if c.Field == unit {
		fields, err = readObject(value)
	} else {
		var v map[string]any
		v, err = readObject(fmt.Appendf(nil, `{"v":%s}`, value))
		fields[c.Field] = v["v"]
	}
	if err != nil {
		return fault.InvalidField("value", fault.CodeInvalid, "value is not a value of %s.", c.Field)
	}
	for name, v := range fields {
		col, ok := t.column(name)
		if !ok || col.Child != "" {
			return fault.InvalidField("value", fault.CodeInvalid, "%s has no field %.64q.", c.TableName, name)
		}
		x, err := localValue(col, v)
		if err != nil {
			return fault.InvalidField("value", fault.CodeInvalid, "value is not a value of %s.", name)
		}
		set := map[string]any{name: x}
		if text, ok := x.(string); ok {
			for _, h := range t.columns {
				if h.HashOf == name {
					set[h.Name] = hashOf(h, text)
				}
			}
		}
		for name, x := range set {
			col, _ := t.column(name)
			if x, err = tx.SealedValue(t.Table, col, c.RowID, x, s.o.Private); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE `+t.Table+` SET `+name+` = ?, updated_at = ? WHERE id = ?`, x, tx.Now, c.RowID); err != nil {
				return err
			}
		}
	}
	return nil
}

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

// DeadLetters lists what could not be synced and why.
func (s *Service) DeadLetters(ctx context.Context, _ struct{}) (r DeadLettersResult, err error) {
	err = s.loaded(ctx, func() error {
		return s.db.Read(ctx, func(tx *storage.Tx) (err error) {
			r.DeadLetters, err = storage.Collect(tx.Select(`SELECT op_id, direction, tbl, row_id, sqlstate, message, attempts, created_at FROM sync_dead_letter ORDER BY created_at, op_id LIMIT 1000`), func(row storage.Row) (d DeadLetterInfo, err error) {
				err = row.Scan(&d.ID, &d.Direction, &d.TableName, &d.RowID, &d.SQLState, &d.Message, &d.Attempts, storage.Time(&d.CreatedAt))
				return d, err
			})
			for i := range r.DeadLetters {
				d := &r.DeadLetters[i]
				if t, ok := s.table(d.TableName); ok && err == nil {
					d.Title, err = t.title(tx, d.RowID)
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

// RetryDeadLetter has an item that the hub refused sent again with the next exchange. What this
// device could not store is tried again by itself.
func (s *Service) RetryDeadLetter(ctx context.Context, p RetryParams) (struct{}, error) {
	return struct{}{}, s.loaded(ctx, func() error {
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			var k rowKey
			var direction string
			err := tx.QueryRow(`SELECT direction, tbl, row_id FROM sync_dead_letter WHERE op_id = ?`, p.ID).Scan(&direction, &k.table, &k.id)
			if errors.Is(err, sql.ErrNoRows) {
				return fault.NotFoundf("No such item.")
			}
			if err != nil || direction == "in" {
				return err
			}
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
