package cloudsync

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// tableCopy describes one table as it arrives over binary COPY: the columns of copyHead, the hub's
// columns, and extra where the hub has it.
type tableCopy struct {
	table
	cipher Cipher
	after  uuid.UUID
	have   []storage.SyncedColumn // the hub's columns, in its order
	names  []string               // columns of the local row, in the order of copied.values
	own    []int                  // indexes in have of the columns that the local table has
	child  int                    // index in have of the column that is a child table locally; -1 if none
}

var copyHead = []storage.SyncedColumn{
	{SyncedField: storage.SyncedField{Name: "id"}, Hub: "uuid"}, {SyncedField: storage.SyncedField{Name: "dot"}, Hub: "bigint"},
	{SyncedField: storage.SyncedField{Name: "hlc"}, Hub: "bigint"}, {SyncedField: storage.SyncedField{Name: "sync_meta"}, Hub: "bytea"},
	{SyncedField: storage.SyncedField{Name: "created_at"}, Hub: "timestamptz"}, {SyncedField: storage.SyncedField{Name: "updated_at"}, Hub: "timestamptz"},
	{SyncedField: storage.SyncedField{Name: deletedAt}, Hub: "timestamptz"}, {SyncedField: storage.SyncedField{Name: "hub_device_id"}, Hub: "uuid"},
}

func newTableCopy(t table, c Cipher, hub []string) tableCopy {
	x := tableCopy{table: t, cipher: c, child: -1, names: []string{"id", "user_id", "sync_meta", "created_at", "updated_at", deletedAt}}
	for _, col := range t.columns {
		if !slices.Contains(hub, col.Name) {
			continue
		}
		if col.Child != "" {
			x.child = len(x.have)
		} else {
			x.own = append(x.own, len(x.have))
			x.names = append(x.names, col.Name)
		}
		x.have = append(x.have, col)
	}
	return x
}

func (x tableCopy) query() string {
	var names []string
	for _, c := range slices.Concat(copyHead, x.have) {
		names = append(names, `"`+c.Name+`"`)
	}
	return fmt.Sprintf(`copy (select %s, nullif(extra, '{}')::text from public.%s where id > '%s' order by id) to stdout (format binary)`, strings.Join(names, ", "), x.Table, x.after)
}

// copied is one decoded row.
type copied struct {
	id     uuid.UUID
	writer uuid.UUID
	hlc    int64
	raw    []byte // the tuple; values alias it
	values []any  // in the order of names; user_id is set later
	set    []string
	odd    bool // cannot be stored by a plain insert
}

// decoder decodes a binary COPY stream into batches of rows.
type decoder struct {
	tableCopy
	rows  int // rows per batch
	full  func([]copied) error
	begun bool
	rest  []byte // an incomplete tuple, kept for the next Write
	batch []copied
	size  int
}

var (
	errCopy       = errors.New("cloudsync: not a binary COPY")
	copySignature = []byte("PGCOPY\n\xff\r\n\x00")
)

const copyHeader = 19 // length of the signature, the flags and the extension length

// Write decodes the next part of the stream.
func (d *decoder) Write(p []byte) (int, error) {
	b := p
	if len(d.rest) > 0 {
		d.rest = append(d.rest, p...)
		b = d.rest
	}
	if !d.begun {
		if len(b) < copyHeader {
			d.rest = append(d.rest[:0], b...)
			return len(p), nil
		}
		if string(b[:len(copySignature)]) != string(copySignature) {
			return 0, errCopy
		}
		d.begun, b = true, b[copyHeader:]
	}
	for {
		n := tupleLength(b)
		if n < 0 {
			break
		}
		if n == 2 && int16(binary.BigEndian.Uint16(b)) < 0 { // trailer
			b = b[n:]
			continue
		}
		if int(binary.BigEndian.Uint16(b)) != len(copyHead)+len(d.have)+1 {
			return 0, errCopy
		}
		if err := d.tuple(slices.Clone(b[2:n])); err != nil {
			return 0, err
		}
		b = b[n:]
	}
	d.rest = append(d.rest[:0], b...)
	return len(p), nil
}

// tupleLength returns the length of the first tuple in bytes, or -1 if b does not hold all of it.
func tupleLength(b []byte) int {
	if len(b) < 2 {
		return -1
	}
	n := 2
	for range max(0, int(int16(binary.BigEndian.Uint16(b)))) {
		if len(b) < n+4 {
			return -1
		}
		size := int32(binary.BigEndian.Uint32(b[n:]))
		if n += 4 + int(max(0, size)); len(b) < n {
			return -1
		}
	}
	return n
}

func (d *decoder) tuple(raw []byte) error {
	row := copied{raw: raw, values: make([]any, len(d.names))}
	b := raw
	next := func() (field []byte, null bool) {
		size := int32(binary.BigEndian.Uint32(b))
		if b = b[4:]; size < 0 {
			return nil, true
		}
		field, b = b[:size:size], b[size:]
		return field, false
	}
	head := make([]any, len(copyHead))
	for i, c := range copyHead {
		f, null := next()
		v, err := copyValue(c.Hub, f, null)
		if err != nil {
			return err
		}
		head[i] = v
	}
	id, _ := head[0].([]byte)
	if len(id) != len(row.id) {
		return errCopy
	}
	copy(row.id[:], id)
	writer, _ := head[7].([]byte)
	copy(row.writer[:], writer)
	row.hlc, _ = head[2].(int64)
	meta, _ := head[3].([]byte)
	row.odd = !validMeta(meta)
	row.values[0], row.values[2], row.values[3], row.values[4], row.values[5] = id, meta, head[4], head[5], head[6]
	place := len(row.values) - len(d.own)
	for i, c := range d.have {
		f, null := next()
		v, err := copyValue(c.Hub, f, null)
		if err != nil {
			return err
		}
		if s, ok := v.(string); ok && c.Sensitive {
			if v, err = d.cipher.open(d.Table, c.Name, row.id, s); err != nil {
				row.odd = true
			}
		}
		if i == d.child {
			row.set = readSet(v)
			continue
		}
		row.values[place] = v
		place++
	}
	if _, null := next(); !null { // columns that the hub lacked when the row was written
		row.odd = true
	}
	d.batch = append(d.batch, row)
	if d.size += len(raw); len(d.batch) == d.rows || d.size >= copyBytes {
		return d.flush()
	}
	return nil
}

// flush passes on the rows decoded so far.
func (d *decoder) flush() error {
	if len(d.batch) == 0 {
		return nil
	}
	batch := d.batch
	d.batch, d.size = nil, 0
	return d.full(batch)
}

const epoch2000 = 946_684_800_000_000 // 2000-01-01 in microseconds since 1970, the epoch of PostgreSQL timestamps

// copyValue decodes a field of a binary COPY into the form in which SQLite stores it.
func copyValue(kind string, b []byte, null bool) (any, error) {
	if null {
		return nil, nil
	}
	switch kind {
	case "text":
		return string(b), nil
	case "uuid", "bytea":
		return b, nil
	case "boolean":
		if len(b) == 1 {
			return int64(b[0]), nil
		}
	case "bigint", "timestamptz", "double precision":
		if len(b) != 8 {
			break
		}
		n := int64(binary.BigEndian.Uint64(b)) //nolint:gosec // reinterpreted as two's complement
		switch kind {
		case "timestamptz":
			return n + epoch2000, nil
		case "double precision":
			return math.Float64frombits(uint64(n)), nil //nolint:gosec // the bits of the float
		}
		return n, nil
	}
	return nil, fmt.Errorf("%w: %d bytes of %s", errCopy, len(b), kind)
}

// feedRow converts a row to the form that sync.pull returns.
func (x tableCopy) feedRow(r copied) (remote, error) {
	out := map[string]any{}
	b := r.raw
	f := remote{rowKey: rowKey{x.Table, r.id}, hlc: r.hlc}
	for _, c := range slices.Concat(copyHead, x.have, []storage.SyncedColumn{{SyncedField: storage.SyncedField{Name: "extra"}, Hub: "text"}}) {
		size := int32(binary.BigEndian.Uint32(b))
		b = b[4:]
		n := int(max(0, size))
		v, err := copyValue(c.Hub, b[:n], size < 0)
		if err != nil {
			return f, err
		}
		b = b[n:]
		switch {
		case c.Name == "dot":
			f.dot, _ = v.(int64)
		case c.Name == "extra" && v != nil:
			s, _ := v.(string)
			if out["extra"], err = readObject([]byte(s)); err != nil {
				return f, err
			}
			continue
		}
		out[c.Name] = wireValue(c, v)
	}
	f.row = []byte(jsonText(out))
	return f, nil
}

// insertRows inserts rows with one statement, and their child rows with another.
func (x tableCopy) insertRows(tx *storage.Tx, user uuid.UUID, part []copied, private bool) error {
	args := make([]any, 0, len(part)*len(x.names))
	var children []any
	for _, r := range part {
		r.values[1] = user[:]
		first := len(x.names) - len(x.own)
		args = append(args, r.values[:first]...)
		for i, k := range x.own {
			v := r.values[first+i]
			if c := x.have[k]; c.Sealed || c.Private && private {
				var err error
				if v, err = tx.SealedValue(x.Table, c, r.id, v, private); err != nil {
					return err
				}
			}
			args = append(args, v)
		}
		for _, s := range r.set {
			children = append(children, r.id[:], user[:], s)
		}
	}
	one := "(?" + strings.Repeat(", ?", len(x.names)-1) + ")"
	if _, err := tx.Exec(`INSERT INTO `+x.Table+` (`+strings.Join(x.names, ", ")+`) VALUES `+one+strings.Repeat(", "+one, len(part)-1), args...); err != nil || x.child < 0 {
		return err
	}
	c := x.have[x.child]
	for some := range slices.Chunk(children, 3*100) {
		if _, err := tx.Exec(`INSERT INTO `+c.Child+` (`+c.ChildKey+`, user_id, `+c.Field+`) VALUES (?, ?, ?)`+strings.Repeat(", (?, ?, ?)", len(some)/3-1)+` ON CONFLICT DO NOTHING`, some...); err != nil {
			return err
		}
	}
	return nil
}

// validMeta reports whether b is a valid encoding of a Meta.
func validMeta(b []byte) bool {
	if len(b) == 0 || b[0] != metaVersion {
		return false
	}
	b = b[1:]
	ok := true
	num := func() uint64 {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > math.MaxInt64 {
			ok = false
			return 0
		}
		b = b[k:]
		return n
	}
	each := func(fn func()) {
		for n := num(); n > 0 && ok; n-- {
			fn()
		}
	}
	num()
	each(func() { num(); num() })
	each(func() { num(); num(); num() })
	each(func() { num(); each(func() { num(); num(); num() }) })
	return ok && len(b) == 0
}
