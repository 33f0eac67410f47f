package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// Run signs segments, closes what a crash interrupted and removes what is too old, until ctx ends.
// Then it signs the rest.
func (s *Service) Run(ctx context.Context) error {
	s.closeInterrupted(ctx)
	if err := s.closeOne(ctx); err != nil && ctx.Err() == nil { // before anything replaces a head that does not match
		s.log.Warn("sign the audit log", "error", err)
	}
	sweep := time.NewTicker(time.Hour)
	defer sweep.Stop()
	prune := func() {
		if err := fault.Catch(func() error { return s.Prune(ctx) }); err != nil && ctx.Err() == nil {
			s.log.Error("audit retention", "error", err)
		}
	}
	prune()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if o, err := s.unsigned(stop); err == nil && o.from == 0 {
				return nil // without a write, so that commands that only read end sooner
			}
			if err := s.Sign(stop); err != nil {
				s.log.Error("sign the last audit segment", "error", err)
			}
			return nil
		case <-sweep.C:
			prune()
			continue
		case <-s.wake:
		case <-timer.C:
		}
		if s.again.Swap(false) {
			s.closeInterrupted(ctx)
		}
		wait, err := s.closeDue(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("sign audit segment", "error", err)
			wait = s.o.SegmentAge
		}
		timer.Reset(wait)
	}
}

func (s *Service) closeInterrupted(ctx context.Context) {
	if n, err := s.CloseInterrupted(ctx); err != nil && ctx.Err() == nil {
		s.log.Error("close interrupted runs", "error", err)
	} else if n > 0 {
		s.log.Info("closed runs that a stop interrupted", "count", n)
	}
}

// openSegment is the part of the log after the last signed segment of this device.
type openSegment struct {
	no      int64 // its future number
	from    int64 // first entry
	last    int64
	firstAt int64 // time of the first entry
	prev    [32]byte
}

func loadOpen(tx *storage.Tx, dev uuid.UUID) (o openSegment, err error) {
	var lastHash []byte
	err = tx.QueryRow(`SELECT no, last_seq, last_hash FROM audit_segments WHERE device_id = ? ORDER BY no DESC LIMIT 1`, dev).Scan(&o.no, &o.from, &lastHash)
	if errors.Is(err, sql.ErrNoRows) {
		err, o.prev = nil, genesis(dev)
	} else {
		copy(o.prev[:], lastHash)
	}
	o.no++
	if err != nil {
		return o, err
	}
	err = tx.QueryRow(`SELECT seq, at FROM audit_log WHERE seq > ? AND device_id = ? ORDER BY seq LIMIT 1`, o.from, dev).Scan(&o.from, &o.firstAt)
	if errors.Is(err, sql.ErrNoRows) {
		o.from = 0
		return o, nil
	}
	if err != nil {
		return o, err
	}
	return o, tx.QueryRow(`SELECT max(seq) FROM audit_log`).Scan(&o.last)
}

// unsigned returns the part of the log that is not signed; its from is 0 if all of it is.
func (s *Service) unsigned(ctx context.Context) (openSegment, error) {
	return storage.Result(ctx, s.db.Read, func(tx *storage.Tx) (openSegment, error) { return loadOpen(tx, s.db.Device().ID) })
}

// closeDue closes the segments that are full or old enough, and returns when to check again.
func (s *Service) closeDue(ctx context.Context) (time.Duration, error) {
	for {
		o, err := s.unsigned(ctx)
		if err != nil {
			return 0, err
		}
		if o.from == 0 {
			return time.Hour, nil
		}
		if n := o.last - o.from + 1; n < int64(s.o.SegmentEntries)-1 { // one entry is reserved for the mark
			if age := time.Since(time.UnixMicro(o.firstAt)); age < s.o.SegmentAge {
				return s.o.SegmentAge - max(age, 0), nil
			}
		}
		if err := s.closeOne(ctx); err != nil {
			return 0, err
		}
	}
}

// Sign signs everything that is unsigned. The error is Unavailable while the device key is locked.
func (s *Service) Sign(ctx context.Context) error {
	for {
		if err := s.closeOne(ctx); err != nil {
			return err
		}
		if o, err := s.unsigned(ctx); err != nil || o.from == 0 {
			return err
		}
	}
}

// closeOne signs one segment of at most SegmentEntries entries. If the segment reaches the end of
// the log, its last entry is a mark. Before closeOne replaces the head file it checks that it still
// matches the log; a mismatch is recorded in the segment.
//
// The head file names what will be signed before the commit, and what was signed after it. So after
// a crash at any point the newest segment is one of the two.
func (s *Service) closeOne(ctx context.Context) error {
	s.closing.Lock()
	defer s.closing.Unlock()
	keys, err := s.db.DeviceKeys(ctx)
	if err != nil {
		return err
	}
	if err := s.findStatement(ctx, keys); err != nil {
		return err
	}
	adopt := s.adopt.Load()
	var seg segment
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		seg = segment{}
		dev := tx.Device()
		if dev.ID == uuid.Nil {
			return fault.Unavailablef("The audit log can't be signed because this device's key is locked.")
		}
		last, err := lastSegment(tx, dev.ID)
		if err != nil {
			return err
		}
		found, err := s.checkHead(tx, keys, last)
		if err != nil {
			return err
		}
		if err := s.noteHead(tx, found, adopt); err != nil {
			return err
		}
		o, err := loadOpen(tx, dev.ID)
		if err != nil {
			return err
		}
		if o.from == 0 {
			if found.settle {
				return s.putHead(Head{Device: dev.ID}.with(last), false)
			}
			return nil
		}
		end := min(o.last, o.from+int64(s.o.SegmentEntries)-1)
		if end == o.last && end-o.from+1 < int64(s.o.SegmentEntries) {
			mark := Entry{User: s.db.LocalUser().ID, ActorKind: "system", Action: SegmentClosed, SubjectKind: "segment", SubjectID: strconv.FormatInt(o.no, 10)}
			if mark.Details, err = s.firstStatement(tx, o.last); err != nil {
				return err
			}
			if end, err = appendEntry(tx, mark); err != nil {
				return err
			}
		}
		next := segment{Device: dev.ID, No: o.no, First: o.from, Last: end, Count: end - o.from + 1, FirstPrev: o.prev, Key: dev.PublicKey, SignedAt: tx.Now.UnixMicro()}
		if err := next.fill(tx); err != nil {
			return err
		}
		if next.Signature, err = s.db.Sign(next.message()); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO audit_segments (device_id, no, first_seq, last_seq, count, first_prev, last_hash, root, public_key, signature, signed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			next.Device, next.No, next.First, next.Last, next.Count, next.FirstPrev, next.LastHash, next.Root, []byte(next.Key), next.Signature, next.SignedAt); err != nil {
			return err
		}
		if err := tx.LogBegun(); err != nil {
			return err
		}
		h := Head{Device: dev.ID}.with(last)
		signed := next.signed()
		h.Pending = &signed
		if err := s.putHead(h, false); err != nil {
			return err
		}
		seg = next
		return nil
	})
	if err != nil {
		return err
	}
	if adopt {
		s.adopt.Store(false)
	}
	if seg.No == 0 {
		return nil
	}
	return s.putHead(Head{Device: seg.Device}.with(&seg), true)
}

// fill computes the root over the entries, which must be consecutive.
func (s *segment) fill(tx *storage.Tx) error {
	rows, err := tx.Query(`SELECT seq, hash FROM audit_log WHERE seq BETWEEN ? AND ? ORDER BY seq`, s.First, s.Last)
	if err != nil {
		return err
	}
	defer rows.Close()
	var m merkle
	for rows.Next() {
		var seq int64
		var h sql.RawBytes
		if err := rows.Scan(&seq, &h); err != nil {
			return err
		}
		if seq != s.First+int64(m.n) {
			return fault.Internalf(fmt.Errorf("audit: entry %d is missing", s.First+int64(m.n)), "The audit log is damaged, so its newest part was not signed.")
		}
		copy(s.LastHash[:], h)
		m.add(s.LastHash)
	}
	if int64(m.n) != s.Count && rows.Err() == nil {
		return fault.Internalf(errors.New("audit: entries are missing"), "The audit log is damaged, so its newest part was not signed.")
	}
	s.Root = m.root()
	return rows.Err()
}
