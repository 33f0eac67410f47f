package cloudsync

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// ResolveParams decide a conflict.
type ResolveParams struct {
	ConflictID uuid.UUID `json:"conflictId"`
	// Choice is mine, theirs, both or merged. If one device deleted the row and the other edited
	// it, mine and theirs are the deletion and the edit. With both, the row keeps mine and a second
	// row gets theirs.
	Choice string `json:"choice"`
	// Value is the merged value; only for the choice merged.
	Value json.RawMessage `json:"value,omitempty"`
}

// ResolveResult identifies the row that was written.
type ResolveResult struct {
	RowID uuid.UUID `json:"rowId"`
	// NewRowID is the id of the second row; only for the choice both.
	NewRowID *uuid.UUID `json:"newRowId,omitempty"`
	// UndoToken undoes the resolution with sync.undo_resolve; valid for ten minutes.
	UndoToken string `json:"undoToken"`
}

const resolveAct = "sync.resolve"

// resolveUndo is what is needed to undo a resolution. The values are encrypted.
type resolveUndo struct {
	Conflict uuid.UUID  `json:"conflict"`
	Status   string     `json:"status"`
	New      *uuid.UUID `json:"new,omitempty"`
	Before   string     `json:"before"` // the overwritten columns, in base64
	After    string     `json:"after"`
}

// Resolve writes the chosen value and closes the conflict on all devices.
func (s *Service) Resolve(ctx context.Context, p ResolveParams) (r ResolveResult, err error) {
	switch {
	case p.Choice != "mine" && p.Choice != "theirs" && p.Choice != "both" && p.Choice != "merged":
		return r, fault.InvalidField("choice", fault.CodeInvalid, "choice: %.32q is not one of mine, theirs, both and merged.", p.Choice)
	case (p.Choice == "merged") != (len(p.Value) > 0):
		return r, fault.InvalidField("value", fault.CodeInvalid, "Give value with the choice merged, and only then.")
	}
	err = s.loaded(ctx, func() error {
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			r = ResolveResult{}
			c, err := s.openConflict(tx, p.ConflictID)
			if err != nil {
				return err
			}
			value := map[string]json.RawMessage{"mine": c.Mine, "theirs": c.Theirs, "both": c.Mine, "merged": p.Value}[p.Choice]
			values, err := c.values(value)
			if err != nil {
				return err
			}
			undo := resolveUndo{Conflict: c.ID, Status: c.Status}
			if p.Choice == "both" {
				if r.NewRowID, err = s.keepBoth(tx, c); err != nil {
					return err
				}
				undo.New = r.NewRowID
			}
			before := map[string]any{}
			for name := range values {
				before[name] = c.item.Values[name]
			}
			if undo.Before, err = c.seal(tx, before); err != nil {
				return err
			}
			if undo.After, err = c.seal(tx, values); err != nil {
				return err
			}
			if err := s.setValues(tx, c, values); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE sync_conflicts SET status = 'resolved', resolution = ?, resolved_at = ?, updated_at = ? WHERE id = ?`, c.side(p.Choice), tx.Now, tx.Now, c.ID); err != nil {
				return err
			}
			r.RowID = c.RowID
			r.UndoToken, err = tx.KeepUndo(identity.UserID(ctx), resolveAct, undo)
			s.resolved(tx, c)
			return err
		})
	})
	return r, err
}

// UndoResolveParams hold the token of a resolution.
type UndoResolveParams struct {
	UndoToken string `json:"undoToken"`
}

// UndoResolve reopens a conflict and restores the item's previous values. It fails if the item has
// changed since.
func (s *Service) UndoResolve(ctx context.Context, p UndoResolveParams) (r ResolveResult, err error) {
	err = s.loaded(ctx, func() error {
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			act, state, err := tx.TakeUndo(identity.UserID(ctx), p.UndoToken)
			if err != nil {
				return err
			}
			var u resolveUndo
			if act != resolveAct {
				return fault.NotFoundf("This can no longer be undone.")
			}
			if err := json.Unmarshal(state, &u); err != nil {
				return err
			}
			c, err := s.conflict(tx, u.Conflict)
			if err != nil {
				return err
			}
			before, err := c.unseal(tx, u.Before)
			if err != nil {
				return err
			}
			after, err := c.unseal(tx, u.After)
			if err != nil {
				return err
			}
			if c.item == nil || c.Status != "resolved" || !c.item.has(after) {
				return fault.Conflictf("The item has changed since, so this can no longer be undone.")
			}
			if err := s.setValues(tx, c, before); err != nil {
				return err
			}
			if u.New != nil {
				if _, err := tx.Exec(`UPDATE `+c.TableName+` SET deleted_at = ?, updated_at = ? WHERE id = ?`, tx.Now, tx.Now, *u.New); err != nil {
					return err
				}
			}
			if _, err := tx.Exec(`UPDATE sync_conflicts SET status = ?, resolution = NULL, resolved_at = NULL, updated_at = ? WHERE id = ?`, u.Status, tx.Now, c.ID); err != nil {
				return err
			}
			r.RowID = c.RowID
			s.resolved(tx, c)
			return nil
		})
	})
	return r, err
}

// openConflict reads a conflict that can be resolved.
func (s *Service) openConflict(tx *storage.Tx, id uuid.UUID) (conflict, error) {
	c, err := s.conflict(tx, id)
	switch {
	case err != nil:
	case c.Status == "resolved":
		names, err := deviceNames(tx)
		if err != nil {
			return c, err
		}
		if name := names[c.resolvedBy]; name != "" {
			return c, fault.Conflictf("This conflict is already resolved on %s.", name)
		}
		return c, fault.Conflictf("This conflict is already resolved.")
	case c.of.Table == "":
		return c, fault.Invalidf("This version of Helix does not know %s.", c.TableName)
	case c.item == nil || c.item.user != identity.UserID(tx.Context()):
		return c, fault.NotFoundf("The item of this conflict is gone.")
	}
	return c, err
}

// resolved publishes the changes to the item and the conflict after the commit.
func (s *Service) resolved(tx *storage.Tx, c conflict) {
	user := identity.UserID(tx.Context())
	tx.AfterCommit(func() {
		bus.Publish(tx.Bus(), user, storage.Changed{Table: c.TableName, Many: true})
		bus.Publish(tx.Bus(), user, Applied{Rows: 1})
		bus.Publish(tx.Bus(), user, ConflictsChanged{})
	})
}

// has reports whether a row has the given values. When it was deleted does not matter.
func (r *localRow) has(values map[string]any) bool {
	for name, v := range values {
		if !equal(v, r.Values[name]) && (name != deletedAt || (v == nil) != !r.deleted()) {
			return false
		}
	}
	return true
}

// values converts a value of a conflict to the columns that it covers, as SQLite stores them,
// including the hashes of texts.
func (c conflict) values(value json.RawMessage) (map[string]any, error) {
	bad := func() error {
		return fault.InvalidField("value", fault.CodeInvalid, "value is not a value of %s.", c.Field)
	}
	fields, err := map[string]any{}, error(nil)
	if c.Field == unit {
		fields, err = readObject(value)
	} else {
		var v map[string]any
		v, err = readObject(fmt.Appendf(nil, `{"v":%s}`, value))
		fields[c.Field] = v["v"]
	}
	if err != nil {
		return nil, bad()
	}
	out := map[string]any{}
	for name, v := range fields {
		col, ok := c.of.column(name)
		if !ok || col.Child != "" {
			return nil, fault.InvalidField("value", fault.CodeInvalid, "%s has no field %.64q.", c.TableName, name)
		}
		if out[name], err = localValue(col, v); err != nil {
			return nil, bad()
		}
		if text, ok := out[name].(string); ok {
			for _, h := range c.of.columns {
				if h.HashOf == name {
					out[h.Name] = hashOf(h, text)
				}
			}
		}
	}
	return out, nil
}

// setValues writes columns of the conflict's item as an edit of this device.
func (s *Service) setValues(tx *storage.Tx, c conflict, values map[string]any) error {
	sets, args := []string{"updated_at = ?"}, []any{tx.Now}
	for name, v := range values {
		col, _ := c.of.column(name)
		x, err := tx.SealedValue(c.TableName, col, c.RowID, v, s.o.Private)
		if err != nil {
			return err
		}
		sets, args = append(sets, name+" = ?"), append(args, x)
	}
	_, err := tx.Exec(`UPDATE `+c.TableName+` SET `+strings.Join(sets, ", ")+` WHERE id = ?`, append(args, c.RowID)...)
	if storage.ViolationOf(err) != "" {
		return fault.InvalidField("value", fault.CodeInvalid, "value is not a value of %s.", c.Field).WithCause(err)
	}
	return err
}

// keepBoth adds a copy of the conflict's item that has the value of theirs, and returns its id.
func (s *Service) keepBoth(tx *storage.Tx, c conflict) (*uuid.UUID, error) {
	if !c.CanKeepBoth {
		return nil, fault.InvalidField("choice", fault.CodeInvalid, "There can be only one of this item. Choose mine, theirs or merged.")
	}
	theirs, err := c.values(c.Theirs)
	if err != nil {
		return nil, err
	}
	names, err := deviceNames(tx)
	if err != nil {
		return nil, err
	}
	v := Version{Values: maps.Clone(c.item.Values), Created: tx.Now.UnixMicro(), Updated: tx.Now.UnixMicro(), Meta: newMeta()}
	maps.Copy(v.Values, theirs)
	for _, col := range c.of.columns {
		switch {
		case col.Merge == storage.PNCounter:
			v.Values[col.Name] = int64(0)
		case col.Name == "head_version_id": // the version history stays with the item
			v.Values[col.Name] = nil
		case col.Name == "name":
			if v.Values["name"], err = copyName(tx, c, names[c.theirs.Site()]); err != nil {
				return nil, err
			}
		}
	}
	id := uuid.UUID(storage.NewID())
	err = c.of.writeRow(tx, c.item.user, id, v, false, s.o.Private)
	if storage.ViolationOf(err) != "" {
		return nil, fault.Conflictf("Couldn't keep both: a second item like this is not allowed here. Choose mine, theirs or merged.").WithCause(err)
	}
	return &id, err
}

// copyName returns an unused name for the second row.
func copyName(tx *storage.Tx, c conflict, device string) (string, error) {
	suffix := " (copy)"
	if device != "" {
		suffix = " (copy from " + device + ")"
	}
	name, _ := c.item.Values["name"].(string)
	for n := 1; ; n++ {
		end := suffix
		if n > 1 {
			end += fmt.Sprintf(" %d", n)
		}
		free := cutBytes(name, maxName-len(end)) + end
		if c.of.Slugs {
			free = slugWith(name, n+1)
		}
		var taken bool
		if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM `+c.TableName+` WHERE `+c.of.hasName()+`)`, c.item.user, free).Scan(&taken); err != nil || !taken {
			return free, err
		}
	}
}

// maxName is the smallest length limit of a name among the tables.
const maxName = 64

func cutBytes(s string, most int) string {
	return string(bytes.ToValidUTF8([]byte(s[:min(len(s), max(most, 0))]), nil))
}

// undoColumn binds the encrypted values of an undo token to that use.
var undoColumn = storage.SyncedColumn{SyncedField: storage.SyncedField{Name: "undo"}, Sealed: true}

func (c conflict) seal(tx *storage.Tx, values map[string]any) (string, error) {
	wire := map[string]any{}
	for name, v := range values {
		col, _ := c.of.column(name)
		wire[name] = wireValue(col, v)
	}
	x, err := tx.SealedValue("sync_conflicts", undoColumn, c.ID, jsonText(wire), true)
	b, _ := x.([]byte)
	return base64.StdEncoding.EncodeToString(b), err
}

func (c conflict) unseal(tx *storage.Tx, text string) (map[string]any, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	x, err := tx.UnsealedValue("sync_conflicts", undoColumn, c.ID, b)
	if err != nil {
		return nil, err
	}
	plain, _ := x.(string)
	raw, err := readObject([]byte(plain))
	for name, v := range raw {
		col, _ := c.of.column(name)
		if err == nil {
			raw[name], err = localValue(col, v)
		}
	}
	return raw, err
}
