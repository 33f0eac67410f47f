package cloudsync

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// This file encodes new rows in the binary format of COPY. A batch of them is stored in sync_batches
// exactly as it is sent, one part per table, and needs no entry per row in the outbox.

// part is the rows of one table in a batch.
type part struct {
	table
	columns []string // of the tuples: stageHead and the columns that the hub has
	first   Dot      // version of the first row; the others follow it
	rows    []partRow
	tuples  []byte // binary COPY without header and trailer
}

// partRow is one row of a part.
type partRow struct {
	id       uuid.UUID
	meta     []byte
	seq, txn int64 // its entry in change_log
	at       int   // its offset in tuples
}

// partReader reads new rows of one table.
type partReader struct {
	part
	cipher Cipher
	user   uuid.UUID
	kinds  []storage.SyncedColumn // of the columns after stageHead
	query  string
	values []any
	into   []any
}

// newPartReader returns a reader of rows of t, which has the given columns on the hub besides stageHead.
// guard holds further conditions on the rows.
func newPartReader(t table, c Cipher, user uuid.UUID, columns []string, guard string) *partReader {
	r := &partReader{part: part{table: t, columns: slices.Concat(stageHead, columns)}, cipher: c, user: user}
	names := []string{"c.seq", "c.hlc", "c.fields", "c.txn", "r.id", "r." + deletedAt}
	for _, name := range columns {
		col, ok := t.column(name)
		switch {
		case !ok: // created_at or updated_at
			col = timeColumn
			col.Name = name
			names = append(names, "r."+name)
		case col.Child != "":
			names = append(names, `(SELECT json_group_array(v) FROM (SELECT `+col.Field+` AS v FROM `+col.Child+` WHERE `+col.ChildKey+` = r.id ORDER BY 1))`)
		default:
			names = append(names, "r."+name)
		}
		r.kinds = append(r.kinds, col)
	}
	// The cross join makes SQLite read change_log in its order. The unary plus keeps it from choosing
	// the index on user_id, which would scan all rows of the user.
	r.query = `SELECT ` + strings.Join(names, ", ") + ` FROM change_log c CROSS JOIN ` + t.Table + ` r ON r.id = c.row_id
		WHERE c.seq > ? AND c.seq <= ? AND c.tbl = '` + t.Table + `' AND c.op = 'I' AND +r.user_id = ? AND r.sync_meta IS NULL` + guard + ` ORDER BY c.seq`
	r.values, r.into = make([]any, len(names)), make([]any, len(names))
	for i := range r.values {
		r.into[i] = &r.values[i]
	}
	return r
}

const headValues = 6 // values of a row before those of the columns

// read encodes the new rows that change_log lists after and up to the given entries. Their versions
// follow l.ctr, which it advances. It leaves out rows for which skip returns true, and stops before a
// row that would make the part larger than room, unless it is the first. next is the entry to continue
// after.
func (r *partReader) read(tx *storage.Tx, l *local, after, upTo int64, room int, skip func(uuid.UUID) bool) (next int64, err error) {
	r.first, r.rows, r.tuples = newDot(l.site, l.ctr+1), nil, nil
	rows, err := tx.Query(r.query, after, upTo, r.user)
	if err != nil {
		return 0, err
	}
	defer rows.Close() //nolint:errcheck // its error is that of rows.Err
	var last uuid.UUID
	for rows.Next() {
		if err := rows.Scan(r.into...); err != nil {
			return 0, err
		}
		b, _ := r.values[4].([]byte)
		if len(b) != len(last) {
			continue
		}
		id := uuid.UUID(b)
		seq, _ := r.values[0].(int64)
		if id == last && len(r.rows) > 0 && r.rows[len(r.rows)-1].id == id { // written at several times
			n := len(r.rows) - 1
			r.tuples, r.rows = r.tuples[:r.rows[n].at], r.rows[:n]
			l.ctr--
			continue
		}
		if id == last || skip(id) {
			last = id
			continue
		}
		last = id
		at := len(r.tuples)
		row, ok, err := r.tuple(tx, l, id)
		if err != nil {
			return 0, err
		}
		if !ok {
			r.tuples = r.tuples[:at]
			continue
		}
		if len(r.tuples) > room && len(r.rows) > 0 {
			r.tuples = r.tuples[:at]
			return r.rows[len(r.rows)-1].seq, nil
		}
		l.ctr++
		row.at, row.seq = at, seq
		r.rows = append(r.rows, row)
	}
	return upTo, rows.Err()
}

// tuple appends the current row to the tuples. ok is false if a value has no binary form.
func (r *partReader) tuple(tx *storage.Tx, l *local, id uuid.UUID) (row partRow, ok bool, err error) {
	hlc, _ := r.values[1].(int64)
	fields, _ := r.values[2].(int64)
	row.id = id
	row.txn, _ = r.values[3].(int64)
	dot := newDot(l.site, l.ctr+1)
	plain := r.values[headValues:]
	counts := make([]any, len(r.table.columns))
	for i, c := range r.kinds {
		if plain[i], err = tx.UnsealedValue(r.Table, c, id, plain[i]); err != nil {
			return row, false, err
		}
		if c.Merge == storage.PNCounter {
			counts[slices.IndexFunc(r.table.columns, func(x storage.SyncedColumn) bool { return x.No == c.No })] = plain[i]
		}
	}
	row.meta = r.freshMeta(dot, hlc, fields, counts)
	b := binary.BigEndian.AppendUint16(r.tuples, uint16(len(r.columns))) //nolint:gosec // a few dozen
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(id))), id[:]...)
	b = appendInt64(b, int64(dot))
	b = appendNull(b) // prev_dot
	b = appendInt64(b, hlc)
	b = append(appendLength(b, len(row.meta)), row.meta...)
	b = binary.BigEndian.AppendUint32(appendLength(b, 4), SchemaVersion)
	if b, ok = appendField(b, timeColumn, r.values[5]); !ok {
		return row, false, nil
	}
	b = append(appendLength(b, 3), 1, '{', '}') // extra, as jsonb of version 1
	for i, c := range r.kinds {
		x := plain[i]
		if s, isText := x.(string); isText && c.Sensitive {
			x = r.cipher.seal(r.Table, c.Name, id, s)
		}
		if b, ok = appendField(b, c, x); !ok {
			return row, false, nil
		}
	}
	r.tuples = b
	return row, true, nil
}

// freshMeta returns the sync_meta of a row's first version, encoded as by Meta.encode.
func (t table) freshMeta(dot Dot, hlc, fields int64, values []any) []byte {
	b := append(make([]byte, 0, 48), metaVersion)
	num := func(list ...int64) {
		for _, n := range list {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	num(int64(dot), 1, dot.Site(), dot.Ctr(), 1, int64(dot), hlc, fields)
	counters := int64(0)
	for _, c := range t.columns {
		if c.Merge == storage.PNCounter {
			counters++
		}
	}
	num(counters)
	for i, c := range t.columns { // ordered by field number
		if c.Merge == storage.PNCounter {
			n, _ := values[i].(int64)
			num(int64(c.No), 1, dot.Site(), max(n, 0), max(-n, 0))
		}
	}
	return b
}

func appendLength(b []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(b, uint32(n)) //nolint:gosec // SQLite's values are smaller than 2 GiB
}

func appendNull(b []byte) []byte { return binary.BigEndian.AppendUint32(b, math.MaxUint32) }

func appendInt64(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(appendLength(b, 8), uint64(n)) //nolint:gosec // two's complement
}

// appendField appends a value as SQLite stores it. It is the inverse of copyValue. ok is false if the
// value is not of the column's type.
func appendField(b []byte, c storage.SyncedColumn, v any) (_ []byte, ok bool) {
	switch x := v.(type) {
	case nil:
		return appendNull(b), true
	case string:
		if c.Hub == "text" {
			return append(appendLength(b, len(x)), x...), true
		}
	case []byte:
		if c.Hub == "bytea" || c.Hub == "uuid" && len(x) == len(uuid.UUID{}) {
			return append(appendLength(b, len(x)), x...), true
		}
	case int64:
		switch c.Hub {
		case "bigint":
			return appendInt64(b, x), true
		case "timestamptz":
			return appendInt64(b, x-epoch2000), true
		case "boolean":
			bit := byte(0)
			if x != 0 {
				bit = 1
			}
			return append(appendLength(b, 1), bit), true
		case "double precision":
			return appendInt64(b, int64(math.Float64bits(float64(x)))), true //nolint:gosec // the bits of the float
		}
	case float64:
		if c.Hub == "double precision" {
			return appendInt64(b, int64(math.Float64bits(x))), true //nolint:gosec // the bits of the float
		}
	}
	return b, false
}

// store writes the part to sync_batches.
func (p part) store(tx *storage.Tx) error {
	columns, err := json.Marshal(p.columns)
	if err != nil {
		return err
	}
	entries := []byte{'['}
	for i, r := range p.rows {
		if i > 0 {
			entries = append(entries, ',')
		}
		entries = strconv.AppendInt(entries, r.seq, 10)
		entries = strconv.AppendInt(append(entries, ','), r.txn, 10)
	}
	_, err = tx.Exec(`INSERT INTO sync_batches (first_dot, tbl, columns, entries, tuples) VALUES (?, ?, ?, ?, ?)`, int64(p.first), p.Table, string(columns), string(append(entries, ']')), p.tuples)
	return err
}

// version decodes row i of the part, as this device packaged it.
func (p part) version(c Cipher, i int) (id uuid.UUID, hlc int64, v Version, err error) {
	b := p.tuples[p.rows[i].at:]
	if len(b) < 2 || int(binary.BigEndian.Uint16(b)) != len(p.columns) {
		return id, 0, v, errCopy
	}
	b = b[2:]
	v.Values = map[string]any{}
	for _, name := range p.columns {
		col, _ := p.column(name)
		switch name {
		case "id":
			col.Hub = "uuid"
		case "dot", "prev_dot", "hlc":
			col.Hub = "bigint"
		case "sync_meta", "schema_ver", "extra":
			col.Hub = "bytea"
		case "created_at", "updated_at":
			col.Hub = "timestamptz"
		}
		size := int32(binary.BigEndian.Uint32(b)) //nolint:gosec // -1 for NULL
		n := max(0, int(size))
		x, err := copyValue(col.Hub, b[4:4+n:4+n], size < 0)
		if err != nil {
			return id, 0, v, err
		}
		b = b[4+n:]
		switch name {
		case "id":
			id = uuid.UUID(x.([]byte))
		case "hlc":
			hlc = x.(int64)
		case "sync_meta":
			if v.Meta, err = decodeMeta(x.([]byte)); err != nil {
				return id, 0, v, err
			}
		case "created_at":
			v.Created, _ = x.(int64)
		case "updated_at":
			v.Updated, _ = x.(int64)
		case "dot", "prev_dot", "schema_ver", "extra":
		default:
			if s, ok := x.(string); ok && col.Sensitive {
				if x, err = c.open(p.Table, name, id, s); err != nil {
					return id, 0, v, err
				}
			}
			v.Values[name] = x
		}
	}
	return id, hlc, v, nil
}

// readParts reads the parts that were stored and not acknowledged.
func (s *Service) readParts(tx *storage.Tx) ([]part, error) {
	return storage.Collect(tx.Select(`SELECT first_dot, tbl, columns, entries, tuples FROM sync_batches ORDER BY first_dot`), func(r storage.Row) (p part, err error) {
		var name string
		var entries []int64
		if err := r.Scan(&p.first, &name, storage.JSON(&p.columns), storage.JSON(&entries), &p.tuples); err != nil {
			return p, err
		}
		p.table, _ = s.table(name)
		at := 0
		for i := 0; i+1 < len(entries); i += 2 {
			p.rows = append(p.rows, partRow{seq: entries[i], txn: entries[i+1], at: at})
			n := tupleLength(p.tuples[at:])
			if n < 0 {
				return p, errCopy
			}
			at += n
		}
		return p, nil
	})
}

// settleBatches moves rows that were sent in a batch, and whose answer is missing, to the outbox. From
// there they are sent again as the same versions, and the hub answers whether it has them.
func (s *Service) settleBatches(ctx context.Context) error {
	left := false
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM sync_batches)`).Scan(&left)
	}); err != nil || !left {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		parts, err := s.readParts(tx)
		if err != nil {
			return err
		}
		for _, p := range parts {
			if err := s.moveToOutbox(tx, p); err != nil {
				return fmt.Errorf("move a batch of %s to the outbox: %w", p.Table, err)
			}
		}
		_, err = tx.Exec(`DELETE FROM sync_batches`)
		return err
	})
}

func (s *Service) moveToOutbox(tx *storage.Tx, p part) error {
	for i, r := range p.rows {
		id, hlc, v, err := p.version(s.cipher, i)
		if err != nil {
			return err
		}
		payload, err := json.Marshal(map[string]any{"deletedAt": wireValue(timeColumn, v.Values[deletedAt]), "cols": p.cols(s.cipher, id, v)})
		if err != nil {
			return err
		}
		base, err := p.encodeBase(tx, id, v, s.o.Private)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO sync_outbox (op_id, tbl, row_id, dot, hlc, payload, meta, base, txn, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			storage.NewID(), p.Table, id, int64(v.Meta.Dot), hlc, string(payload), v.Meta.encode(), base, r.txn, tx.Now); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM change_log WHERE seq = ?`, r.seq); err != nil {
			return err
		}
	}
	return nil
}
