package cloudsync

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"helix/backend/bus"
	"helix/backend/storage"
)

const pageRows = 2000

// remote is one row of the feed.
type remote struct {
	rowKey
	seq, dot int64
	hlc      int64
	row      []byte // nil if this device wrote the version
}

// pull stores the entries of the hub's feed after the cursor, page by page, until there are no
// more. Each page is stored in one transaction together with the new cursor.
func (s *Service) pull(ctx context.Context, h link, r *Round) error {
	c := connection(h)
	for {
		after, err := s.cursor(ctx)
		if err != nil {
			return err
		}
		if after == 0 && c != nil { // the feed has all rows too, but is slower
			if err := s.initialCopy(ctx, c, r); err != nil {
				return err
			}
			if after, err = s.cursor(ctx); err != nil {
				return err
			}
		}
		page, end, err := h.page(ctx, after)
		if err != nil {
			return err
		}
		if end > after {
			if err := s.applyPage(ctx, page, end, r); err != nil {
				return err
			}
		}
		if len(page) == 0 {
			if err := h.ack(ctx, end); err != nil {
				return err
			}
			s.heard = end
			if err := s.unpackageFormer(ctx); err != nil || c == nil {
				return err
			}
			return s.endCopy(ctx, c)
		}
	}
}

// cursor returns the position up to which the feed is stored.
func (s *Service) cursor(ctx context.Context) (after int64, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		err := tx.QueryRow(`SELECT seq FROM sync_cursor`).Scan(&after)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return after, err
}

func fetchPage(ctx context.Context, c *pgx.Conn, after int64) (page []remote, end int64, err error) {
	rows, err := c.Query(ctx, pullQuery, after, pageRows)
	if err != nil {
		return nil, 0, err
	}
	return readPage(rows, after)
}

const pullQuery = `select seq, coalesce(table_name, ''), row_id, coalesce(dot, 0), coalesce(hlc, 0), row from sync.pull($1, $2) order by seq`

func readPage(rows pgx.Rows, after int64) (page []remote, end int64, err error) {
	defer rows.Close()
	end = after
	for rows.Next() {
		var x remote
		var id *uuid.UUID
		if err := rows.Scan(&x.seq, &x.table, &id, &x.dot, &x.hlc, &x.row); err != nil {
			return nil, 0, err
		}
		if id == nil {
			end = max(end, x.seq)
			continue
		}
		x.id = *id
		page = append(page, x)
	}
	return page, end, rows.Err()
}

// applyPage stores a page. A row that cannot be stored yet, for example because its parent has not
// arrived, becomes a dead letter and is retried after each page.
func (s *Service) applyPage(ctx context.Context, page []remote, end int64, r *Round) error {
	round := *r
	var applied []rowKey
	err := s.db.WriteUnsynced(ctx, func(tx *storage.Tx) error {
		*r, applied = round, nil
		l, err := readLocal(tx)
		if err != nil {
			return err
		}
		a := applier{s: s, tx: tx, l: &l, r: r, applied: &applied}
		if a.whole, err = copying(tx); err != nil {
			return err
		}
		rank := func(x remote) int {
			return slices.IndexFunc(s.tables, func(t table) bool { return t.Table == x.table })
		}
		slices.SortStableFunc(page, func(x, y remote) int { return rank(x) - rank(y) })
		waiting, err := a.waiting()
		if err != nil {
			return err
		}
		var high int64
		slices.SortStableFunc(waiting, func(x, y remote) int { return rank(x) - rank(y) })
		if err := tx.WithoutCapture(func() error {
			for _, x := range page {
				high = max(high, x.hlc)
				if err := a.apply(x); err != nil {
					return err
				}
			}
			for _, x := range waiting {
				if err := a.again(x); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		if err := a.storeConflicts(); err != nil {
			return err
		}
		if err := s.relayApplied(tx, applied, writerIn(page)); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE sync_local SET hlc_high = max(hlc_high, ?)`, high); err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO sync_cursor (one, seq, pulled) VALUES (1, ?, ?) ON CONFLICT (one) DO UPDATE SET seq = max(seq, excluded.seq), pulled = pulled + excluded.pulled`, end, r.Pulled-round.Pulled)
		return err
	})
	if err != nil {
		return err
	}
	user := s.db.LocalUser().ID
	changed := map[string]bool{}
	for _, k := range applied { // subscribers rebuild what they derive from these rows
		if !changed[k.table] {
			changed[k.table] = true
			bus.Publish(s.db.Bus(), user, storage.Changed{Table: k.table, Many: true})
		}
	}
	if len(applied) > 0 {
		bus.Publish(s.db.Bus(), user, Applied{Rows: len(applied)})
	}
	if changed["sync_conflicts"] || r.Conflicts > round.Conflicts {
		bus.Publish(s.db.Bus(), user, ConflictsChanged{})
	}
	return nil
}

// applier applies rows from the hub in one transaction.
type applier struct {
	s         *Service
	tx        *storage.Tx
	l         *local
	r         *Round
	applied   *[]rowKey
	whole     bool // the whole hub is read again
	conflicts []found
}

// found is a conflict with the row and the two versions it is about.
type found struct {
	rowKey
	Conflict
	mine, theirs     Dot
	mineAt, theirsAt int64 // times of the two writes in microseconds; 0 if unknown
}

// waiting returns the incoming rows that could not be stored so far.
func (a *applier) waiting() ([]remote, error) {
	return storage.Collect(a.tx.Select(`SELECT tbl, row_id, payload FROM sync_dead_letter WHERE direction = 'in' ORDER BY created_at`), func(r storage.Row) (x remote, err error) {
		err = r.Scan(&x.table, &x.id, &x.row)
		return x, err
	})
}

// again retries an incoming dead letter, unless a newer version of the row has replaced it.
func (a *applier) again(x remote) error {
	var still bool
	if err := a.tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM sync_dead_letter WHERE direction = 'in' AND tbl = ? AND row_id = ? AND payload = ?)`, x.table, x.id, string(x.row)).Scan(&still); err != nil || !still {
		return err
	}
	return a.apply(x)
}

// apply stores one row in a savepoint, so that a row that violates the schema does not stop the
// others.
func (a *applier) apply(x remote) error {
	if _, err := a.tx.Exec(`SAVEPOINT apply_row`); err != nil {
		return err
	}
	kept := len(a.conflicts)
	cause := a.row(x)
	if storage.ViolationOf(cause) == storage.UniqueViolation {
		if _, err := a.tx.Exec(`ROLLBACK TO apply_row`); err != nil {
			return err
		}
		a.conflicts = a.conflicts[:kept]
		renamed, err := a.rename(x)
		if err != nil {
			return err
		}
		if renamed {
			cause = a.row(x)
		}
	}
	if cause == nil {
		_, err := a.tx.Exec(`RELEASE apply_row`)
		return err
	}
	if !refused(cause) {
		return fmt.Errorf("apply %s %s: %w", x.table, x.id, cause)
	}
	a.conflicts = a.conflicts[:kept]
	if _, err := a.tx.Exec(`ROLLBACK TO apply_row`); err != nil {
		return err
	}
	if _, err := a.tx.Exec(`RELEASE apply_row`); err != nil {
		return err
	}
	a.r.DeadLetters++
	return putDeadLetter(a.tx, "in", x.rowKey, x.row, "", refusal(cause))
}

// refused reports whether an error is caused by the row rather than by the database.
func refused(err error) bool {
	var key keyError
	return errors.As(err, &key) || errors.Is(err, errMeta) || errors.Is(err, errRow) || storage.ViolationOf(err) != ""
}

var errRow = errors.New("not readable")

func refusal(err error) string {
	var key keyError
	switch kind := storage.ViolationOf(err); {
	case errors.As(err, &key):
		return "This item needs a key from another device."
	case errors.Is(err, errMeta):
		return "A newer version of Helix wrote this item."
	case kind == storage.ReferenceViolation:
		return "It belongs to an item that has not arrived."
	case kind == storage.UniqueViolation:
		return "Another item on this device has the same key."
	}
	return "This device cannot store it: a value is not allowed here."
}

func (a *applier) row(x remote) error {
	t, ok := a.s.table(x.table)
	if !ok {
		return nil // table of a newer version of Helix; the hub keeps the row
	}
	o, err := outboxOf(a.tx, x.rowKey)
	if err != nil {
		return err
	}
	if x.row == nil { // written by this device; the answer to its push may have been lost
		if o != nil && int64(o.dot) == x.dot {
			return t.acknowledged(a.tx, x.rowKey, *o)
		}
		return nil
	}
	theirs, err := t.hubRow(a.s.cipher, x.id, x.row)
	if err != nil {
		var key keyError
		if !errors.As(err, &key) && !errors.Is(err, errMeta) {
			err = errors.Join(errRow, err)
		}
		return err
	}
	mine, err := t.readRow(a.tx, x.id)
	if err != nil {
		return err
	}
	if mine == nil {
		if theirs.deleted() && !t.knownParent(a.tx, theirs) {
			return a.forget(x.rowKey)
		}
		return a.store(t, x.rowKey, theirs, false)
	}
	lost := false // the hub was restored, and its version was not derived from the one that it once had from here
	if mine.known {
		if a.whole {
			if err := a.fill(t, x.rowKey, mine, theirs, o); err != nil {
				return err
			}
		}
		switch theirs.Meta.Vector.Compare(mine.Meta.Vector) {
		case Equal:
			return a.forget(x.rowKey)
		case Before:
			if !a.whole {
				return a.forget(x.rowKey)
			}
			return a.resend(t, x.rowKey, mine, theirs, o)
		case Concurrent:
			lost = a.whole
		}
	}
	if o != nil && theirs.Meta.Vector.Covers(o.dot) { // the incoming version includes ours
		if err := t.acknowledged(a.tx, x.rowKey, *o); err != nil {
			return err
		}
		o = nil
	}
	if o != nil {
		if err := t.retry(a.tx, x.rowKey, *o, a.s.o.Private); err != nil {
			return err
		}
	}
	p, err := pendingOf(a.tx, x.rowKey)
	if err != nil {
		return err
	}
	if len(p.stamps) == 0 && !lost {
		return a.store(t, x.rowKey, theirs, true)
	}
	return a.merge(t, x.rowKey, mine, theirs, p)
}

// forget deletes the incoming dead letter of a row.
func (a *applier) forget(k rowKey) error {
	_, err := a.tx.Exec(`DELETE FROM sync_dead_letter WHERE direction = 'in' AND tbl = ? AND row_id = ?`, k.table, k.id)
	return err
}

// store overwrites a row with the hub's version.
func (a *applier) store(t table, k rowKey, v Version, exists bool) error {
	if err := t.writeRow(a.tx, a.l.user, k.id, v, exists, a.s.o.Private); err != nil {
		return err
	}
	a.r.Pulled++
	*a.applied = append(*a.applied, k)
	return errors.Join(dropBase(a.tx, k), a.forget(k))
}

// merge merges the hub's version with local changes to the row. Fields in which the result differs
// from the hub's version are logged as changes, to be sent.
func (a *applier) merge(t table, k rowKey, mine *localRow, theirs Version, p *pending) error {
	base, err := t.baseOf(a.tx, k.id)
	if err != nil {
		return err
	}
	if base == nil && mine.known {
		base = &mine.Version
	}
	dot, err := a.l.nextDot(a.tx)
	if err != nil {
		return err
	}
	local := t.pendingVersion(mine, base, p, dot)
	if base != nil && base.Meta.Dot == 0 {
		base = nil // it holds only counts
	}
	if o := theirs.Meta.Vector; a.whole && base != nil && o.Compare(base.Meta.Vector) == Concurrent {
		base = t.ancestor(local, theirs)
	}
	merged, conflicts := Merge(t.columns, base, local, theirs)
	stamps := map[int]int64{}
	for _, c := range append(slices.Clone(t.columns), deletedColumn) {
		// A denial that was lifted here and set again is a change, although the value is the same.
		again := c.Merge == storage.DenyWins && p.stamps[c.No] > 0 && base != nil && base.Meta.Stamps[c.No] == theirs.Meta.Stamps[c.No]
		if c.Merge == storage.PNCounter {
			again = !sameCount(merged.Meta.Counters[c.No], theirs.Meta.Counters[c.No])
		}
		if equal(merged.Values[c.Name], theirs.Values[c.Name]) && !again {
			continue
		}
		stamps[c.No] = merged.Meta.Stamps[c.No].HLC
		if stamps[c.No] == 0 {
			stamps[c.No] = a.tx.Now.UnixMilli() << 16
		}
	}
	stored := merged
	stored.Meta = theirs.Meta
	if len(stamps) == 0 { // identical to the hub's version, which is not sent again
		stored.Created, stored.Updated = theirs.Created, theirs.Updated
	}
	if err := t.writeRow(a.tx, a.l.user, k.id, stored, true, a.s.o.Private); err != nil {
		return err
	}
	for _, c := range conflicts {
		f := found{rowKey: k, Conflict: c}
		f.mine, f.mineAt = t.written(local, c.Field)
		f.theirs, f.theirsAt = t.written(theirs, c.Field)
		a.conflicts = append(a.conflicts, f)
	}
	a.r.Merged++
	*a.applied = append(*a.applied, k)
	if err := a.forget(k); err != nil {
		return err
	}
	if len(stamps) == 0 {
		return errors.Join(dropBase(a.tx, k), relog(a.tx, k, "U", nil))
	}
	after := theirs
	after.Meta = after.Meta.clone()
	maps.Copy(after.Meta.Counters, merged.Meta.Counters)
	text, err := t.encodeBase(a.tx, k.id, after, a.s.o.Private)
	if err != nil {
		return err
	}
	return errors.Join(setBase(a.tx, k, text), relog(a.tx, k, "U", stamps))
}

// knownParent reports whether all rows that v refers to exist here. A tombstone whose parent is
// missing can be skipped, because there is nothing to delete.
func (t table) knownParent(tx *storage.Tx, v Version) bool {
	known := true
	err := tx.Select(`SELECT "table", "from" FROM pragma_foreign_key_list(?)`, t.Table).Each(func(r storage.Row) error {
		var parent, column string
		if err := r.Scan(&parent, &column); err != nil {
			return err
		}
		if id, ok := v.Values[column].([]byte); ok {
			var there bool
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM `+parent+` WHERE id = ?)`, id).Scan(&there); err != nil {
				return err
			}
			known = known && there
		}
		return nil
	})
	return known && err == nil
}

// storeConflicts stores the conflicts that Merge reported. They are captured as changes of this
// device, so they are synced too.
func (a *applier) storeConflicts() error {
	for _, f := range a.conflicts {
		lo, hi := min(f.mine, f.theirs), max(f.mine, f.theirs)
		id := uuid.NewSHA1(conflictSpace, fmt.Appendf(nil, "%s|%s|%s|%d|%d", f.table, f.id, f.Field, lo, hi))
		status := "auto"
		if f.Open {
			status = "open"
			a.r.Conflicts++
		}
		values := []any{}
		for i, v := range []any{f.Base, f.Mine, f.Theirs} {
			name := []string{"base", "local_value", "remote_value"}[i]
			text, err := a.conflictText(f.rowKey, f.Field, v)
			if err != nil {
				return err
			}
			x, err := a.tx.SealedValue("sync_conflicts", storage.SyncedColumn{SyncedField: storage.SyncedField{Name: name}, Private: true}, id, text, a.s.o.Private)
			if err != nil {
				return err
			}
			values = append(values, x)
		}
		if _, err := a.tx.Exec(`INSERT INTO sync_conflicts (id, user_id, table_name, row_id, field, kind, strategy, base, local_value, remote_value, local_dot, remote_dot, local_at, remote_at, status, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif(?, 0), nullif(?, 0), ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			id, a.l.user, f.table, f.id, f.Field, f.Kind, f.Strategy, values[0], values[1], values[2], int64(f.mine), int64(f.theirs), f.mineAt, f.theirsAt, status, a.tx.Now, a.tx.Now); err != nil {
			return err
		}
	}
	return nil
}

var conflictSpace = uuid.MustParse("0b6f3b1e-1f0c-5c55-8a53-2f6e7c4f2a10")

// conflictText returns a value as sync_conflicts stores it: the JSON that the hub uses, or nil for
// NULL.
func (a *applier) conflictText(k rowKey, field string, v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	if t, ok := a.s.table(k.table); ok {
		if c, ok := t.column(field); ok {
			v = wireValue(c, v)
		}
	}
	if text, ok := v.(string); ok && field == unit {
		return text, nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}
