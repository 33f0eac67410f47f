package audit

import (
	"context"
	"database/sql"
	"errors"
	"os"

	"helix/backend/storage"
)

// noteOpened remembers where the log ended when the file was opened.
func (s *Service) noteOpened() error {
	return s.db.Read(context.Background(), func(tx *storage.Tx) error {
		var seq int64
		err := tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM audit_log`).Scan(&seq)
		s.opened.Store(seq)
		return err
	})
}

// replaced follows the database when a restore, rollback or salvage has put another file in
// its place. The log of that file ends where it ends, so its newest signed head becomes the
// known one; storage has put the exchange itself on record. The same file opened again keeps
// the head that is known, which it must still reach.
func (s *Service) replaced(same bool) {
	s.forgetHead()
	if s.db.Recovery() != nil {
		return
	}
	err := s.noteOpened()
	if err == nil && !same {
		err = s.adoptHead()
	}
	if err != nil {
		s.log.Error("follow the replaced audit log", "error", err)
	}
	s.again.Store(true)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// adoptHead writes the head file anew from the newest segment of this device.
func (s *Service) adoptHead() error {
	if s.o.HeadFile == "" {
		return nil
	}
	s.closing.Lock()
	defer s.closing.Unlock()
	var seg segment
	var public []byte
	err := s.db.Read(context.Background(), func(tx *storage.Tx) error {
		seg.Device = s.db.Device().ID
		var prev, last, root []byte
		err := tx.QueryRow(`SELECT no, first_seq, last_seq, count, first_prev, last_hash, root, public_key, signature, signed_at FROM audit_segments WHERE device_id = ? ORDER BY no DESC LIMIT 1`, seg.Device).
			Scan(&seg.No, &seg.First, &seg.Last, &seg.Count, &prev, &last, &root, &public, &seg.Signature, &seg.SignedAt)
		copy(seg.FirstPrev[:], prev)
		copy(seg.LastHash[:], last)
		copy(seg.Root[:], root)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		if err = os.Remove(s.o.HeadFile); errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return err
	}
	if err != nil {
		return err
	}
	seg.Key = public
	return s.writeHead(seg.head())
}
