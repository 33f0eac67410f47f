package cloudsync

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/storage"
)

const (
	packagedEntries = 4000
	batchRows       = 2000
	batchBytes      = 1 << 20
	callRows        = 200 // rows per call of sync.push
)

// packageChanges turns entries of change_log into versions in the outbox and returns how many it
// made.
func (s *Service) packageChanges(ctx context.Context) (n int, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) (err error) { _, n, err = s.packageTx(tx); return err })
	return n, err
}

// packageTx is packageChanges in a transaction. l is the local state after it.
func (s *Service) packageTx(tx *storage.Tx) (l local, n int, err error) {
	if l, err = readLocal(tx); err != nil || l.hub == nil {
		return l, 0, err
	}
	if err := s.canSeal(l); err != nil {
		return l, 0, err
	}
	if err := s.relayNote(tx); err != nil {
		return l, 0, err
	}
	changes, order, err := readPending(tx, packagedEntries)
	if err != nil {
		return l, 0, err
	}
	for _, k := range order {
		done, err := s.packageRow(tx, &l, k, changes[k])
		if err != nil {
			return l, 0, fmt.Errorf("package %s %s: %w", k.table, k.id, err)
		}
		if done {
			n++
		}
	}
	return l, n, nil
}

func (s *Service) packageRow(tx *storage.Tx, l *local, k rowKey, p *pending) (bool, error) {
	forget := func() error {
		for _, seq := range p.seqs {
			if _, err := tx.Exec(`DELETE FROM change_log WHERE seq = ?`, seq); err != nil {
				return err
			}
		}
		return nil
	}
	t, ok := s.table(k.table)
	if !ok {
		return false, forget()
	}
	o, err := outboxOf(tx, k)
	if err != nil {
		return false, err
	}
	if o != nil && !o.parked {
		return false, nil // packaged after the hub has answered
	}
	if o != nil { // the hub rejected the previous version, which is replaced
		if err := t.retry(tx, k, *o, s.o.Private); err != nil {
			return false, err
		}
		if p, err = pendingOf(tx, k); err != nil {
			return false, err
		}
	}
	r, err := t.readRow(tx, k.id)
	if err != nil {
		return false, err
	}
	base, err := t.baseOf(tx, k.id)
	if err != nil {
		return false, err
	}
	if r != nil && base == nil && r.known {
		base = &r.Version // no captured base: nothing that it would hold has changed
	}
	if r == nil || r.user != l.user || t.Policy == storage.AppendRows && r.known && equal(r.Values[deletedAt], base.Values[deletedAt]) {
		return false, errors.Join(forget(), dropBase(tx, k))
	}
	dot, err := l.nextDot(tx)
	if err != nil {
		return false, err
	}
	v := t.pendingVersion(r, base, p, dot)
	var hlc int64
	for _, h := range p.stamps {
		hlc = max(hlc, h)
	}
	var prev any
	if base != nil && base.Meta.Dot != 0 {
		prev = int64(base.Meta.Dot)
	}
	payload, err := json.Marshal(map[string]any{"deletedAt": wireValue(timeColumn, v.Values[deletedAt]), "cols": t.cols(s.cipher, k.id, v)})
	if err != nil {
		return false, err
	}
	asBase, err := t.encodeBase(tx, k.id, v, s.o.Private)
	if err != nil {
		return false, err
	}
	if _, err := tx.Exec(`INSERT INTO sync_outbox (op_id, tbl, row_id, dot, prev_dot, hlc, payload, meta, base, txn, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		storage.NewID(), k.table, k.id, int64(dot), prev, hlc, string(payload), v.Meta.encode(), asBase, p.txn, tx.Now); err != nil {
		return false, err
	}
	return true, forget()
}

// sent is one row of a batch.
type sent struct {
	rowKey
	outboxRow
	rank int
}

type pushRow struct {
	ID        uuid.UUID       `json:"id"`
	Dot       string          `json:"dot"`
	PrevDot   *string         `json:"prevDot"`
	HLC       string          `json:"hlc"`
	Meta      string          `json:"meta"`
	SchemaVer int             `json:"schemaVer"`
	DeletedAt json.RawMessage `json:"deletedAt"`
	Cols      json.RawMessage `json:"cols"`
}

type pushTable struct {
	T    string    `json:"t"`
	Rows []pushRow `json:"rows"`
}

// nextBatch returns the oldest transactions of the outbox, without rows whose blobs must be sent first.
func (s *Service) nextBatch(ctx context.Context) (batch []sent, err error) {
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) { batch, _, err = s.readBatch(tx); return err }); err != nil {
		return nil, err
	}
	return s.withoutBlobs(batch)
}

// readBatch reads the oldest transactions from the outbox, parents before children. more reports whether
// it may hold others.
func (s *Service) readBatch(tx *storage.Tx) (batch []sent, more bool, err error) {
	size := 0
	full := errors.New("full")
	err = tx.Select(`SELECT `+outboxColumns+`, tbl, row_id FROM sync_outbox WHERE parked = 0 ORDER BY txn, dot LIMIT ?`, batchRows).Each(func(r storage.Row) error {
		var x sent
		var err error
		if x.outboxRow, err = scanOutbox(r, &x.table, &x.id); err != nil {
			return err
		}
		if size += len(x.payload); size > batchBytes && len(batch) > 0 {
			return full
		}
		x.rank = slices.IndexFunc(s.tables, func(t table) bool { return t.Table == x.table })
		batch = append(batch, x)
		return nil
	})
	if err != nil && !errors.Is(err, full) {
		return nil, false, err
	}
	slices.SortStableFunc(batch, func(a, b sent) int { return a.rank - b.rank })
	return batch, err != nil || len(batch) == batchRows, nil
}

// answer is the hub's result for one row.
type answer struct {
	result string
	dot    int64
}

var errAnswer = errors.New("cloudsync: the hub answered for rows that were not sent")

// pushText returns the JSON argument of sync.push.
func pushText(part []sent) (string, error) {
	var tables []pushTable
	for _, x := range part {
		if len(tables) == 0 || tables[len(tables)-1].T != x.table {
			tables = append(tables, pushTable{T: x.table})
		}
		row := pushRow{ID: x.id, Dot: fmt.Sprint(int64(x.dot)), HLC: fmt.Sprint(x.hlc), Meta: base64.StdEncoding.EncodeToString(x.rawMeta), SchemaVer: SchemaVersion}
		if x.prev.Valid {
			prev := fmt.Sprint(x.prev.Int64)
			row.PrevDot = &prev
		}
		if err := json.Unmarshal(x.payload, &row); err != nil {
			return "", err
		}
		last := &tables[len(tables)-1]
		last.Rows = append(last.Rows, row)
	}
	text, err := json.Marshal(map[string]any{"tables": tables})
	return string(text), err
}

// push sends the outbox until it is empty or the remaining rows need a pull first, which stale
// reports. A row that the hub cannot store becomes a dead letter, so it does not block the others.
func (s *Service) push(ctx context.Context, h link, r *Round) (stale bool, err error) {
	for {
		batch, err := s.nextBatch(ctx)
		if err != nil || len(batch) == 0 {
			return stale, err
		}
		if err := s.pushBatch(ctx, h, batch, r, &stale); err != nil {
			return stale, err
		}
		if stale {
			return true, nil
		}
	}
}

func (s *Service) pushBatch(ctx context.Context, h link, batch []sent, r *Round, stale *bool) error {
	before, answers, err := h.send(ctx, batch)
	if err != nil && !retryable(err) && len(batch) == 1 {
		// Sent again before it is given up: this device may have been removed while the hub stored the row.
		before, answers, err = h.send(ctx, batch)
	}
	switch {
	case err == nil:
		return s.acknowledge(ctx, batch, before, answers, r, stale)
	case retryable(err):
		return err
	case len(batch) == 1:
		r.DeadLetters++
		return s.deadLetter(ctx, batch[0], err)
	}
	half := len(batch) / 2
	if err := s.pushBatch(ctx, h, batch[:half], r, stale); err != nil {
		return err
	}
	return s.pushBatch(ctx, h, batch[half:], r, stale)
}

// acknowledge stores the hub's answers to a batch. before is the head of the feed before the push.
func (s *Service) acknowledge(ctx context.Context, batch []sent, before int64, answers []answer, r *Round, stale *bool) error {
	return s.db.WriteUnsynced(ctx, func(tx *storage.Tx) error {
		pushed, rest, err := s.acknowledgeMany(tx, batch, answers)
		if err != nil {
			return err
		}
		for _, i := range rest {
			x := batch[i]
			t, _ := s.table(x.table)
			switch answers[i].result {
			case "applied", "duplicate":
				pushed++
				err = t.acknowledged(tx, x.rowKey, x.outboxRow)
			case "gone": // pruned on the hub, so the row is sent as new
				err = t.restart(tx, x.rowKey, s.o.Private)
			case "stale":
				*stale = true
				_, err = tx.Exec(`UPDATE sync_outbox SET attempts = attempts + 1 WHERE op_id = ?`, x.op)
			case "future":
				*stale = true
				err = t.unpackage(tx, x.rowKey, x.outboxRow, tx.Now.UnixMilli()<<16, s.o.Private)
			case "schema":
				return errTooOld
			default:
				return fmt.Errorf("the hub answered %q", answers[i].result)
			}
			if err != nil {
				return err
			}
		}
		tx.AfterCommit(func() { r.Pushed += pushed })
		applied := 0
		for _, a := range answers {
			if a.result == "applied" {
				applied++
			}
		}
		return recordPush(tx, before, applied, pushed)
	})
}

// acknowledged records a packaged version as the one that the hub has.
func (t table) acknowledged(tx *storage.Tx, k rowKey, o outboxRow) error {
	if err := dropOutbox(tx, k); err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE `+t.Table+` SET sync_meta = ? WHERE id = ?`, o.rawMeta, k.id); err != nil {
		return err
	}
	var edited bool
	if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM change_log WHERE tbl = ? AND row_id = ?)`, k.table, k.id).Scan(&edited); err != nil {
		return err
	}
	if edited {
		return setBase(tx, k, o.base)
	}
	return dropBase(tx, k)
}

// unpackage turns a packaged version back into changes. Stamps later than most are reduced to it. Its
// counts stay, because a copy of this data may send the same version.
func (t table) unpackage(tx *storage.Tx, k rowKey, o outboxRow, most int64, private bool) error {
	meta, err := decodeMeta(o.rawMeta)
	if err != nil {
		return err
	}
	if err := t.keepCounts(tx, k, meta.Counters, private); err != nil {
		return err
	}
	stamps := map[int]int64{}
	for no, s := range meta.Stamps {
		if s.Dot == o.dot {
			stamps[no] = min(s.HLC, most)
		}
	}
	p, err := pendingOf(tx, k)
	if err != nil {
		return err
	}
	for no, hlc := range p.stamps {
		stamps[no] = max(stamps[no], min(hlc, most))
	}
	if err := dropOutbox(tx, k); err != nil {
		return err
	}
	op := "U"
	if !o.prev.Valid {
		op = "I"
	}
	return relog(tx, k, op, stamps)
}

// restart resets a row to one that the hub does not have, so that all of it is sent. Its counts stay,
// because other devices may send the row too.
func (t table) restart(tx *storage.Tx, k rowKey, private bool) error {
	r, err := t.readRow(tx, k.id)
	if err != nil || r == nil {
		return err
	}
	counts := r.Meta.Counters
	if base, err := t.baseOf(tx, k.id); err != nil {
		return err
	} else if base != nil {
		counts = base.Meta.Counters
	}
	o, err := outboxOf(tx, k)
	if err != nil {
		return err
	}
	if o != nil {
		meta, err := decodeMeta(o.rawMeta)
		if err != nil {
			return err
		}
		counts = meta.Counters
	}
	if _, err := tx.Exec(`UPDATE `+t.Table+` SET sync_meta = NULL WHERE id = ?`, k.id); err != nil {
		return err
	}
	stamps := map[int]int64{}
	for no := range 63 {
		if t.bits()>>no&1 == 1 {
			stamps[no] = tx.Now.UnixMilli() << 16
		}
	}
	return errors.Join(dropOutbox(tx, k), dropBase(tx, k), t.keepCounts(tx, k, counts, private), relog(tx, k, "I", stamps))
}

// retry turns a version that the hub rejected back into changes.
func (t table) retry(tx *storage.Tx, k rowKey, o outboxRow, private bool) error {
	if _, err := tx.Exec(`DELETE FROM sync_dead_letter WHERE direction = 'out' AND tbl = ? AND row_id = ?`, k.table, k.id); err != nil {
		return err
	}
	return t.unpackage(tx, k, o, math.MaxInt64, private)
}

// deadLetter sets a packaged version aside. The row stays as it is on this device; its next change
// is sent again.
func (s *Service) deadLetter(ctx context.Context, x sent, cause error) error {
	state, message := "", cause.Error()
	var pg *pgconn.PgError
	if errors.As(cause, &pg) {
		state, message = pg.Code, pg.Message
	}
	if state == undefinedTable {
		message = "The hub was set up by an older version of Helix. Run `helix sync setup` again to update it."
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := putDeadLetter(tx, "out", x.rowKey, x.payload, state, message); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE sync_outbox SET parked = 1 WHERE op_id = ?`, x.op)
		return err
	})
}

func putDeadLetter(tx *storage.Tx, direction string, k rowKey, payload []byte, state, message string) error {
	_, err := tx.Exec(`INSERT INTO sync_dead_letter (op_id, direction, tbl, row_id, payload, sqlstate, message, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (direction, tbl, row_id) DO UPDATE SET payload = excluded.payload, sqlstate = excluded.sqlstate, message = excluded.message, attempts = attempts + 1`,
		storage.NewID(), direction, k.table, k.id, string(payload), state, message, tx.Now)
	return err
}
