package audit

import (
	"context"

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
// its place. The log of that file ends where it ends: an entry says that it took the place of
// another, and the head file follows it. The same file opened again keeps the head that is
// known, which it must still reach.
func (s *Service) replaced(same bool) {
	s.forgetHead()
	s.modern.Store(0)
	if !same {
		s.adopt.Store(true)
	}
	if s.db.Recovery() != nil {
		return
	}
	err := s.noteOpened()
	if err == nil && !same {
		err = s.closeOne(context.Background())
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
