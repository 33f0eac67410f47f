package cloudsync

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"helix/backend/storage"
)

const ackEvery = time.Second

// While the connection is open, sending or receiving a change costs one round trip. Everything else
// that an exchange does, such as hello, happens every 30 seconds.

// live sends local changes and receives the ones that the hub has announced, over an open
// connection. It returns false if a full exchange is needed: because no connection has completed
// hello recently, because too many changes are waiting, or after an error.
func (s *Service) live(ctx context.Context) (done bool) {
	err := s.exclusive(ctx, func() (err error) {
		c := s.conn
		if c == nil || c.IsClosed() || time.Since(s.greeted) > pollEvery || s.failed() {
			return nil
		}
		var r Round
		defer func() {
			s.counts.add(r)
			if r != (Round{}) {
				s.vectors.moved()
			}
		}()
		if done, err = s.liveOn(ctx, c, &r); err != nil || ctx.Err() != nil {
			done = false
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		s.o.Logger.Debug("sync: a whole exchange follows", "err", err)
	}
	return done
}

func (s *Service) liveOn(ctx context.Context, c *pgx.Conn, r *Round) (bool, error) {
	s.mu.Lock()
	head, missed := s.head, s.missed
	s.missed = false
	s.mu.Unlock()
	var l local
	var after int64
	var changed, whole bool
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if l, err = readLocal(tx); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT coalesce((SELECT seq FROM sync_cursor), 0), EXISTS (SELECT 1 FROM change_log) OR EXISTS (SELECT 1 FROM sync_outbox WHERE parked = 0),
			EXISTS (SELECT 1 FROM sync_batches) OR (SELECT count(*) FROM (SELECT 1 FROM change_log LIMIT ?1 + 1)) > ?1`, callRows).Scan(&after, &changed, &whole)
	}); err != nil || missed || l.hub == nil || l.hub.Paused || after == 0 || whole {
		return false, err
	}
	for after < head {
		page, end, err := s.ackAndPull(ctx, c, after)
		if err != nil {
			return false, err
		}
		if end <= after {
			break
		}
		if err := s.applyPage(ctx, page, end, r); err != nil {
			return false, err
		}
		after, changed = end, changed || r.Merged > 0 || r.Conflicts > 0
	}
	if !changed {
		return true, nil
	}
	var batch []sent
	var more bool
	if err := s.db.Write(ctx, func(tx *storage.Tx) (err error) { // one transaction, because each delays the change
		if l, _, err = s.packageTx(tx); err != nil {
			return err
		}
		batch, more, err = s.readBatch(tx)
		return err
	}); err != nil {
		return false, err
	}
	for {
		var err error
		if batch, err = s.withoutBlobs(batch); err != nil || len(batch) == 0 {
			return err == nil && len(s.blobs.waiting) == 0, err
		}
		if len(batch) > callRows {
			return false, nil
		}
		before, answers, err := s.callPush(ctx, c, batch, l.ctr)
		if err != nil {
			return false, err
		}
		stale := false
		if err := s.acknowledge(ctx, batch, before, answers, r, &stale); err != nil || stale {
			return false, err
		}
		if !more {
			return len(s.blobs.waiting) == 0, nil
		}
		if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) { batch, more, err = s.readBatch(tx); return err }); err != nil {
			return false, err
		}
	}
}

// callPush sends rows in one round trip, which is one transaction on the hub. ctr, if positive, is
// the number of versions that this device has packaged; if the hub has seen more, this device is a
// copy or an old backup, and the call fails. before is the head of the feed before the push.
func (s *Service) callPush(ctx context.Context, c *pgx.Conn, batch []sent, ctr int64) (before int64, answers []answer, err error) {
	if len(batch) == 0 {
		return 0, nil, nil
	}
	text, err := pushText(batch)
	if err != nil {
		return 0, nil, err
	}
	rows, err := c.Query(ctx, pushQuery, text, sql.NullInt64{Int64: ctr, Valid: ctr > 0})
	if err != nil {
		return 0, nil, err
	}
	answers = make([]answer, len(batch))
	var n int
	var a answer
	_, err = pgx.ForEachRow(rows, []any{&before, &n, &a.result, &a.dot}, func() error {
		if n < 1 || n > len(answers) {
			return errAnswer
		}
		answers[n-1] = a
		return nil
	})
	return before, answers, err
}

// pushQuery is one statement, so that the lock is taken after all rows have arrived, and no slow connection
// keeps other devices waiting for it. The argument of sync.push refers to the lock, which therefore is first.
const pushQuery = `select l.before, p.n, p.result, coalesce(p.dot, 0)
	from (select sync.expect($2)::text as expected, sync.lock() as before) l, lateral sync.push(case when l.expected is not null and l.before is not null then $1::jsonb end) p`

// recordPush records a push: it counts the rows that the hub has, and advances the cursor past the versions
// that it applied if no other device wrote in between. before is the head of the feed before the push.
func recordPush(tx *storage.Tx, before int64, applied, pushed int) error {
	_, err := tx.Exec(`INSERT INTO sync_cursor (one, seq, synced_at, pushed) VALUES (1, CASE ?1 WHEN 0 THEN ?2 ELSE 0 END, ?3, ?4)
		ON CONFLICT (one) DO UPDATE SET synced_at = excluded.synced_at, seq = CASE seq WHEN ?1 THEN ?2 ELSE seq END, pushed = pushed + excluded.pushed`, before, before+int64(applied), tx.Now, pushed)
	return err
}

// ackAndPull confirms to the hub, at most once a second, that the feed is stored up to after, and returns
// the entries that follow. It does not wait until the confirmation is on the hub's disk: a lost or omitted
// one is repeated by the next exchange, and until then the hub keeps more than it needs to.
func (s *Service) ackAndPull(ctx context.Context, c *pgx.Conn, after int64) (page []remote, end int64, err error) {
	var b pgx.Batch
	if time.Since(s.acked) > ackEvery {
		b.Queue(`select set_config('synchronous_commit', 'off', true)`)
		b.Queue(`select sync.ack($1)`, after).Exec(func(pgconn.CommandTag) error {
			s.acked = time.Now()
			return nil
		})
	}
	b.Queue(pullQuery, after, pageRows).Query(func(rows pgx.Rows) (err error) {
		page, end, err = readPage(rows, after)
		return err
	})
	return page, end, c.SendBatch(ctx, &b).Close()
}

// listening records that notifications arrive from now on. Earlier changes may have been missed, so
// the next exchange must be a full one.
func (s *Service) listening() {
	s.mu.Lock()
	s.missed = true
	s.mu.Unlock()
}

// announced stores the head of the feed from a notification.
func (s *Service) announced(payload string) {
	if head, err := strconv.ParseInt(payload, 10, 64); err == nil {
		s.mu.Lock()
		s.head = max(s.head, head)
		s.mu.Unlock()
	}
}
