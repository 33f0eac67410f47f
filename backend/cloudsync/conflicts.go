package cloudsync

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// ConflictsParams select conflicts.
type ConflictsParams struct {
	// Status is open, resolved, auto or all; default open. In an auto conflict the later write won,
	// and the other value was kept.
	Status    string `json:"status,omitempty"`
	TableName string `json:"tableName,omitempty"`
	Limit     int    `json:"limit,omitempty"`
	Offset    int    `json:"offset,omitempty"`
}

// ConflictInfo is one conflict. Mine is the value this device wrote or, if another device merged
// the two versions, the value of the merging device.
type ConflictInfo struct {
	ID        uuid.UUID `json:"id"`
	TableName string    `json:"tableName"`
	RowID     uuid.UUID `json:"rowId"`
	Title     string    `json:"title"` // of the row, or the beginning of its text
	Kind      string    `json:"kind"`
	Strategy  string    `json:"strategy"`
	// Field is the column, or definition for all columns that the definition hash covers.
	Field string `json:"field"`
	// FieldType is text, json, number, boolean, time, definition (an object of columns) or deleted.
	FieldType string          `json:"fieldType"`
	Base      json.RawMessage `json:"base"`
	Mine      json.RawMessage `json:"mine"`
	Theirs    json.RawMessage `json:"theirs"`
	// ItemText is what the edit kept; only if the other device deleted the item.
	ItemText string `json:"itemText,omitempty"`
	// MineDevice and TheirsDevice are the names of the devices that wrote the two values; empty if
	// unknown.
	MineDevice   string     `json:"mineDevice"`
	TheirsDevice string     `json:"theirsDevice"`
	MineAt       *time.Time `json:"mineAt"`
	TheirsAt     *time.Time `json:"theirsAt"`
	// Suggested is the side whose value the row has now: mine or theirs; empty if it has neither.
	Suggested string `json:"suggested"`
	// CanKeepBoth reports whether the choice both is available, which creates a second row.
	CanKeepBoth bool      `json:"canKeepBoth"`
	Status      string    `json:"status"`
	Resolution  string    `json:"resolution,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`
}

// ConflictsResult is one page of conflicts, newest first.
type ConflictsResult struct {
	Conflicts []ConflictInfo `json:"conflicts"`
	Total     int            `json:"total"`
}

// ConflictsChanged is published when conflicts were added or resolved.
type ConflictsChanged struct{}

// Conflicts lists conflicts: fields that two devices changed concurrently.
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
			names, err := deviceNames(tx)
			if err != nil {
				return err
			}
			for _, id := range ids {
				c, err := s.conflict(tx, id)
				if err != nil {
					return err
				}
				r.Conflicts = append(r.Conflicts, c.info(names))
			}
			return nil
		})
	})
	return r, err
}

var errNoConflict = fault.NotFoundf("Conflict not found.")

// conflict is a row of sync_conflicts together with the row it refers to.
type conflict struct {
	ConflictInfo
	of           table     // the table of the item; its Table is empty if this version of Helix does not have it
	item         *localRow // nil if the row no longer exists
	mine, theirs Dot
	resolvedBy   int64 // site number
	// swapped reports that the stored conflict has mine and theirs exchanged.
	swapped bool
}

// side translates the name of a side between the stored conflict and the caller's view; the two
// differ if swapped is set.
func (c conflict) side(name string) string {
	if other := map[string]string{"mine": "theirs", "theirs": "mine"}[name]; c.swapped && other != "" {
		return other
	}
	return name
}

func (c conflict) info(names map[int64]string) ConflictInfo {
	c.MineDevice, c.TheirsDevice = names[c.mine.Site()], names[c.theirs.Site()]
	return c.ConflictInfo
}

// conflict reads one conflict of the calling user.
func (s *Service) conflict(tx *storage.Tx, id uuid.UUID) (c conflict, err error) {
	t, _ := s.table("sync_conflicts")
	r, err := t.readRow(tx, id)
	if err != nil {
		return c, err
	}
	if r == nil || r.user != identity.UserID(tx.Context()) || r.deleted() {
		return c, errNoConflict
	}
	text := func(name string) string { s, _ := r.Values[name].(string); return s }
	number := func(name string) int64 { n, _ := r.Values[name].(int64); return n }
	at := func(name string) *time.Time {
		if number(name) == 0 {
			return nil
		}
		v := time.UnixMicro(number(name)).UTC()
		return &v
	}
	c.ConflictInfo = ConflictInfo{
		ID: id, TableName: text("table_name"), Field: text("field"), Kind: text("kind"), Strategy: text("strategy"), Status: text("status"), Resolution: text("resolution"),
		MineAt: at("local_at"), TheirsAt: at("remote_at"), CreatedAt: time.UnixMicro(r.Created).UTC(),
	}
	for name, into := range map[string]*json.RawMessage{"base": &c.Base, "local_value": &c.Mine, "remote_value": &c.Theirs} {
		*into = rawValue(text(name), c.Field)
	}
	c.mine, c.theirs = Dot(number("local_dot")), Dot(number("remote_dot"))
	l, err := readLocal(tx)
	if err != nil {
		return c, err
	}
	if c.swapped = c.theirs.Site() == l.site && c.mine.Site() != l.site; c.swapped {
		c.Mine, c.Theirs, c.MineAt, c.TheirsAt, c.mine, c.theirs = c.Theirs, c.Mine, c.TheirsAt, c.MineAt, c.theirs, c.mine
		c.Resolution = c.side(c.Resolution)
	}
	status, _ := t.column("status")
	c.resolvedBy = r.Meta.Stamps[status.No].Dot.Site()
	if b, ok := r.Values["row_id"].([]byte); ok {
		copy(c.RowID[:], b)
	}
	var known bool
	if c.of, known = s.table(c.TableName); !known {
		return c, nil
	}
	if c.item, err = c.of.readRow(tx, c.RowID); err != nil || c.item == nil {
		return c, err
	}
	c.Title = c.of.title(c.item)
	c.FieldType = c.of.fieldType(c.Field)
	if c.FieldType == "deleted" {
		c.ItemText = firstText(c.item, "content", "text", "code", "steps", "definition", "target_input", "description", "title", "name")
	}
	c.CanKeepBoth = c.of.canKeepBoth(c.Field) && !c.item.deleted()
	if c.Status != "resolved" {
		c.Suggested = c.suggested()
	}
	return c, nil
}

// rawValue returns a value of sync_conflicts as JSON. A definition is stored as a string that
// contains a JSON object.
func rawValue(text, field string) json.RawMessage {
	var inner string
	if field == unit && json.Unmarshal([]byte(text), &inner) == nil {
		text = inner
	}
	if !json.Valid([]byte(text)) {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

// suggested returns the side whose value the row has now, or "".
func (c conflict) suggested() string {
	for _, side := range []string{"mine", "theirs"} {
		values, err := c.values(map[string]json.RawMessage{"mine": c.Mine, "theirs": c.Theirs}[side])
		if err == nil && c.item.has(values) {
			return side
		}
	}
	return ""
}

func (t table) fieldType(field string) string {
	col, ok := t.column(field)
	switch {
	case field == unit:
		return unit
	case field == deletedAt:
		return "deleted"
	case !ok:
		return "text"
	case col.Merge == storage.ManualMerge && col.Hub == "text", col.Merge == storage.ORSet:
		return "json"
	}
	switch col.Hub {
	case "boolean":
		return "boolean"
	case "timestamptz":
		return "time"
	case "bigint", "double precision":
		return "number"
	}
	return "text"
}

// canKeepBoth reports whether a second row can hold the other value of a field. The field must be
// text that a person writes, in a table whose ids are random: other ids are derived from what the
// row is about, so a second row would collide.
func (t table) canKeepBoth(field string) bool {
	col, ok := t.column(field)
	written := field == unit || ok && (col.Merge == storage.Text3 || col.Merge == storage.ManualMerge)
	named := slices.ContainsFunc(t.columns, func(c storage.SyncedColumn) bool { return c.Name == "name" })
	return written && t.Policy == storage.MergeRows && (named || t.Table == "memories")
}

// title returns the name under which a person knows the row.
func (t table) title(r *localRow) string {
	s := firstText(r, "name", "title", "content", "text", "description", "layer_name", "alias")
	if words := []rune(strings.Join(strings.Fields(s), " ")); len(words) > 60 {
		return string(words[:60]) + "…"
	}
	return s
}

// firstText returns the first of the columns that has text.
func firstText(r *localRow, columns ...string) string {
	for _, name := range columns {
		if s, _ := r.Values[name].(string); strings.TrimSpace(s) != "" {
			return s
		}
	}
	return ""
}

// written returns which version of a row last wrote a field, and when, in microseconds since 1970.
func (t table) written(v Version, field string) (Dot, int64) {
	var last Stamp
	for _, c := range append(slices.Clone(t.columns), deletedColumn) {
		if c.Name == field || field == unit && c.Merge == storage.ManualMerge || field == deletedAt && !v.deleted() {
			last = later(last, v.Meta.Stamps[c.No])
		}
	}
	if last.Dot == 0 {
		last.Dot = v.Meta.Dot
	}
	return last.Dot, last.HLC >> 16 * 1000
}
