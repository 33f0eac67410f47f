package audit

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const (
	pageBudget  = 15 * time.Millisecond // time after which a list page stops searching
	firstWindow = 1000                  // entries in the first search window
	maxWindow   = 1 << 20
)

const logColumns = `l.seq, l.id, l.at, l.action, l.actor_kind, l.actor_id, l.subject_kind, l.subject_id, l.outcome, l.run_id, l.hash`

// List lists entries, newest first. It searches the log in windows, so that any filter returns in
// limited time; Next then continues the search.
func (s *Service) List(ctx context.Context, p ListParams) (ListResult, error) {
	res := ListResult{Entries: []LogEntry{}}
	if err := storage.CheckPage(&p.Limit, nil, 50, 100); err != nil {
		return res, err
	}
	if p.Before < 0 {
		return res, fault.InvalidField("before", fault.CodeRange, "before is %d; it must not be negative.", p.Before)
	}
	if len(p.Actions) > 32 || len(p.Text) > 200 {
		return res, fault.Invalidf("A list takes at most 32 actions and 200 bytes of text.")
	}
	user := identity.UserID(ctx)
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		own, ids, err := ownEntries(tx, user)
		if err != nil {
			return err
		}
		return s.list(tx, &p, newListQuery(user, own, ids, &p), &res)
	})
	if err != nil {
		return res, err
	}
	s.nameAll(ctx, res.Entries)
	return res, nil
}

func (s *Service) list(tx *storage.Tx, p *ListParams, q *listQuery, res *ListResult) error {
	lo, hi, err := seqRange(tx, p.From, p.To)
	if err != nil {
		return err
	}
	if p.Before > 0 {
		hi = min(hi, p.Before-1)
	}
	signed, err := signedThrough(tx)
	if err != nil {
		return err
	}
	deadline, window := time.Now().Add(pageBudget), int64(firstWindow)
	for hi >= lo {
		from := max(lo, hi-window+1)
		began := time.Now()
		if err := q.run(tx, from, hi, p.Limit-len(res.Entries), signed, &res.Entries); err != nil {
			return err
		}
		if len(res.Entries) == p.Limit {
			if last := res.Entries[p.Limit-1].Seq; last > lo {
				res.Next = &last
			}
			return nil
		}
		hi = from - 1
		now := time.Now()
		if hi >= lo && now.After(deadline) {
			next := from
			res.Next = &next
			return nil
		}
		if took := now.Sub(began); took < time.Millisecond && window < maxWindow {
			window *= 4
		} else if took > 4*time.Millisecond {
			window = max(firstWindow, window/2)
		}
	}
	return nil
}

// listQuery is a filter in SQL, with the most selective index.
type listQuery struct {
	user uuid.UUID
	sql  string
	args []any
}

// ownEntries returns the condition that an entry l belongs to the user, and its arguments. Entries
// keep the id that the user had when they were written.
func ownEntries(tx *storage.Tx, user uuid.UUID) (string, []any, error) {
	ids, err := tx.UserIDs(user)
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = id
	}
	return "l.user_id IN (?" + strings.Repeat(", ?", len(ids)-1) + ")", args, err
}

func newListQuery(user uuid.UUID, own string, ids []any, p *ListParams) *listQuery {
	q := &listQuery{user: user, args: ids}
	index := "NOT INDEXED"
	where := []string{own}
	if len(p.Actions) > 0 {
		where = append(where, "l.action IN (?"+strings.Repeat(", ?", len(p.Actions)-1)+")")
		for _, a := range p.Actions {
			q.args = append(q.args, a)
		}
		if len(p.Actions) == 1 {
			index = "INDEXED BY audit_log_action"
		}
	}
	if p.Outcome != "" {
		where, q.args = append(where, "l.outcome = ?"), append(q.args, p.Outcome)
		if p.Outcome != OK {
			where, index = append(where, "l.outcome <> 'ok'"), "INDEXED BY audit_log_outcome"
		}
	}
	if p.SubjectID != "" {
		where, q.args = append(where, "l.subject_id = ? AND l.subject_id <> ''"), append(q.args, p.SubjectID)
		index = "INDEXED BY audit_log_subject"
	}
	if p.RunID != nil {
		where, q.args = append(where, "l.run_id = ? AND l.run_id IS NOT NULL"), append(q.args, *p.RunID)
		index = "INDEXED BY audit_log_run"
	}
	if p.Text != "" {
		like := "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(p.Text) + "%"
		where = append(where, `(l.action LIKE ? ESCAPE '\' OR l.subject_id LIKE ? ESCAPE '\' OR l.actor_id LIKE ? ESCAPE '\' OR EXISTS (SELECT 1 FROM audit_details t WHERE t.seq = l.seq AND t.details LIKE ? ESCAPE '\'))`)
		q.args = append(q.args, like, like, like, like)
	}
	q.sql = `SELECT ` + logColumns + `, d.details FROM audit_log l ` + index + ` LEFT JOIN audit_details d ON d.seq = l.seq WHERE ` + strings.Join(where, " AND ") + ` AND l.seq BETWEEN ? AND ? ORDER BY l.seq DESC LIMIT ?`
	return q
}

func (q *listQuery) run(tx *storage.Tx, from, to int64, limit int, signed int64, out *[]LogEntry) error {
	return tx.Select(q.sql, append(q.args[:len(q.args):len(q.args)], from, to, limit)...).Each(func(row storage.Row) error {
		e, err := scanEntry(row, q.user, signed)
		if err != nil {
			return err
		}
		*out = append(*out, e)
		return nil
	})
}

func scanEntry(rows storage.Row, user uuid.UUID, signed int64, more ...any) (LogEntry, error) {
	var e LogEntry
	var at int64
	var run, hash []byte
	var details sql.NullString
	dst := append([]any{&e.Seq, &e.ID, &at, &e.Action, &e.Actor.Kind, &e.Actor.ID, &e.Subject.Kind, &e.Subject.ID, &e.Outcome, &run, &hash, &details}, more...)
	if err := rows.Scan(dst...); err != nil {
		return e, err
	}
	e.Timestamp, e.TS = timeOf(at), at/1000
	if e.Actor.Kind == "user" {
		if slices.Contains(identity.ClientNames(), e.Actor.ID) {
			e.Actor.Client, e.Actor.ID = e.Actor.ID, ""
		}
		if e.Actor.ID == "" {
			e.Actor.ID = user.String()
		}
	}
	if len(run) == 16 {
		id := uuid.UUID(run)
		e.RunID = &id
	}
	e.Hash, e.Signed = hexOf([32]byte(hash)), e.Seq <= signed
	e.Details = json.RawMessage("null")
	if details.Valid {
		e.Details = json.RawMessage(details.String)
	}
	return e, nil
}

func signedThrough(tx *storage.Tx) (n int64, err error) {
	err = tx.QueryRow(`SELECT coalesce(max(last_seq), 0) FROM audit_segments`).Scan(&n)
	return n, err
}

// seqRange converts times to sequence numbers by binary search, since the times of entries never decrease.
func seqRange(tx *storage.Tx, from, to *time.Time) (lo, hi int64, err error) {
	if err := tx.QueryRow(`SELECT coalesce((SELECT min(seq) FROM audit_log), 1), coalesce((SELECT max(seq) FROM audit_log), 0)`).Scan(&lo, &hi); err != nil || lo > hi {
		return lo, hi, err
	}
	first, last := lo, hi
	if from != nil {
		if lo, err = firstAt(tx, first, last, from.UnixMicro()); err != nil {
			return lo, hi, err
		}
	}
	if to != nil {
		if hi, err = firstAt(tx, first, last, to.UnixMicro()+1); err != nil {
			return lo, hi, err
		}
		hi--
	}
	return lo, hi, nil
}

// firstAt returns the first entry in lo..hi at or after a time, or hi+1 if there is none.
func firstAt(tx *storage.Tx, lo, hi, at int64) (int64, error) {
	for lo <= hi {
		mid := lo + (hi-lo)/2
		var t int64
		err := tx.QueryRow(`SELECT at FROM audit_log WHERE seq >= ? ORDER BY seq LIMIT 1`, mid).Scan(&t)
		if err != nil {
			return lo, err
		}
		if t < at {
			lo = mid + 1
		} else {
			hi = mid - 1
		}
	}
	return lo, nil
}

func (s *Service) nameAll(ctx context.Context, es []LogEntry) {
	if s.o.Name == nil {
		return
	}
	seen := map[WireSubject]string{}
	name := func(kind, id string) string {
		k := WireSubject{Kind: kind, ID: id}
		n, ok := seen[k]
		if !ok && id != "" {
			n = s.o.Name(ctx, kind, id)
			seen[k] = n
		}
		return n
	}
	for i := range es {
		e := &es[i]
		e.Subject.Name = name(e.Subject.Kind, e.Subject.ID)
		if e.Actor.Kind == TokenActor {
			e.Actor.Name = name(e.Actor.Kind, e.Actor.ID)
		}
	}
}

// Get returns one entry with its position in the chain.
func (s *Service) Get(ctx context.Context, p GetParams) (GetResult, error) {
	var res GetResult
	user := identity.UserID(ctx)
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		signed, err := signedThrough(tx)
		if err != nil {
			return err
		}
		own, ids, err := ownEntries(tx, user)
		if err != nil {
			return err
		}
		var prev, dh []byte
		var dev uuid.UUID
		row := tx.QueryRow(`SELECT `+logColumns+`, d.details, l.prev_hash, l.details_hash, l.device_id FROM audit_log l LEFT JOIN audit_details d ON d.seq = l.seq WHERE l.seq = ? AND `+own, append([]any{p.Seq}, ids...)...)
		if res.LogEntry, err = scanEntry(row, user, signed, &prev, &dh, &dev); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				return fault.NotFoundf("Entry not found.")
			}
			return err
		}
		res.PrevHash, res.DetailsHash = hexOf([32]byte(prev)), hexOf([32]byte(dh))
		res.Erased = string(res.Details) == "null" && [32]byte(dh) != hashDetails(nil)
		for dst, q := range map[**int64]string{&res.Previous: `SELECT max(l.seq) FROM audit_log l WHERE l.seq < ? AND ` + own, &res.Following: `SELECT min(l.seq) FROM audit_log l WHERE l.seq > ? AND ` + own} {
			var n sql.NullInt64
			if err := tx.QueryRow(q, append([]any{p.Seq}, ids...)...).Scan(&n); err != nil {
				return err
			}
			if n.Valid {
				*dst = &n.Int64
			}
		}
		var g Segment
		var root, key []byte
		err = tx.QueryRow(`SELECT no, first_seq, last_seq, root, public_key, signed_at FROM audit_segments WHERE device_id = ? AND last_seq >= ? AND first_seq <= ? ORDER BY no LIMIT 1`, dev, p.Seq, p.Seq).
			Scan(&g.No, &g.FirstSeq, &g.LastSeq, &root, &key, storage.Time(&g.SignedAt))
		if err == nil {
			g.Root, g.PublicKey = hexBytes(root), hexBytes(key)
			res.Segment = &g
		} else if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return nil
	})
	if err == nil {
		one := []LogEntry{res.LogEntry}
		s.nameAll(ctx, one)
		res.LogEntry = one[0]
	}
	return res, err
}

// Entries returns the audit log of a run: its entries in order, at most 1,000.
func (s *Service) Entries(ctx context.Context, runID uuid.UUID) ([]WireEntry, error) {
	out := []WireEntry{}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		own, ids, err := ownEntries(tx, identity.UserID(ctx))
		if err != nil {
			return err
		}
		return tx.Select(`SELECT l.at, l.action, d.details FROM audit_log l INDEXED BY audit_log_run LEFT JOIN audit_details d ON d.seq = l.seq
			WHERE l.run_id = ? AND l.run_id IS NOT NULL AND `+own+` ORDER BY l.seq LIMIT 1000`, append([]any{runID}, ids...)...).Each(func(row storage.Row) error {
			var w WireEntry
			var at int64
			var details sql.NullString
			if err := row.Scan(&at, &w.Action, &details); err != nil {
				return err
			}
			w.Timestamp, w.TS, w.Details = timeOf(at), at/1000, json.RawMessage("null")
			if details.Valid {
				w.Details = json.RawMessage(details.String)
			}
			out = append(out, w)
			return nil
		})
	})
	return out, err
}
