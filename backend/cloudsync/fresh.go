package cloudsync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"helix/backend/storage"
)

// This file sends many new rows, such as those of an import or of a first connection. While the hub
// stores one batch, the next ones are read and encoded, and the answers to the previous ones stored.

const (
	manyFresh = 200 // new rows that are worth a batch
	inFlight  = 4   // batches that are encoded and not acknowledged
)

// delivery is a batch with the hub's answer.
type delivery struct {
	parts  []part
	before int64 // head of the feed before the batch
	whole  bool  // the hub stored all rows
}

func (d delivery) rows() (n int) {
	for _, p := range d.parts {
		n += len(p.rows)
	}
	return n
}

// freshPush is one run of pushFresh.
type freshPush struct {
	s       *Service
	r       *Round
	after   int64              // entry of change_log up to which rows were read
	end     int64              // last entry when the run began
	scanned int64              // entry up to which touched is complete
	touched map[uuid.UUID]bool // rows that were edited after they were written; sent row by row later
	room    int                // bytes per batch
	columns map[string][]string
	readers map[string]*partReader
}

// pushFresh sends the rows that the hub does not have yet, if there are many. It leaves rows that the
// hub refuses in the outbox.
func (s *Service) pushFresh(ctx context.Context, c *pgx.Conn, r *Round) error {
	p := freshPush{s: s, r: r, room: batchBytes, touched: map[uuid.UUID]bool{}, readers: map[string]*partReader{}}
	var tables []string
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		fresh := 0
		if err := tx.QueryRow(`SELECT count(*) FROM (SELECT op FROM change_log ORDER BY seq LIMIT ?) WHERE op = 'I'`, packagedEntries).Scan(&fresh); err != nil || fresh < s.manyFresh {
			return err
		}
		if err := tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM change_log`).Scan(&p.end); err != nil {
			return err
		}
		names, err := storage.Collect(tx.Select(`SELECT DISTINCT tbl FROM change_log WHERE op = 'I'`), storage.RowTo[string])
		tables = names
		return err
	}); err != nil || p.end == 0 {
		return err
	}
	tables = slices.DeleteFunc(tables, func(name string) bool { _, ok := s.table(name); return !ok })
	var err error
	if p.columns, err = s.stageTables(ctx, c, tables); err != nil {
		if retryable(err) {
			return err
		}
		return nil // the hub lacks a table; the rows of the others are sent row by row
	}
	return p.run(ctx, c)
}

func (p *freshPush) run(ctx context.Context, c *pgx.Conn) error {
	g, ctx := errgroup.WithContext(ctx)
	batches, answers := make(chan []part, inFlight), make(chan delivery, inFlight)
	g.Go(func() error {
		defer close(answers)
		for parts := range batches {
			d, err := p.s.sendFresh(ctx, c, parts)
			if err != nil && (ctx.Err() != nil || retryable(err)) {
				return err
			}
			answers <- d
		}
		return nil
	})
	g.Go(func() error {
		defer close(batches)
		for waiting, more := 0, true; more || waiting > 0; {
			var done []delivery
			for len(answers) > 0 || waiting == inFlight || !more && waiting > 0 {
				d, ok := <-answers
				if !ok {
					return nil // the sender reports why
				}
				done, waiting = append(done, d), waiting-1
			}
			parts, err := p.step(ctx, done, &more)
			if err != nil {
				return err
			}
			if len(parts) > 0 {
				batches <- parts
				waiting++
			}
		}
		return nil
	})
	return g.Wait()
}

// step stores the answers to batches and encodes the next batch, in one transaction.
func (p *freshPush) step(ctx context.Context, done []delivery, more *bool) (parts []part, err error) {
	pushed, after := 0, p.after
	err = p.s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := p.scan(tx); err != nil {
			return err
		}
		for _, d := range done {
			if !d.whole {
				if err := p.giveUp(tx, d); err != nil {
					return err
				}
				continue
			}
			if err := p.acknowledge(tx, d); err != nil {
				return err
			}
			pushed += d.rows()
		}
		if *more {
			parts, after, err = p.pack(tx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	p.r.Pushed += pushed
	*more = *more && after > p.after
	p.after = after
	return parts, nil
}

// scan adds the rows of change_log entries that were added since the last call to touched, and at the
// first call all rows that have an entry other than that of their insertion.
func (p *freshPush) scan(tx *storage.Tx) error {
	if err := tx.Select(`SELECT row_id FROM change_log WHERE seq > ? AND (op <> 'I' OR seq > ?)`, p.scanned, p.end).Each(p.touch); err != nil {
		return err
	}
	return tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM change_log`).Scan(&p.scanned)
}

func (p *freshPush) touch(r storage.Row) error {
	var id uuid.UUID
	err := r.Scan(&id)
	p.touched[id] = true
	return err
}

// pack encodes the next batch and stores it. after is the entry of change_log to continue with; if it
// does not change, no entries are left.
func (p *freshPush) pack(tx *storage.Tx) (parts []part, after int64, err error) {
	l, err := readLocal(tx)
	if err != nil {
		return nil, p.after, err
	}
	if err := errors.Join(p.s.canSeal(l), p.s.relayNote(tx)); err != nil {
		return nil, p.after, err
	}
	end := p.after
	if err := tx.QueryRow(`SELECT coalesce(max(seq), ?2) FROM (SELECT seq FROM change_log WHERE seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?1)`, batchRows, p.after, p.end).Scan(&end); err != nil || end == p.after {
		return nil, p.after, err
	}
	// A row may have several entries of its insertion, next to each other. Here they may be parted.
	if err := tx.Select(`SELECT a.row_id FROM change_log a, change_log b WHERE a.seq = ?1 AND b.seq = (SELECT min(seq) FROM change_log WHERE seq > ?1) AND b.row_id = a.row_id`, end).Each(p.touch); err != nil {
		return nil, p.after, err
	}
	names, err := storage.Collect(tx.Select(`SELECT DISTINCT tbl FROM change_log WHERE seq > ? AND seq <= ?`, p.after, end), storage.RowTo[string])
	if err != nil {
		return nil, p.after, err
	}
	ctr := l.ctr
	for {
		l.ctr, parts = ctr, nil
		next, room := end, p.room
		for _, t := range p.s.tables { // parents before children
			if !slices.Contains(names, t.Table) || len(t.blobColumns()) > 0 { // a blob is sent before its row
				continue
			}
			r, err := p.reader(tx, l, t)
			if err != nil {
				return nil, p.after, err
			}
			if r == nil {
				continue
			}
			to, err := r.read(tx, &l, p.after, end, room, func(id uuid.UUID) bool { return p.touched[id] })
			if err != nil {
				return nil, p.after, fmt.Errorf("read new rows of %s: %w", t.Table, err)
			}
			next, room = min(next, to), room-len(r.tuples)
			if len(r.rows) > 0 {
				parts = append(parts, r.part)
			}
		}
		if next == end || len(names) == 1 {
			end = next
			break
		}
		end = next // the tables were read up to different entries, so they are read again
	}
	for _, x := range parts {
		if err := x.store(tx); err != nil {
			return nil, p.after, err
		}
	}
	_, err = tx.Exec(`UPDATE sync_local SET ctr = ?`, l.ctr)
	return parts, end, err
}

// reader returns the reader of a table; nil if the hub lacks one of its columns, since such rows are
// sent with those values in extra.
func (p *freshPush) reader(tx *storage.Tx, l local, t table) (*partReader, error) {
	if r, ok := p.readers[t.Table]; ok {
		return r, nil
	}
	columns := p.columns[t.Table]
	for _, c := range t.columns {
		if !slices.Contains(columns, c.Name) {
			p.readers[t.Table] = nil
			return nil, nil
		}
	}
	// Neither the outbox nor sync_base gets new rows during a run, so conditions on empty tables are
	// left out.
	guard := ""
	for _, x := range []string{"sync_outbox", "sync_base"} {
		var any bool
		if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM ` + x + `)`).Scan(&any); err != nil {
			return nil, err
		}
		if any {
			guard += ` AND NOT EXISTS (SELECT 1 FROM ` + x + ` x WHERE x.tbl = c.tbl AND x.row_id = c.row_id)`
		}
	}
	p.readers[t.Table] = newPartReader(t, p.s.cipher, l.user, columns, guard)
	return p.readers[t.Table], nil
}

// acknowledge records that the hub has the rows of a batch.
func (p *freshPush) acknowledge(tx *storage.Tx, d delivery) error {
	for _, x := range d.parts {
		for some := range slices.Chunk(x.rows, bulkStatement) {
			args := make([]any, 0, 2*len(some))
			for _, r := range some {
				args = append(args, r.id[:], r.meta)
			}
			if _, err := tx.Exec(`UPDATE `+x.Table+` SET sync_meta = v.column2 FROM (VALUES (?, ?)`+strings.Repeat(", (?, ?)", len(some)-1)+`) v WHERE id = v.column1`, args...); err != nil {
				return err
			}
		}
		for i, r := range x.rows {
			if !p.touched[r.id] {
				continue
			}
			_, _, v, err := x.version(p.s.cipher, i)
			if err != nil {
				return err
			}
			text, err := x.encodeBase(tx, r.id, v, p.s.o.Private)
			if err != nil {
				return err
			}
			if err := setBase(tx, rowKey{x.Table, r.id}, text); err != nil {
				return err
			}
		}
		for from := 0; from < len(x.rows); { // consecutive entries with one statement
			to := from + 1
			for to < len(x.rows) && x.rows[to].seq == x.rows[to-1].seq+1 {
				to++
			}
			if _, err := tx.Exec(`DELETE FROM change_log WHERE seq BETWEEN ? AND ?`, x.rows[from].seq, x.rows[to-1].seq); err != nil {
				return err
			}
			from = to
		}
		if _, err := tx.Exec(`DELETE FROM sync_batches WHERE first_dot = ?`, int64(x.first)); err != nil {
			return err
		}
	}
	return recordPush(tx, d.before, d.rows(), d.rows())
}

// giveUp moves a batch to the outbox, from where its rows are sent in smaller batches until those that
// the hub refuses are found.
func (p *freshPush) giveUp(tx *storage.Tx, d delivery) error {
	for _, x := range d.parts {
		if err := p.s.moveToOutbox(tx, x); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM sync_batches WHERE first_dot = ?`, int64(x.first)); err != nil {
			return err
		}
	}
	return nil
}

// sendFresh stores a batch on the hub in one transaction.
func (s *Service) sendFresh(ctx context.Context, c *pgx.Conn, parts []part) (d delivery, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	d = delivery{parts: parts, whole: true}
	if _, err := c.Exec(ctx, `begin`); err != nil {
		return delivery{parts: parts}, err
	}
	defer func() {
		if err != nil {
			d.whole = false
			_, _ = c.Exec(context.WithoutCancel(ctx), `rollback`) // fails if the connection is lost
		}
	}()
	insert := `select count(*) filter (where result = 'applied') from sync.merge($1)`
	if s.staged.insertsNew {
		insert = `select sync.insert_new($1)`
	}
	var merges pgx.Batch
	merges.Queue(`select sync.lock()`).QueryRow(func(row pgx.Row) error { return row.Scan(&d.before) })
	for _, p := range parts {
		stream := slices.Concat(copySignature, make([]byte, copyHeader-len(copySignature)), p.tuples, []byte{0xff, 0xff})
		if _, err := c.PgConn().CopyFrom(ctx, bytes.NewReader(stream), fmt.Sprintf(`copy pg_temp.stage_%s ("%s") from stdin (format binary)`, p.Table, strings.Join(p.columns, `", "`))); err != nil {
			return d, err
		}
		merges.Queue(insert, p.Table).QueryRow(func(row pgx.Row) error {
			n := 0
			err := row.Scan(&n)
			d.whole = d.whole && n == len(p.rows)
			return err
		})
	}
	merges.Queue(`commit`)
	return d, c.SendBatch(ctx, &merges).Close()
}
