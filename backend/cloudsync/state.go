package cloudsync

import (
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"github.com/google/uuid"

	"helix/backend/storage"
)

// SchemaVersion is the version of the synced columns that this build writes.
const SchemaVersion = 1

// local is the row of sync_local.
type local struct {
	user       uuid.UUID
	site, ctr  int64
	epoch      uuid.UUID
	nextEpoch  uuid.UUID // proposed to the hub, not yet confirmed
	high       int64     // highest clock value seen
	offset     int64     // microseconds to add to the local clock to get the hub's
	keyVersion int
	hub        *hubConfig // nil if not enrolled
	greeting   greeting   // the hub's last answer to hello
	hubID      uuid.UUID  // hub that sync_meta refers to; kept after a disconnect
}

func readLocal(tx *storage.Tx) (l local, err error) {
	var site sql.NullInt64
	var hub sql.NullString
	var epoch, next, user, hubID []byte
	err = tx.QueryRow(`SELECT user_id, site, ctr, epoch, hlc_high, offset_us, key_version, hub, hub_id, next_epoch FROM sync_local`).Scan(&user, &site, &l.ctr, &epoch, &l.high, &l.offset, &l.keyVersion, &hub, &hubID, &next)
	if errors.Is(err, sql.ErrNoRows) {
		return l, nil
	}
	if err != nil {
		return l, err
	}
	copy(l.user[:], user)
	copy(l.epoch[:], epoch)
	copy(l.nextEpoch[:], next)
	copy(l.hubID[:], hubID)
	l.site = site.Int64
	if hub.Valid {
		l.hub = &hubConfig{}
		err = json.Unmarshal([]byte(hub.String), l.hub)
	}
	return l, err
}

func writeHub(tx *storage.Tx, h *hubConfig) error {
	if h == nil {
		_, err := tx.Exec(`UPDATE sync_local SET hub = NULL`)
		return err
	}
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE sync_local SET hub = ?`, string(text))
	return err
}

// nextDot returns the next version number of this site. It stores the counter, so that no number is
// used twice.
func (l *local) nextDot(tx *storage.Tx) (Dot, error) {
	l.ctr++
	_, err := tx.Exec(`UPDATE sync_local SET ctr = ?`, l.ctr)
	return newDot(l.site, l.ctr), err
}

// pending holds the captured changes of one row that were not packaged yet.
type pending struct {
	stamps map[int]int64 // clock of the last change, by field number
	seqs   []int64       // entries in change_log
	txn    int64         // transaction of the first entry
	insert bool
}

type rowKey struct {
	table string
	id    uuid.UUID
}

func scanKey(r storage.Row) (k rowKey, err error) {
	err = r.Scan(&k.table, &k.id)
	return k, err
}

// readPending reads the rows that the oldest entries of change_log are about, at most limit entries,
// with all entries of these rows: a version holds the current values, so each of them needs its stamp.
// It returns the changes by row, and the rows in the order of their first entries.
func readPending(tx *storage.Tx, limit int) (map[rowKey]*pending, []rowKey, error) {
	out, order := map[rowKey]*pending{}, []rowKey{}
	entries, last := 0, int64(0)
	add := func(r storage.Row) error {
		var k rowKey
		var op string
		var seq, fields, hlc, txn int64
		if err := r.Scan(&seq, &k.table, &k.id, &op, &fields, &hlc, &txn); err != nil {
			return err
		}
		entries, last = entries+1, seq
		p := out[k]
		if p == nil {
			p = &pending{stamps: map[int]int64{}, txn: txn}
			out[k], order = p, append(order, k)
		}
		p.add(seq, op, fields, hlc)
		return nil
	}
	const columns = `SELECT seq, tbl, row_id, op, fields, hlc, txn FROM change_log `
	if err := tx.Select(columns+`ORDER BY seq LIMIT ?`, limit).Each(add); err != nil || entries < limit {
		return out, order, err
	}
	return out, order, tx.Select(columns+`WHERE seq > ?1 AND (tbl, row_id) IN (SELECT tbl, row_id FROM change_log WHERE seq <= ?1) ORDER BY seq`, last).Each(add)
}

func (p *pending) add(seq int64, op string, fields, hlc int64) {
	p.seqs, p.insert = append(p.seqs, seq), p.insert || op == "I"
	for no := range 63 {
		if fields>>no&1 == 1 {
			p.stamps[no] = max(p.stamps[no], hlc)
		}
	}
}

// pendingOf returns the changes of one row in change_log.
func pendingOf(tx *storage.Tx, k rowKey) (*pending, error) {
	p := &pending{stamps: map[int]int64{}}
	return p, tx.Select(`SELECT seq, op, fields, hlc, txn FROM change_log WHERE tbl = ? AND row_id = ? ORDER BY seq DESC`, k.table, k.id).Each(func(r storage.Row) error {
		var op string
		var seq, fields, hlc int64
		if err := r.Scan(&seq, &op, &fields, &hlc, &p.txn); err != nil {
			return err
		}
		p.add(seq, op, fields, hlc)
		return nil
	})
}

// outboxRow is a packaged version that the hub has not acknowledged.
type outboxRow struct {
	op      uuid.UUID
	dot     Dot
	prev    sql.NullInt64
	hlc     int64
	payload []byte
	rawMeta []byte
	base    string
	parked  bool
}

const outboxColumns = `op_id, dot, prev_dot, hlc, payload, meta, base, parked`

func scanOutbox(r storage.Row, more ...any) (o outboxRow, err error) {
	err = r.Scan(append([]any{&o.op, &o.dot, &o.prev, &o.hlc, &o.payload, &o.rawMeta, &o.base, &o.parked}, more...)...)
	return o, err
}

// outboxOf returns the packaged version of a row; nil if there is none.
func outboxOf(tx *storage.Tx, k rowKey) (*outboxRow, error) {
	o, err := scanOutbox(tx.QueryRow(`SELECT `+outboxColumns+` FROM sync_outbox WHERE tbl = ? AND row_id = ?`, k.table, k.id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &o, err
}

func dropOutbox(tx *storage.Tx, k rowKey) error {
	_, err := tx.Exec(`DELETE FROM sync_outbox WHERE tbl = ? AND row_id = ?`, k.table, k.id)
	return err
}

// baseOf returns the hub's version of a row from before the first local edit; nil if there is none.
// Former versions of Helix left bases that are older than the row's last common version with the hub.
// Such a base supplies only the values: a version derived from its metadata would be rejected as stale.
func (t table) baseOf(tx *storage.Tx, id uuid.UUID) (*Version, error) {
	var text string
	var meta []byte
	err := tx.QueryRow(`SELECT row, (SELECT sync_meta FROM `+t.Table+` WHERE id = row_id) FROM sync_base WHERE tbl = ? AND row_id = ?`, t.Table, id).Scan(&text, &meta)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v, err := t.decodeBase(tx, id, text)
	if err != nil || meta == nil {
		return v, err
	}
	common, err := decodeMeta(meta)
	if err == nil && v.Meta.Vector.Compare(common.Vector) == Before {
		v.Meta = common
	}
	return v, err
}

func setBase(tx *storage.Tx, k rowKey, text string) error {
	_, err := tx.Exec(`INSERT INTO sync_base (tbl, row_id, row) VALUES (?, ?, ?) ON CONFLICT (tbl, row_id) DO UPDATE SET row = excluded.row`, k.table, k.id, text)
	return err
}

func dropBase(tx *storage.Tx, k rowKey) error {
	_, err := tx.Exec(`DELETE FROM sync_base WHERE tbl = ? AND row_id = ?`, k.table, k.id)
	return err
}

// relog replaces the entries of a row in change_log by changes of the fields in stamps.
func relog(tx *storage.Tx, k rowKey, op string, stamps map[int]int64) error {
	if _, err := tx.Exec(`DELETE FROM change_log WHERE tbl = ? AND row_id = ?`, k.table, k.id); err != nil {
		return err
	}
	byClock := map[int64]int64{}
	for no, hlc := range stamps {
		byClock[hlc] |= 1 << no
	}
	for hlc, fields := range byClock {
		if _, err := tx.Exec(`INSERT INTO change_log (tbl, row_id, op, fields, hlc, txn, at) SELECT ?, ?, ?, ?, ?, txn, ? FROM sync_local`, k.table, k.id, op, fields, hlc, tx.Now); err != nil {
			return err
		}
	}
	return nil
}

// pendingVersion returns a row as this device would package it. Its stamps and counters reflect the
// changes since base.
func (t table) pendingVersion(r *localRow, base *Version, p *pending, dot Dot) Version {
	v := Version{Values: r.Values, Created: r.Created, Updated: r.Updated, Meta: newMeta()}
	if base != nil {
		v.Meta = base.Meta.clone()
	}
	v.Meta.Dot, v.Meta.Vector[dot.Site()] = dot, dot.Ctr()
	for no, hlc := range p.stamps {
		v.Meta.Stamps[no] = Stamp{Dot: dot, HLC: hlc}
	}
	for _, c := range t.columns {
		if _, written := p.stamps[c.No]; c.Merge == storage.ORSet && written && base != nil {
			v.Meta.Adds[c.No] = addedBy(dot, v.Meta.Adds[c.No], base.Values[c.Name], r.Values[c.Name])
		}
		if c.Merge != storage.PNCounter {
			continue
		}
		now, _ := r.Values[c.Name].(int64)
		if v.Meta.Counters[c.No] == nil {
			v.Meta.Counters[c.No] = map[int64]Count{}
		}
		n := v.Meta.Counters[c.No][dot.Site()]
		if d := now - total(v.Meta.Counters[c.No]); d > 0 {
			n.Plus += d
		} else {
			n.Minus -= d
		}
		v.Meta.Counters[c.No][dot.Site()] = n
	}
	return v
}

// addedBy returns the versions that added the elements of a set, after the version dot has changed it.
func addedBy(dot Dot, former map[string]Dot, before, now any) map[string]Dot {
	was, out := readSet(before), map[string]Dot{}
	for _, s := range readSet(now) {
		if !slices.Contains(was, s) {
			out[s] = dot
		} else if former[s] > 0 {
			out[s] = former[s]
		}
	}
	return out
}
