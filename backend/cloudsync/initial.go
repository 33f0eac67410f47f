package cloudsync

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"helix/backend/bus"
	"helix/backend/storage"
)

const (
	copyRows      = 2000     // rows per transaction; larger ones are no faster and use more memory
	copyBytes     = 4 << 20  // bytes per transaction, so that long texts don't exhaust memory
	copyCache     = 16 << 10 // page cache of the writer during the copy, in KiB
	copyStatement = 25       // rows per statement
)

// Progress is the progress of the first copy.
type Progress struct {
	Table          string `json:"table"`
	Rows           int64  `json:"rows"`
	Of             int64  `json:"of"`
	BytesPerSecond int64  `json:"bytesPerSecond"`
	ETAMS          int64  `json:"etaMs"`
}

// copyPlace is the position that the first copy has reached, stored in sync_progress.
type copyPlace struct {
	table string
	last  uuid.UUID // zero: no row of table copied yet
	h0    int64
	rows  int64
}

func readPlace(tx *storage.Tx) (p copyPlace, err error) {
	var last []byte
	err = tx.QueryRow(`SELECT tbl, last_id, h0, rows FROM sync_progress`).Scan(&p.table, &last, &p.h0, &p.rows)
	copy(p.last[:], last)
	if errors.Is(err, sql.ErrNoRows) {
		return copyPlace{}, nil
	}
	return p, err
}

func (p copyPlace) store(tx *storage.Tx) error {
	_, err := tx.Exec(`INSERT INTO sync_progress (one, tbl, last_id, h0, rows) VALUES (1, ?, ?, ?, ?)
		ON CONFLICT (one) DO UPDATE SET tbl = excluded.tbl, last_id = excluded.last_id, h0 = excluded.h0, rows = excluded.rows`, p.table, p.last, p.h0, p.rows)
	return err
}

// initialCopy copies all rows from the hub, table by table and ordered by id. If it is interrupted,
// the next call continues after the last stored row in a new snapshot of the hub. The feed, read
// from the head at which the first snapshot began, then supplies the changes that the copy missed.
func (s *Service) initialCopy(ctx context.Context, c *pgx.Conn, r *Round) error {
	var place copyPlace
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) { place, err = readPlace(tx); return err }); err != nil {
		return err
	}
	if place.h0 == 0 {
		if err := c.QueryRow(ctx, `select seq from public.sync_head`).Scan(&place.h0); err != nil || place.h0 == 0 {
			return err
		}
	}
	s.setState(Initial, nil)
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // read-only
	plan, of, err := s.copyPlan(ctx, c, place)
	if err != nil {
		return err
	}
	k := copier{s: s, place: place, of: of, r: r, began: time.Now(), first: place.rows}
	defer s.setProgress(nil)
	restore, err := s.limitCache(ctx)
	if err != nil {
		return err
	}
	defer restore()
	for _, x := range plan {
		if err := k.table(ctx, c, x); err != nil {
			return err
		}
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := tx.Exec(`DELETE FROM sync_progress`); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO sync_cursor (one, seq) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET seq = max(seq, excluded.seq)`, place.h0)
		return err
	})
}

// limitCache reduces SQLite's page cache for the duration of the copy, whose rows are not read
// again soon. restore sets the previous size.
func (s *Service) limitCache(ctx context.Context) (restore func(), err error) {
	set := func(ctx context.Context, size int) (was int, err error) {
		err = s.db.Write(ctx, func(tx *storage.Tx) error {
			if err := tx.QueryRow(`PRAGMA cache_size`).Scan(&was); err != nil {
				return err
			}
			_, err := tx.Exec(fmt.Sprintf(`PRAGMA cache_size = %d`, size))
			return err
		})
		return was, err
	}
	was, err := set(ctx, -copyCache)
	return func() {
		if _, err := set(context.WithoutCancel(ctx), was); err != nil {
			s.o.Logger.Warn("restore the size of the cache", "err", err)
		}
	}, err
}

// copyPlan returns the tables that remain to be copied: those that have rows on the hub, parents
// first, each with the columns that the hub has.
func (s *Service) copyPlan(ctx context.Context, c *pgx.Conn, place copyPlace) (plan []tableCopy, of int64, err error) {
	rows, err := c.Query(ctx, `select table_name, sync.columns_of(table_name) from app.synced`)
	if err != nil {
		return nil, 0, err
	}
	columns := map[string][]string{}
	var name string
	var names []string
	if _, err := pgx.ForEachRow(rows, []any{&name, &names}, func() error { columns[name] = slices.Clone(names); return nil }); err != nil {
		return nil, 0, err
	}
	at := slices.IndexFunc(s.tables, func(t table) bool { return t.Table == place.table })
	var counts []string
	for i, t := range s.tables {
		have := columns[t.Table]
		if i < at || have == nil {
			continue
		}
		x := newTableCopy(t, s.cipher, have)
		if i == at {
			x.after = place.last
		}
		plan = append(plan, x)
		counts = append(counts, fmt.Sprintf(`select count(*) from public.%s where id > '%s'`, t.Table, x.after))
	}
	if len(plan) == 0 {
		return nil, 0, nil
	}
	var n []int64
	if err := c.QueryRow(ctx, `select array[(`+strings.Join(counts, `), (`)+`)]`).Scan(&n); err != nil {
		return nil, 0, err
	}
	of = place.rows
	left := plan[:0]
	for i, x := range plan {
		if of += n[i]; n[i] > 0 {
			left = append(left, x)
		}
	}
	return left, of, nil
}

// copier stores the copied rows and tracks the progress.
type copier struct {
	s     *Service
	place copyPlace
	of    int64
	r     *Round
	began time.Time
	first int64 // rows already copied before this run
	bytes int64
}

// table copies one table. One goroutine receives and decrypts rows while another stores them. At
// most three batches are in memory.
func (k *copier) table(ctx context.Context, c *pgx.Conn, x tableCopy) error {
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stalled := time.AfterFunc(callTime, stop)
	defer stalled.Stop()
	batches := make(chan []copied, 1)
	g.Go(func() error {
		defer close(batches)
		d := decoder{tableCopy: x, rows: k.s.copyRows, full: func(batch []copied) error {
			stalled.Stop() // waiting for the local disk does not mean that the hub has stalled
			defer stalled.Reset(callTime)
			select {
			case batches <- batch:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		if _, err := c.PgConn().CopyTo(ctx, &d, x.query()); err != nil {
			return err
		}
		return d.flush()
	})
	g.Go(func() error {
		for batch := range batches {
			if err := k.store(ctx, x, batch); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

// store writes a batch and the position of its last row in one transaction.
func (k *copier) store(ctx context.Context, x tableCopy, batch []copied) error {
	round, place := *k.r, k.place
	err := k.s.db.WriteUnsynced(ctx, func(tx *storage.Tx) error {
		*k.r = round
		l, err := readLocal(tx)
		if err != nil {
			return err
		}
		var applied []rowKey
		a := applier{s: k.s, tx: tx, l: &l, r: k.r, applied: &applied}
		if a.whole, err = copying(tx); err != nil {
			return err
		}
		waiting, err := a.waiting()
		if err != nil {
			return err
		}
		high := int64(0)
		if err := tx.WithoutCapture(func() error {
			for part := range slices.Chunk(batch, copyStatement) {
				for _, row := range part {
					high = max(high, row.hlc)
				}
				if err := k.insert(&a, x, part); err != nil {
					return err
				}
			}
			for _, w := range waiting {
				if err := a.again(w); err != nil {
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
		writers := make(map[rowKey]uuid.UUID, len(batch))
		for _, row := range batch {
			key := rowKey{x.Table, row.id}
			applied, writers[key] = append(applied, key), row.writer
		}
		if err := k.s.relayApplied(tx, applied, func(key rowKey) uuid.UUID { return writers[key] }); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE sync_local SET hlc_high = max(hlc_high, ?)`, high); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO sync_cursor (one, pulled) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET pulled = pulled + excluded.pulled`, k.r.Pulled-round.Pulled); err != nil {
			return err
		}
		place.table, place.last, place.rows = x.Table, batch[len(batch)-1].id, k.place.rows+int64(len(batch))
		return place.store(tx)
	})
	if err != nil {
		return err
	}
	k.place = place
	for _, row := range batch {
		k.bytes += int64(len(row.raw))
	}
	user := k.s.db.LocalUser().ID
	bus.Publish(k.s.db.Bus(), user, storage.Changed{Table: x.Table, Many: true})
	bus.Publish(k.s.db.Bus(), user, Applied{Rows: len(batch)})
	k.progress()
	return nil
}

func (k *copier) progress() {
	took := max(time.Since(k.began), time.Millisecond)
	done := k.place.rows - k.first
	p := Progress{Table: k.place.table, Rows: k.place.rows, Of: max(k.of, k.place.rows), BytesPerSecond: int64(float64(k.bytes) / took.Seconds())}
	if done > 0 {
		p.ETAMS = int64(float64(took.Milliseconds()) / float64(done) * float64(p.Of-p.Rows))
	}
	k.s.setProgress(&p)
}

// setProgress sets the progress that Status reports; nil means that no copy is running.
func (s *Service) setProgress(p *Progress) {
	s.mu.Lock()
	s.initial = p
	s.mu.Unlock()
	if p != nil {
		bus.Publish(s.db.Bus(), s.db.LocalUser().ID, *p)
	}
}

// insert stores rows with one statement. If one of them already exists, lacks its parent row or
// cannot be decoded, it applies them one by one like rows of the feed.
func (k *copier) insert(a *applier, x tableCopy, part []copied) error {
	if !slices.ContainsFunc(part, func(r copied) bool { return r.odd }) {
		err := x.insertRows(a.tx, a.l.user, part, k.s.o.Private)
		if err == nil {
			k.r.Pulled += len(part)
			return nil
		}
		if storage.ViolationOf(err) == "" {
			return err
		}
	}
	for _, row := range part {
		f, err := x.feedRow(row)
		if err != nil {
			return err
		}
		if err := a.apply(f); err != nil {
			return err
		}
	}
	return nil
}
