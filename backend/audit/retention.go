package audit

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const closedKey = "audit.closed_through" // in meta: every start up to here has an end

// CloseInterrupted writes an error "interrupted" for each start without an end that is older than
// this service. Run calls it; a second call finds nothing.
func (s *Service) CloseInterrupted(ctx context.Context) (n int, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		n = 0
		opened := s.opened.Load()
		var from int64
		var v string
		switch err := tx.QueryRow(`SELECT value FROM meta WHERE key = ?`, closedKey).Scan(&v); {
		case err == nil:
			from, _ = strconv.ParseInt(v, 10, 64)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if from >= opened {
			return nil
		}
		open, err := openStarts(tx, from, opened, s.db.Device().ID)
		if err != nil {
			return err
		}
		for _, o := range open {
			if err := Append(tx, Entry{User: o.user, ActorKind: "system", Action: Error, SubjectKind: o.kind, SubjectID: o.id, Outcome: Failed, RunID: o.run,
				Details: map[string]any{"error": "interrupted", "start": o.seq}}); err != nil {
				return err
			}
		}
		n = len(open)
		_, err = tx.Exec(`INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, closedKey, strconv.FormatInt(opened, 10))
		return err
	})
	return n, err
}

type openStart struct {
	seq      int64
	user     uuid.UUID
	kind, id string
	run      uuid.UUID
}

// openStarts returns starts of a run and subject without a later complete or error. If a run
// started the same subject several times, the oldest starts are matched first.
func openStarts(tx *storage.Tx, from, through int64, dev uuid.UUID) ([]openStart, error) {
	var out []openStart
	err := tx.Select(`SELECT s.seq, s.user_id, s.subject_kind, s.subject_id, s.run_id,
			(SELECT count(*) FROM audit_log e WHERE e.run_id = s.run_id AND e.subject_id = s.subject_id AND e.action IN ('complete', 'error') AND e.seq <= ?2),
			(SELECT count(*) FROM audit_log e WHERE e.run_id = s.run_id AND e.subject_id = s.subject_id AND e.action = 'start' AND e.seq <= s.seq)
		FROM audit_log s WHERE s.action = 'start' AND s.run_id IS NOT NULL AND s.device_id = ?3 AND s.seq > ?1 AND s.seq <= ?2 ORDER BY s.seq`, from, through, dev).Each(func(row storage.Row) error {
		var o openStart
		var ends, nth int
		if err := row.Scan(&o.seq, &o.user, &o.kind, &o.id, &o.run, &ends, &nth); err != nil {
			return err
		}
		if nth > ends {
			out = append(out, o)
		}
		return nil
	})
	return out, err
}

// Prune removes details and whole signed segments that exceed the configured retention. The rest
// remains verifiable; an audit.pruned entry records what was removed.
func (s *Service) Prune(ctx context.Context) error {
	now := s.o.Now()
	if d := s.o.DetailsDays(); d > 0 {
		// Whole days, so that at most one entry per day records erased details.
		if _, err := s.eraseUntil(ctx, now.AddDate(0, 0, -d).UTC().Truncate(24*time.Hour)); err != nil {
			return err
		}
	}
	d := s.o.EntryDays()
	if d <= 0 {
		return nil
	}
	cutoff := now.AddDate(0, 0, -d).UnixMicro()
	for {
		more, err := s.pruneSegments(ctx, cutoff)
		if err != nil || !more {
			return err
		}
	}
}

// pruneSegments removes the entries of up to 8 of the oldest segments that ended before cutoff.
// more means that there may be others.
func (s *Service) pruneSegments(ctx context.Context, cutoff int64) (more bool, err error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	dev := s.db.Device().ID
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		more = false
		var first int64
		if err := tx.QueryRow(`SELECT coalesce(min(seq), 0) FROM audit_log`).Scan(&first); err != nil || first == 0 {
			return err
		}
		rows, err := tx.Query(`SELECT g.no, g.last_seq, l.at FROM audit_segments g JOIN audit_log l ON l.seq = g.last_seq WHERE g.device_id = ? AND g.last_seq >= ? ORDER BY g.no LIMIT 9`, dev, first)
		if err != nil {
			return err
		}
		defer rows.Close()
		var no, through int64
		for n := 0; rows.Next(); n++ {
			var k, last, at int64
			if err := rows.Scan(&k, &last, &at); err != nil {
				return err
			}
			if at >= cutoff {
				break
			}
			if n == 8 {
				more = true
				break
			}
			no, through = k, last
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil || no == 0 {
			return err
		}
		// Write the entry first: without it, the pruned entries would look like tampering.
		if err := Append(tx, Entry{User: s.db.LocalUser().ID, ActorKind: "system", Action: Pruned, SubjectKind: coversEntries, SubjectID: strconv.FormatInt(no, 10),
			Details: &statement{Covers: coversEntries, Through: through, Count: through - first + 1}}); err != nil {
			return err
		}
		for _, q := range []string{`INSERT INTO audit_pruning (one, through) VALUES (1, ?)`, `DELETE FROM audit_details WHERE seq <= ?`, `DELETE FROM audit_log WHERE seq <= ?`} {
			if _, err := tx.Exec(q, through); err != nil {
				return err
			}
		}
		_, err = tx.Exec(`DELETE FROM audit_pruning`)
		return err
	})
	return more, err
}

// EraseDetails removes the details of entries, of one subject or up to a time. The entries remain
// and the chain can still be verified. Erasing is itself recorded.
func (s *Service) EraseDetails(ctx context.Context, p EraseParams) (EraseResult, error) {
	if (p.SubjectID == "") == (p.Before == nil) {
		return EraseResult{}, fault.Invalidf("Give either subjectId or before.")
	}
	if len(p.SubjectID) > maxName {
		return EraseResult{}, fault.Invalidf("subjectId is longer than %d bytes.", maxName)
	}
	if _, err := s.db.Sign(nil); err != nil {
		return EraseResult{}, err // without the key the erasure could not be recorded
	}
	user := identity.UserID(ctx)
	s.reading.Lock()
	defer s.reading.Unlock()
	var res EraseResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		st := statement{Covers: coversDetails, SubjectID: p.SubjectID}
		var err error
		if _, st.Through, err = seqRange(tx, nil, nil); err != nil {
			return err
		}
		q := `DELETE FROM audit_details WHERE seq IN (SELECT seq FROM audit_log WHERE user_id = ? AND action NOT IN (` + keepsDetails + `) AND seq <= ?`
		if p.Before != nil {
			st.Before = p.Before.UTC().Format(time.RFC3339Nano)
			if st.Through, err = lastBefore(tx, *p.Before); err != nil {
				return err
			}
		}
		more := []any{st.Through}
		if p.SubjectID != "" {
			q, more = q+` AND subject_id = ?`, append(more, p.SubjectID)
		}
		ids, err := tx.UserIDs(user)
		if err != nil {
			return err
		}
		res.Erased = 0
		for _, id := range ids { // a statement contains the id in the entries
			r, err := tx.Exec(q+`)`, append([]any{id}, more...)...)
			if err != nil {
				return err
			}
			own := st
			if own.Count, err = r.RowsAffected(); err != nil {
				return err
			}
			res.Erased += own.Count
			own.User = id.String()
			if err := Append(tx, Entry{Action: DataErase, SubjectKind: coversDetails, Details: &own}); err != nil {
				return err
			}
		}
		return nil
	})
	return res, s.note(ctx, err)
}

// lastBefore returns the last entry before a time, or 0.
func lastBefore(tx *storage.Tx, t time.Time) (int64, error) {
	lo, hi, err := seqRange(tx, nil, nil)
	if err != nil {
		return 0, err
	}
	seq, err := firstAt(tx, lo, hi, t.UnixMicro())
	return seq - 1, err
}

// eraseUntil applies the retention of details, in steps that keep write transactions short. It writes the
// entry that records this first: without it, the erased details would look like tampering.
func (s *Service) eraseUntil(ctx context.Context, before time.Time) (total int64, err error) {
	if _, err := s.db.Sign(nil); err != nil {
		return 0, nil //nolint:nilerr // locked: the next sweep erases
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	const old = ` FROM audit_details d CROSS JOIN audit_log l ON l.seq = d.seq WHERE d.seq <= ? AND l.action NOT IN (` + keepsDetails + `)`
	var through int64
	err = s.db.Write(ctx, func(tx *storage.Tx) (err error) {
		if through, err = lastBefore(tx, before); err != nil {
			return err
		}
		st := &statement{Covers: coversDetails, Through: through, Before: before.UTC().Format(time.RFC3339Nano)}
		if err := tx.QueryRow(`SELECT count(*)`+old, through).Scan(&st.Count); err != nil || st.Count == 0 {
			return err
		}
		return Append(tx, Entry{User: s.db.LocalUser().ID, ActorKind: "system", Action: DataErase, SubjectKind: coversDetails, Details: st})
	})
	for n := int64(2000); err == nil && n == 2000; total += n {
		err = s.db.Write(ctx, func(tx *storage.Tx) error {
			r, err := tx.Exec(`DELETE FROM audit_details WHERE seq IN (SELECT d.seq`+old+` ORDER BY d.seq LIMIT 2000)`, through)
			if err != nil {
				return err
			}
			n, err = r.RowsAffected()
			return err
		})
	}
	return total, err
}
