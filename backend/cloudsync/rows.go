package cloudsync

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// table is a synced table with its synced columns.
type table struct {
	storage.SyncedTable
	columns []storage.SyncedColumn
}

func (t table) bits() (all uint64) {
	for _, c := range t.columns {
		all |= 1 << c.No
	}
	return all | 1
}

// readTables returns the synced tables, parents before the tables that refer to them.
func readTables(tx *storage.Tx) (list []table, err error) {
	refs := map[string][]string{}
	for _, t := range storage.Synced {
		if t.Parent != "" {
			continue
		}
		columns, err := tx.SyncedColumns(t)
		if err != nil {
			return nil, err
		}
		list = append(list, table{t, columns})
		if refs[t.Table], err = storage.Collect(tx.Select(`SELECT DISTINCT "table" FROM pragma_foreign_key_list(?) WHERE "table" <> ?`, t.Table, t.Table), storage.RowTo[string]); err != nil {
			return nil, err
		}
	}
	var out []table
	placed := map[string]bool{}
	var place func(name string)
	place = func(name string) {
		i := slices.IndexFunc(list, func(t table) bool { return t.Table == name })
		if i < 0 || placed[name] {
			return
		}
		placed[name] = true
		for _, r := range refs[name] {
			place(r)
		}
		out = append(out, list[i])
	}
	for _, t := range list {
		place(t.Table)
	}
	return out, nil
}

// localRow is a row of the local database, with the metadata of the hub's version that it is based
// on.
type localRow struct {
	Version
	user  uuid.UUID
	known bool // the hub has a version of the row
}

// readRow reads a row; nil if it does not exist.
func (t table) readRow(tx *storage.Tx, id uuid.UUID) (*localRow, error) {
	stored, err := tx.StoredRow(t.Table, id)
	if err != nil || stored == nil {
		return nil, err
	}
	r := &localRow{Version: Version{Values: map[string]any{deletedAt: stored[deletedAt]}, Meta: newMeta()}}
	for _, c := range t.columns {
		v := stored[c.Name]
		if c.Child != "" {
			if err := tx.QueryRow(`SELECT json_group_array(v) FROM (SELECT `+c.Field+` AS v FROM `+c.Child+` WHERE `+c.ChildKey+` = ? ORDER BY 1)`, id).Scan(&v); err != nil {
				return nil, err
			}
		}
		if r.Values[c.Name], err = tx.UnsealedValue(t.Table, c, id, v); err != nil {
			return nil, err
		}
	}
	r.Created, _ = stored["created_at"].(int64)
	r.Updated, _ = stored["updated_at"].(int64)
	if b, ok := stored["user_id"].([]byte); ok {
		copy(r.user[:], b)
	}
	if b, ok := stored["sync_meta"].([]byte); ok {
		r.known = true
		if r.Meta, err = decodeMeta(b); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// encodeBase encodes a version in the format that the capture triggers write to sync_base.
func (t table) encodeBase(tx *storage.Tx, id uuid.UUID, v Version, private bool) (string, error) {
	out := map[string]any{"created_at": v.Created, "updated_at": v.Updated, deletedAt: v.Values[deletedAt], "sync_meta": hex.EncodeToString(v.Meta.encode())}
	for _, c := range t.columns {
		x, err := tx.SealedValue(t.Table, c, id, v.Values[c.Name], private)
		if err != nil {
			return "", err
		}
		name := c.Name
		if b, ok := x.([]byte); ok {
			x = hex.EncodeToString(b)
			if c.Private {
				name += ":hex"
			}
		}
		out[name] = x
	}
	text, err := json.Marshal(out)
	return string(text), err
}

// decodeBase decodes a version from sync_base or sync_outbox.
func (t table) decodeBase(tx *storage.Tx, id uuid.UUID, text string) (*Version, error) {
	raw, err := readObject([]byte(text))
	if err != nil {
		return nil, err
	}
	v := &Version{Values: map[string]any{}, Meta: newMeta()}
	for _, c := range append(slices.Clone(t.columns), storage.SyncedColumn{SyncedField: storage.SyncedField{Name: deletedAt}, Hub: "bigint"}) {
		x := plainJSON(raw[c.Name])
		coded, isText := x.(string)
		sealed := c.Sealed
		if s, ok := raw[c.Name+":hex"].(string); ok {
			coded, isText, sealed = s, true, true
		}
		if isText && (sealed || c.Hub == "uuid" || c.Hub == "bytea") {
			b, err := hex.DecodeString(coded)
			if err != nil {
				return nil, err
			}
			if x, err = tx.UnsealedValue(t.Table, c, id, b); err != nil {
				return nil, err
			}
		}
		if f, ok := x.(int64); ok && c.Hub == "double precision" {
			x = float64(f)
		}
		v.Values[c.Name] = x
	}
	v.Created, _ = plainJSON(raw["created_at"]).(int64)
	v.Updated, _ = plainJSON(raw["updated_at"]).(int64)
	if s, ok := raw["sync_meta"].(string); ok {
		b, err := hex.DecodeString(s)
		if err != nil {
			return nil, err
		}
		if v.Meta, err = decodeMeta(b); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func readObject(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out map[string]any
	err := d.Decode(&out)
	return out, err
}

// plainJSON converts a json.Number to int64 or float64 and returns other values unchanged.
func plainJSON(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil {
		return nil
	}
	return f
}

// wireValue converts a local value to the JSON value for the hub.
func wireValue(c storage.SyncedColumn, v any) any {
	switch x := v.(type) {
	case []byte:
		if c.Hub == "uuid" && len(x) == 16 {
			return uuid.UUID(x).String()
		}
		return `\x` + hex.EncodeToString(x)
	case int64:
		switch c.Hub {
		case "timestamptz":
			return time.UnixMicro(x).UTC().Format(time.RFC3339Nano)
		case "boolean":
			return x != 0
		}
	}
	return v
}

// localValue converts a JSON value from the hub to the form in which SQLite stores it.
func localValue(c storage.SyncedColumn, v any) (any, error) {
	switch x := plainJSON(v).(type) {
	case nil:
		return nil, nil
	case bool:
		if x {
			return int64(1), nil
		}
		return int64(0), nil
	case int64:
		if c.Hub == "double precision" {
			return float64(x), nil
		}
		return x, nil
	case float64:
		return x, nil
	case string:
		switch c.Hub {
		case "uuid":
			id, err := uuid.Parse(x)
			return id[:], err
		case "bytea":
			return hex.DecodeString(strings.TrimPrefix(x, `\x`))
		case "timestamptz":
			at, err := time.Parse(time.RFC3339Nano, x)
			if err != nil { // the hub's zone may have had an offset with seconds, before 1900
				at, err = time.Parse("2006-01-02T15:04:05.999999999Z07:00:00", x)
			}
			return at.UnixMicro(), err
		}
		return x, nil
	}
	return nil, fmt.Errorf("column %s: %T", c.Name, v)
}

var (
	timeColumn = storage.SyncedColumn{Hub: "timestamptz"}
	byteColumn = storage.SyncedColumn{Hub: "bytea"}
)

// cols returns the column values of a version for sync.push, with sensitive texts encrypted.
func (t table) cols(c Cipher, id uuid.UUID, v Version) map[string]any {
	out := map[string]any{"created_at": wireValue(timeColumn, v.Created), "updated_at": wireValue(timeColumn, v.Updated)}
	for _, col := range t.columns {
		x := wireValue(col, v.Values[col.Name])
		if s, ok := x.(string); ok && col.Sensitive {
			x = c.seal(t.Table, col.Name, id, s)
		}
		out[col.Name] = x
	}
	return out
}

// hubRow decodes and decrypts a row from sync.pull.
func (t table) hubRow(c Cipher, id uuid.UUID, text []byte) (v Version, err error) {
	raw, err := readObject(text)
	if err != nil {
		return v, err
	}
	if extra, ok := raw["extra"].(map[string]any); ok { // columns that the hub lacked when the row was written
		for name, x := range extra {
			if raw[name] == nil {
				raw[name] = x
			}
		}
	}
	v = Version{Values: map[string]any{}}
	for _, col := range t.columns {
		x, err := localValue(col, raw[col.Name])
		if err != nil {
			return v, err
		}
		if s, ok := x.(string); ok && col.Sensitive {
			if x, err = c.open(t.Table, col.Name, id, s); err != nil {
				return v, err
			}
		}
		v.Values[col.Name] = x
	}
	times := [3]int64{}
	for i, name := range []string{"created_at", "updated_at", deletedAt} {
		x, err := localValue(timeColumn, raw[name])
		if err != nil {
			return v, err
		}
		times[i], _ = x.(int64)
		if name == deletedAt {
			v.Values[deletedAt] = x
		}
	}
	v.Created, v.Updated = times[0], times[1]
	meta, err := localValue(byteColumn, raw["sync_meta"])
	if err != nil {
		return v, err
	}
	b, ok := meta.([]byte)
	if !ok {
		return v, errors.New("a row without sync_meta")
	}
	v.Meta, err = decodeMeta(b)
	return v, err
}

// writeRow stores a version. The caller must have disabled capture, or the write is logged as a
// local change. A version without a dot is one that the hub does not have.
func (t table) writeRow(tx *storage.Tx, user, id uuid.UUID, v Version, exists, private bool) error {
	names := []string{"created_at", "updated_at", "sync_meta"}
	args := []any{v.Created, v.Updated, nil}
	if v.Meta.Dot != 0 {
		args[2] = v.Meta.encode()
	}
	if _, ok := v.Values[deletedAt]; ok {
		names, args = append(names, deletedAt), append(args, v.Values[deletedAt])
	}
	for _, c := range t.columns {
		if c.Child != "" {
			continue
		}
		x, err := tx.SealedValue(t.Table, c, id, v.Values[c.Name], private)
		if err != nil {
			return err
		}
		names, args = append(names, c.Name), append(args, x)
	}
	var err error
	if exists {
		_, err = tx.Exec(`UPDATE `+t.Table+` SET `+strings.Join(names, " = ?, ")+` = ? WHERE id = ?`, append(args, id)...)
	} else {
		names, args = append(names, "id", "user_id"), append(args, id, user)
		_, err = tx.Exec(`INSERT INTO `+t.Table+` (`+strings.Join(names, ", ")+`) VALUES (?`+strings.Repeat(", ?", len(names)-1)+`)`, args...)
	}
	if err != nil {
		return err
	}
	return t.writeSets(tx, user, id, v.Values)
}

// writeSets replaces the child rows of the sets among values.
func (t table) writeSets(tx *storage.Tx, user, id uuid.UUID, values map[string]any) error {
	for _, c := range t.columns {
		v, ok := values[c.Name]
		if c.Child == "" || !ok {
			continue
		}
		list := readSet(v)
		set := jsonText(append([]string{}, list...))
		if _, err := tx.Exec(`DELETE FROM `+c.Child+` WHERE `+c.ChildKey+` = ? AND `+c.Field+` NOT IN (SELECT value FROM json_each(?))`, id, set); err != nil {
			return err
		}
		if len(list) == 0 {
			continue
		}
		if _, err := tx.Exec(`INSERT INTO `+c.Child+` (`+c.ChildKey+`, user_id, `+c.Field+`) SELECT ?, ?, value FROM json_each(?) WHERE true ON CONFLICT DO NOTHING`, id, user, set); err != nil {
			return err
		}
	}
	return nil
}

func hashOf(c storage.SyncedColumn, text string) any {
	sum := sha256.Sum256([]byte(text))
	if c.Hub == "bytea" {
		return sum[:]
	}
	return hex.EncodeToString(sum[:])
}
