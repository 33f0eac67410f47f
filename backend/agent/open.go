package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// Limits of what is open.
const (
	maxOpen   = 50             // chats of a user, and chats in memory
	idleAfter = 48 * time.Hour // an idle chat leaves memory
	lookEach  = time.Hour
	inUse     = time.Minute // a call that has just got a session may still write to it
)

// idle says that nothing of the session runs, waits or is queued; l.mu is held.
func (l *live) idle() bool { return !l.running && l.state.Turn == nil && len(l.state.Queue) == 0 }

// unload takes sessions out of memory that were idle for long, and the least recently used ones beyond those that stay.
// The next use reads them again, from a snapshot.
func (s *Service) unload(ctx context.Context) {
	now := time.Now()
	for s.unloadOne(ctx, now) {
	}
}

func (s *Service) unloadOne(ctx context.Context, now time.Time) bool {
	s.mu.Lock() // never held together with that of a session here
	all := slices.Collect(maps.Values(s.all))
	s.mu.Unlock()
	var oldest *live
	var used int64
	for _, l := range all {
		l.mu.Lock()
		if at := l.used.Load(); l.idle() && (oldest == nil || at < used) {
			oldest, used = l, at
		}
		l.mu.Unlock()
	}
	age := now.Sub(time.Unix(0, used))
	if oldest == nil || age < inUse || age < idleAfter && len(all) <= maxOpen {
		return false
	}
	s.mu.Lock()
	if oldest.used.Load() == used { // session gives it out under the same lock
		delete(s.all, oldest.id)
	}
	s.mu.Unlock()
	oldest.mu.Lock()
	defer oldest.mu.Unlock()
	if oldest.since == 0 {
		return true
	}
	if err := s.snapshot(s.asUser(ctx, oldest.user), oldest.id, oldest.user, oldest.state); err != nil {
		s.log.Warn("store the snapshot of a session", "session", oldest.id, "err", err) // its log is there
	}
	return true
}

// archiveOldest archives the chats that were idle for longest when a user has more than may be open. Pinned ones stay,
// and the one that has just begun.
func (s *Service) archiveOldest(ctx context.Context, but uuid.UUID) error {
	var list []uuid.UUID
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		const open = `FROM sessions s WHERE s.user_id = ? AND s.kind = 'chat' AND s.archived_at IS NULL AND s.deleted_at IS NULL AND s.device_id = ?`
		var n int
		if err := tx.QueryRow(`SELECT count(*) `+open, identity.UserID(ctx), s.db.Device().ID).Scan(&n); err != nil || n <= maxOpen {
			return err
		}
		list, err = storage.Collect(tx.Select(`SELECT s.id `+open+` AND s.id <> ? AND NOT s.pinned AND NOT EXISTS (SELECT 1 FROM agent_turns t WHERE t.session_id = s.id AND t.state IN ('queued', 'running', 'waiting'))
			ORDER BY coalesce(s.last_message_at, s.created_at), s.id LIMIT ?`, identity.UserID(ctx), s.db.Device().ID, but, n-maxOpen), storage.RowTo[uuid.UUID])
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range list {
		l, err := s.session(ctx, id)
		if err != nil {
			return err
		}
		l.mu.Lock()
		if n := len(l.state.Exchanges); n > 0 { // a chat without one has nothing to read
			err = l.appendLocked(ctx, l.state.Exchanges[n-1].Turn, nil, &noticed{Kind: "archived", Text: "This chat was archived, because 50 others are open. Take it out of the archive to continue."})
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
		if _, err := s.Archive(ctx, SessionParams{id}); err != nil {
			return err
		}
	}
	return nil
}
