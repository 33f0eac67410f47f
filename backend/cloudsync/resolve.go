package cloudsync

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// ResolveParams decide one conflict, a list of them, or all open ones. With several, those to which the choice
// does not apply are skipped.
type ResolveParams struct {
	ConflictID  uuid.UUID   `json:"conflictId,omitzero"`
	ConflictIDs []uuid.UUID `json:"conflictIds,omitempty"`
	// All selects all open conflicts; with TableName, those of a table.
	All       bool   `json:"all,omitempty"`
	TableName string `json:"tableName,omitempty"`
	// Limit ends a call with All once it has resolved at least this many conflicts; 0 means no limit.
	Limit int `json:"limit,omitempty"`
	// Choice is mine, theirs, both or merged. If one device deleted the row and the other edited
	// it, mine and theirs are the deletion and the edit. With both, the row keeps mine and a second
	// row gets theirs. Only one conflict can be merged.
	Choice string `json:"choice"`
	// Value is the merged value; only for the choice merged.
	Value json.RawMessage `json:"value,omitempty"`
}

// ResolveResult describes what was written.
type ResolveResult struct {
	// RowID is the row of the last resolved conflict.
	RowID uuid.UUID `json:"rowId"`
	// NewRowID is the id of its second row; only for the choice both.
	NewRowID *uuid.UUID `json:"newRowId,omitempty"`
	// UndoToken undoes all resolutions of the call with sync.undo_resolve; valid for ten minutes. It is empty if
	// none was resolved.
	UndoToken string `json:"undoToken"`
	Resolved  int    `json:"resolved"`
	Skipped   int    `json:"skipped"`
}

const resolveAct = "sync.resolve"

// resolveBatch limits the conflicts of a transaction, so that other writers can take turns and a canceled
// call ends soon.
const resolveBatch = 100

// resolveUndo is what is needed to undo the resolutions of a transaction.
type resolveUndo struct {
	Items    []resolveUndoItem `json:"items"`
	Previous string            `json:"previous,omitempty"` // the token of the transaction before it in the same call
}

// resolveUndoItem is one resolution. The values are encrypted.
type resolveUndoItem struct {
	Conflict uuid.UUID  `json:"conflict"`
	Status   string     `json:"status"`
	New      *uuid.UUID `json:"new,omitempty"`
	Before   string     `json:"before"` // the overwritten columns, in base64
	After    string     `json:"after"`
}

// Resolve writes the chosen value and closes the conflict on all devices. Several conflicts are resolved in
// transactions of at most 100; if the call is canceled, the resolved ones stay so.
func (s *Service) Resolve(ctx context.Context, p ResolveParams) (r ResolveResult, err error) {
	many, selected := p.All || len(p.ConflictIDs) > 0, 0
	for _, is := range []bool{p.All, len(p.ConflictIDs) > 0, p.ConflictID != uuid.Nil} {
		if is {
			selected++
		}
	}
	switch {
	case selected != 1 || p.TableName != "" && !p.All:
		return r, fault.InvalidField("conflictId", fault.CodeInvalid, "Give conflictId, conflictIds, or all, and tableName only with all.")
	case p.Choice != "mine" && p.Choice != "theirs" && p.Choice != "both" && p.Choice != "merged":
		return r, fault.InvalidField("choice", fault.CodeInvalid, "choice: %.32q is not one of mine, theirs, both and merged.", p.Choice)
	case (p.Choice == "merged") != (len(p.Value) > 0):
		return r, fault.InvalidField("value", fault.CodeInvalid, "Give value with the choice merged, and only then.")
	case many && p.Choice == "merged":
		return r, fault.InvalidField("choice", fault.CodeInvalid, "Only one conflict can be merged at a time.")
	}
	ids := p.ConflictIDs
	if p.ConflictID != uuid.Nil {
		ids = []uuid.UUID{p.ConflictID}
	}
	err = s.loaded(ctx, func() error {
		after := []byte{}
		for more := true; more; {
			next := r
			if err := s.db.Write(ctx, func(tx *storage.Tx) error {
				next = r
				batch := ids[:min(len(ids), resolveBatch)]
				if p.All {
					var err error
					if batch, err = storage.Collect(tx.Select(`SELECT id FROM sync_conflicts WHERE user_id = ?1 AND deleted_at IS NULL AND status = 'open' AND (?2 = '' OR table_name = ?2) AND id > ?3 ORDER BY id LIMIT ?4`,
						identity.UserID(ctx), p.TableName, after, resolveBatch), storage.RowTo[uuid.UUID]); err != nil {
						return err
					}
				}
				if more = len(batch) == resolveBatch; len(batch) == 0 {
					return nil
				}
				after = slices.Clone(batch[len(batch)-1][:])
				return s.resolveBatch(tx, batch, p, many, &next)
			}); err != nil {
				return err
			}
			more = more && (p.Limit <= 0 || next.Resolved < p.Limit)
			r, ids = next, ids[min(len(ids), resolveBatch):]
		}
		return nil
	})
	return r, err
}

// resolveBatch resolves the conflicts of one transaction.
func (s *Service) resolveBatch(tx *storage.Tx, ids []uuid.UUID, p ResolveParams, skip bool, r *ResolveResult) error {
	undo := resolveUndo{Previous: r.UndoToken}
	tables := map[string]bool{}
	for _, id := range ids {
		if _, err := tx.Exec(`SAVEPOINT resolution`); err != nil {
			return err
		}
		c, item, err := s.resolveOne(tx, id, p)
		if err != nil {
			if !skip || !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) {
				return err
			}
			if _, err := tx.Exec(`ROLLBACK TO resolution; RELEASE resolution`); err != nil {
				return err
			}
			r.Skipped++
			continue
		}
		if _, err := tx.Exec(`RELEASE resolution`); err != nil {
			return err
		}
		r.Resolved, r.RowID, r.NewRowID = r.Resolved+1, c.RowID, item.New
		undo.Items, tables[c.TableName] = append(undo.Items, item), true
	}
	if len(undo.Items) == 0 {
		return nil
	}
	s.resolved(tx, tables, len(undo.Items))
	var err error
	r.UndoToken, err = tx.KeepUndo(identity.UserID(tx.Context()), resolveAct, undo)
	return err
}

func (s *Service) resolveOne(tx *storage.Tx, id uuid.UUID, p ResolveParams) (c conflict, undo resolveUndoItem, err error) {
	if c, err = s.openConflict(tx, id); err != nil {
		return c, undo, err
	}
	values, err := c.values(map[string]json.RawMessage{"mine": c.Mine, "theirs": c.Theirs, "both": c.Mine, "merged": p.Value}[p.Choice])
	if err != nil {
		return c, undo, err
	}
	undo = resolveUndoItem{Conflict: c.ID, Status: c.Status}
	if p.Choice == "both" {
		if undo.New, err = s.keepBoth(tx, c); err != nil {
			return c, undo, err
		}
	}
	before := map[string]any{}
	for name := range values {
		before[name] = c.item.Values[name]
	}
	if undo.Before, err = c.seal(tx, before); err != nil {
		return c, undo, err
	}
	if undo.After, err = c.seal(tx, values); err != nil {
		return c, undo, err
	}
	if err := s.setValues(tx, c, values); err != nil {
		return c, undo, err
	}
	_, err = tx.Exec(`UPDATE sync_conflicts SET status = 'resolved', resolution = ?, resolved_at = ?, updated_at = ? WHERE id = ?`, c.side(p.Choice), tx.Now, tx.Now, c.ID)
	return c, undo, err
}

// UndoResolveParams hold the token of a resolution.
type UndoResolveParams struct {
	UndoToken string `json:"undoToken"`
}

// UndoResolve reopens the conflicts of a call and restores the items' previous values. Items that have changed
// since are skipped; if all have, it fails.
func (s *Service) UndoResolve(ctx context.Context, p UndoResolveParams) (r ResolveResult, err error) {
	err = s.loaded(ctx, func() error {
		for more := true; more; {
			next := r
			if err := s.db.Write(ctx, func(tx *storage.Tx) (err error) {
				next = r
				more, err = s.undoBatch(tx, p.UndoToken, &next)
				return err
			}); err != nil {
				return err
			}
			r = next
		}
		return nil
	})
	return r, err
}

// undoBatch undoes the resolutions of the last transaction of a call. If there was one before it, it then has
// the token.
func (s *Service) undoBatch(tx *storage.Tx, token string, r *ResolveResult) (more bool, err error) {
	act, state, err := tx.TakeUndo(identity.UserID(tx.Context()), token)
	if err != nil {
		return false, err
	}
	if act != resolveAct {
		return false, fault.NotFoundf("This can no longer be undone.")
	}
	var u resolveUndo
	if err := json.Unmarshal(state, &u); err != nil {
		return false, err
	}
	tables, n := map[string]bool{}, 0
	for _, item := range slices.Backward(u.Items) {
		c, ok, err := s.undoOne(tx, item)
		if err != nil {
			return false, err
		}
		if !ok {
			r.Skipped++
			continue
		}
		r.RowID, tables[c.TableName] = c.RowID, true
		n++
	}
	r.Resolved += n
	if n > 0 {
		s.resolved(tx, tables, n)
	}
	if u.Previous != "" {
		res, err := tx.Exec(`UPDATE memory_undo SET token = ? WHERE token = ?`, token, u.Previous)
		if err != nil {
			return false, err
		}
		left, err := res.RowsAffected()
		if left > 0 || err != nil {
			return left > 0, err
		}
	}
	if r.Resolved == 0 {
		return false, fault.Conflictf("The item has changed since, so this can no longer be undone.")
	}
	return false, nil
}

// undoOne undoes one resolution. It reports false if the item has changed since.
func (s *Service) undoOne(tx *storage.Tx, u resolveUndoItem) (c conflict, ok bool, err error) {
	if c, err = s.conflict(tx, u.Conflict); err != nil {
		if fault.Is(err, fault.NotFound) {
			err = nil
		}
		return c, false, err
	}
	before, err := c.unseal(tx, u.Before)
	if err != nil {
		return c, false, err
	}
	after, err := c.unseal(tx, u.After)
	if err != nil || c.item == nil || c.Status != "resolved" || !c.item.has(after) {
		return c, false, err
	}
	if err := s.setValues(tx, c, before); err != nil {
		return c, false, err
	}
	if u.New != nil {
		if _, err := tx.Exec(`UPDATE `+c.TableName+` SET deleted_at = ?, updated_at = ? WHERE id = ?`, tx.Now, tx.Now, *u.New); err != nil {
			return c, false, err
		}
	}
	_, err = tx.Exec(`UPDATE sync_conflicts SET status = ?, resolution = NULL, resolved_at = NULL, updated_at = ? WHERE id = ?`, u.Status, tx.Now, c.ID)
	return c, true, err
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

// resolved publishes the changes to items of tables and to their conflicts after the commit.
func (s *Service) resolved(tx *storage.Tx, tables map[string]bool, n int) {
	user := identity.UserID(tx.Context())
	tx.AfterCommit(func() {
		for table := range tables {
			bus.Publish(tx.Bus(), user, storage.Changed{Table: table, Many: true})
		}
		bus.Publish(tx.Bus(), user, Applied{Rows: n})
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
