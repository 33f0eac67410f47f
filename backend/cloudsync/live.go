package cloudsync

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"helix/backend/storage"
)

// While the connection holds, a change takes one round trip out and one in: what an exchange says
// besides, such as hello, it says every half minute.

// live exchanges what has changed here and what the hub has announced. It reports false when that needs
// a whole exchange: there is no greeted connection, there is much to send, or something went wrong.
func (s *Service) live(ctx context.Context) (done bool) {
	err := s.exclusive(ctx, func() (err error) {
		c := s.conn
		if c == nil || c.IsClosed() || time.Since(s.greeted) > pollEvery || s.failed() {
			return nil
		}
		var r Round
		defer func() { s.counts.add(r) }()
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
	l, err := s.local(ctx)
	if err != nil || missed || l.hub == nil || l.hub.Paused {
		return false, err
	}
	var after int64
	var changed bool
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT coalesce((SELECT seq FROM sync_cursor), 0), EXISTS (SELECT 1 FROM change_log) OR EXISTS (SELECT 1 FROM sync_outbox WHERE parked = 0)`).Scan(&after, &changed)
	}); err != nil || after == 0 {
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
	if _, err := s.packageChanges(ctx); err != nil {
		return false, err
	}
	if l, err = s.local(ctx); err != nil {
		return false, err
	}
	for {
		batch, err := s.nextBatch(ctx)
		if err != nil || len(batch) == 0 {
			return err == nil, err
		}
		if len(batch) > callRows {
			return false, nil
		}
		before, answers, err := s.callPush(ctx, c, batch, l.ctr)
		if err != nil {
			return false, err
		}
		stale := false
		if err := s.acknowledge(ctx, batch, answers, r, &stale); err != nil || stale {
			return false, err
		}
		if err := s.passOwn(ctx, before, answers); err != nil {
			return false, err
		}
	}
}

// callPush sends rows with one round trip, which is one transaction of the hub. ctr is how many versions
// this device has packaged: when the hub knows of more, this is a copy or an old backup. It answers the
// head of the feed before, too.
func (s *Service) callPush(ctx context.Context, c *pgx.Conn, batch []sent, ctr int64) (before int64, answers []answer, err error) {
	if len(batch) == 0 {
		return 0, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	text, err := pushText(batch)
	if err != nil {
		return 0, nil, err
	}
	var b pgx.Batch
	if ctr > 0 {
		b.Queue(`select sync.expect($1)`, ctr)
	}
	b.Queue(`select sync.lock()`).QueryRow(func(row pgx.Row) error { return row.Scan(&before) })
	answers = make([]answer, len(batch))
	b.Queue(`select n, result, coalesce(dot, 0) from sync.push($1::jsonb)`, text).Query(func(rows pgx.Rows) error { return readAnswers(rows, answers) })
	return before, answers, c.SendBatch(ctx, &b).Close()
}

// passOwn moves the cursor over versions that this device has just pushed: nobody wrote between.
func (s *Service) passOwn(ctx context.Context, before int64, answers []answer) error {
	n := int64(0)
	for _, a := range answers {
		if a.result == "applied" {
			n++
		}
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO sync_cursor (one, seq, synced_at) VALUES (1, CASE ?1 WHEN 0 THEN ?2 ELSE 0 END, ?3)
			ON CONFLICT (one) DO UPDATE SET synced_at = excluded.synced_at, seq = CASE seq WHEN ?1 THEN ?2 ELSE seq END`, before, before+n, tx.Now)
		return err
	})
}

// ackAndPull tells the hub that the feed is stored up to after, and gets what follows.
func (s *Service) ackAndPull(ctx context.Context, c *pgx.Conn, after int64) (page []remote, end int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var b pgx.Batch
	b.Queue(`select sync.ack($1)`, after)
	b.Queue(pullQuery, after, pageRows).Query(func(rows pgx.Rows) (err error) {
		page, end, err = readPage(rows, after)
		return err
	})
	return page, end, c.SendBatch(ctx, &b).Close()
}

// listening notes that from now on the hub announces what comes; what came before needs a whole exchange.
func (s *Service) listening() {
	s.mu.Lock()
	s.missed = true
	s.mu.Unlock()
}

// announced notes the head of the feed that a notification carries.
func (s *Service) announced(payload string) {
	if head, err := strconv.ParseInt(payload, 10, 64); err == nil {
		s.mu.Lock()
		s.head = max(s.head, head)
		s.mu.Unlock()
	}
}
