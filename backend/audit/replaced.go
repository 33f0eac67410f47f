package audit

import (
	"context"

	"helix/backend/storage"
)

// noteOpened stores the end of the log when the file was opened.
func (s *Service) noteOpened() error {
	return s.db.Read(context.Background(), func(tx *storage.Tx) error {
		var seq int64
		err := tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM audit_log`).Scan(&seq)
		s.opened.Store(seq)
		return err
	})
}

// replaced handles the replacement of the database by a restore, rollback or salvage. The log of
// the new file remains as it is: an entry records the replacement, and the head file is updated. If
// the same file was opened again, the known head is kept, and the log must still contain it.
func (s *Service) replaced(same bool) {
	s.forgetHead()
	s.statementSeq.Store(0)
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
