package cloudsync

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// This file is the bulk form of push.go: it packages rows that the hub does not have yet, and
// stores its acknowledgements, with a few statements per hundred rows instead of several per row.

const bulkStatement = 100 // rows per statement

// fresh is a row that was written once and that the hub does not have yet.
type fresh struct {
	rowKey
	seq, fields, hlc, txn int64
}

// packageFresh packages the new rows among the oldest entries of change_log and returns how many it
// packaged. It leaves all other rows to packageRow.
func (s *Service) packageFresh(tx *storage.Tx, l *local) (int, error) {
	entries := make([]fresh, 0, packagedEntries)
	seen := make(map[rowKey]int, packagedEntries) // number of entries per row
	insert := map[int64]bool{}
	if err := tx.Select(`SELECT seq, tbl, row_id, op, fields, hlc, txn FROM change_log ORDER BY seq LIMIT ?`, packagedEntries).Each(func(r storage.Row) error {
		var f fresh
		var op string
		if err := r.Scan(&f.seq, &f.table, &f.id, &op, &f.fields, &f.hlc, &f.txn); err != nil {
			return err
		}
		entries = append(entries, f)
		seen[f.rowKey]++
		insert[f.seq] = op == "I"
		return nil
	}); err != nil {
		return 0, err
	}
	entries = slices.DeleteFunc(entries, func(f fresh) bool { return seen[f.rowKey] > 1 || !insert[f.seq] })
	if len(entries) < bulkStatement { // too few to be worth a bulk statement
		return 0, nil
	}
	byTable := map[string][]fresh{}
	for _, f := range entries {
		byTable[f.table] = append(byTable[f.table], f)
	}
	n := 0
	for _, t := range s.tables {
		for part := range slices.Chunk(byTable[t.Table], bulkStatement) {
			done, err := s.packagePart(tx, l, t, part)
			if err != nil {
				return n, fmt.Errorf("package %s: %w", t.Table, err)
			}
			n += done
		}
	}
	_, err := tx.Exec(`UPDATE sync_local SET ctr = ?`, l.ctr)
	return n, err
}

// marks returns n comma-separated SQL placeholders.
func marks(n int) string { return "?" + strings.Repeat(", ?", n-1) }

// packagePart packages new rows of one table into the outbox and returns how many it packaged.
func (s *Service) packagePart(tx *storage.Tx, l *local, t table, part []fresh) (int, error) {
	byID := make(map[uuid.UUID]fresh, len(part))
	args := []any{t.Table}
	for _, f := range part {
		byID[f.id] = f
	}
	names := []string{"r.id", "r.created_at", "r.updated_at", "r." + deletedAt}
	for _, c := range t.columns {
		if c.Child == "" {
			names = append(names, "r."+c.Name)
		} else {
			names = append(names, `(SELECT json_group_array(v) FROM (SELECT `+c.Field+` AS v FROM `+c.Child+` WHERE `+c.ChildKey+` = r.id ORDER BY 1))`)
		}
	}
	args = append(args, l.user)
	for _, f := range part {
		args = append(args, f.id)
	}
	// The unary plus keeps SQLite from choosing the index on user_id, which would scan all rows of
	// the user.
	rows, err := tx.Query(`SELECT `+strings.Join(names, ", ")+` FROM `+t.Table+` r WHERE NOT EXISTS (SELECT 1 FROM sync_outbox o WHERE o.tbl = ? AND o.row_id = r.id)
		AND +r.user_id = ? AND r.sync_meta IS NULL AND r.id IN (`+marks(len(part))+`)`, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	values, into := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	type packaged struct {
		fresh
		args []any
	}
	var out []packaged
	w := rowWriter{table: t, tx: tx, cipher: s.cipher, private: s.o.Private}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return 0, err
		}
		b, _ := values[0].([]byte)
		if len(b) != len(uuid.UUID{}) {
			continue
		}
		f := byID[uuid.UUID(b)]
		out = append(out, packaged{fresh: f})
		p := &out[len(out)-1]
		l.ctr++
		dot := newDot(l.site, l.ctr)
		meta := t.freshMeta(dot, f.hlc, f.fields, values[4:])
		payload, base, err := w.write(f.id, values[1:], meta)
		if err != nil {
			return 0, err
		}
		p.args = []any{storage.NewID(), t.Table, f.id, int64(dot), f.hlc, payload, meta, base, f.txn, tx.Now}
	}
	if err := rows.Err(); err != nil || len(out) == 0 {
		return 0, err
	}
	if err := rows.Close(); err != nil {
		return 0, err
	}
	for some := range slices.Chunk(out, copyStatement) {
		args, seqs := make([]any, 0, 10*len(some)), make([]any, 0, len(some))
		for _, p := range some {
			args, seqs = append(args, p.args...), append(seqs, p.seq)
		}
		const one = "(?, ?, ?, ?, NULL, ?, ?, ?, ?, ?, ?)"
		if _, err := tx.Exec(`INSERT INTO sync_outbox (op_id, tbl, row_id, dot, prev_dot, hlc, payload, meta, base, txn, created_at) VALUES `+one+strings.Repeat(", "+one, len(some)-1), args...); err != nil {
			return 0, err
		}
		if _, err := tx.Exec(`DELETE FROM change_log WHERE seq IN (`+marks(len(seqs))+`)`, seqs...); err != nil {
			return 0, err
		}
	}
	return len(out), nil
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

// rowWriter encodes rows as JSON, both for the hub and for sync_base.
type rowWriter struct {
	table
	tx      *storage.Tx
	cipher  Cipher
	private bool
	out     []byte
}

// write encodes one row. stored holds created_at, updated_at, deleted_at and then the columns, as
// SQLite stores them.
func (w *rowWriter) write(id uuid.UUID, stored []any, meta []byte) (payload, base string, err error) {
	plain := make([]any, len(w.columns))
	for i, c := range w.columns {
		plain[i] = stored[3+i]
		if c.Sealed || c.Private {
			if plain[i], err = w.tx.UnsealedValue(w.Table, c, id, plain[i]); err != nil {
				return "", "", err
			}
		}
	}
	w.out = append(w.out[:0], `{"deletedAt":`...)
	w.value(wireValue(timeColumn, stored[2]))
	w.out = append(w.out, `,"cols":{"created_at":`...)
	w.value(wireValue(timeColumn, stored[0]))
	w.out = append(w.out, `,"updated_at":`...)
	w.value(wireValue(timeColumn, stored[1]))
	for i, c := range w.columns {
		x := wireValue(c, plain[i])
		if s, ok := x.(string); ok && c.Sensitive {
			x = w.cipher.seal(w.Table, c.Name, id, s)
		}
		w.key(c.Name)
		w.value(x)
	}
	payload = string(append(w.out, '}', '}'))
	w.out = append(w.out[:0], `{"sync_meta":"`...)
	w.out = append(hex.AppendEncode(w.out, meta), '"')
	for i, name := range []string{"created_at", "updated_at", deletedAt} {
		w.key(name)
		w.value(stored[i])
	}
	for i, c := range w.columns {
		x := plain[i]
		if c.Sealed || c.Private && w.private {
			if x, err = w.tx.SealedValue(w.Table, c, id, x, w.private); err != nil {
				return "", "", err
			}
		}
		name := c.Name
		if b, ok := x.([]byte); ok {
			x = hex.EncodeToString(b)
			if c.Private {
				name += ":hex"
			}
		}
		w.key(name)
		w.value(x)
	}
	return payload, string(append(w.out, '}')), nil
}

func (w *rowWriter) key(name string) {
	w.out = append(w.out, ',', '"')
	w.out = append(w.out, name...)
	w.out = append(w.out, '"', ':')
}

func (w *rowWriter) value(v any) {
	switch x := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case int64:
		w.out = strconv.AppendInt(w.out, x, 10)
	case string:
		w.out = appendJSON(w.out, x)
	default:
		b, _ := json.Marshal(v) // cannot fail for a scalar
		w.out = append(w.out, b...)
	}
}

// appendJSON appends s to b as a JSON string. The common case, a string without escapes, is copied
// as is.
func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			text, _ := json.Marshal(s) // cannot fail
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// acknowledgeMany is the bulk form of acknowledged, for rows that did not change since they were
// packaged. It returns how many it acknowledged, and the indexes within batch of the rows that it
// left.
func (s *Service) acknowledgeMany(tx *storage.Tx, batch []sent, answers []answer) (done int, rest []int, err error) {
	if len(batch) <= callRows {
		for i := range batch {
			rest = append(rest, i)
		}
		return 0, rest, nil
	}
	edited := map[uuid.UUID]bool{}
	ids, err := storage.Collect(tx.Select(`SELECT DISTINCT row_id FROM change_log WHERE row_id IN (SELECT row_id FROM sync_outbox)`), storage.RowTo[uuid.UUID])
	if err != nil {
		return 0, nil, err
	}
	for _, id := range ids {
		edited[id] = true
	}
	byTable := map[string][]sent{}
	for i, x := range batch {
		if r := answers[i].result; edited[x.id] || r != "applied" && r != "duplicate" {
			rest = append(rest, i)
			continue
		}
		byTable[x.table] = append(byTable[x.table], x)
		done++
	}
	for name, list := range byTable {
		for part := range slices.Chunk(list, bulkStatement) {
			if err := acknowledgePart(tx, name, part); err != nil {
				return 0, nil, err
			}
		}
	}
	return done, rest, nil
}

func acknowledgePart(tx *storage.Tx, name string, part []sent) error {
	var metas, ops, based []any
	for _, x := range part {
		metas, ops = append(metas, x.id, x.rawMeta), append(ops, x.op)
		if x.prev.Valid {
			based = append(based, x.id)
		}
	}
	if _, err := tx.Exec(`UPDATE `+name+` SET sync_meta = v.column2 FROM (VALUES (?, ?)`+strings.Repeat(", (?, ?)", len(part)-1)+`) v WHERE id = v.column1`, metas...); err != nil {
		return err
	}
	if len(based) > 0 {
		if _, err := tx.Exec(`DELETE FROM sync_base WHERE tbl = ? AND row_id IN (`+marks(len(based))+`)`, append([]any{name}, based...)...); err != nil {
			return err
		}
	}
	_, err := tx.Exec(`DELETE FROM sync_outbox WHERE op_id IN (`+marks(len(ops))+`)`, ops...)
	return err
}
