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

// Limits on open chats and on chats in memory.
const (
	maxOpen   = 50             // open chats of a user, and chats in memory
	idleAfter = 48 * time.Hour // after which an idle chat is unloaded
	lookEach  = time.Hour
	inUse     = time.Minute // how long a caller of session may still write to it
)

// idle reports whether no turn of the session is running, waiting or queued. The caller holds l.mu.
func (l *live) idle() bool { return !l.running && l.state.Turn == nil && len(l.state.Queue) == 0 }

// unload drops sessions from memory that have been idle for long, then the least recently used ones
// over the limit. The next use loads them again, from a snapshot.
func (s *Service) unload(ctx context.Context) {
	now := time.Now()
	for s.unloadOne(ctx, now) {
	}
}

func (s *Service) unloadOne(ctx context.Context, now time.Time) bool {
	s.mu.Lock() // never held here together with the lock of a session
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
	if oldest.used.Load() == used { // session updates it under the same lock
		delete(s.all, oldest.id)
	}
	s.mu.Unlock()
	oldest.mu.Lock()
	defer oldest.mu.Unlock()
	if oldest.since == 0 {
		return true
	}
	if err := s.snapshot(s.asUser(ctx, oldest.user), oldest.id, oldest.user, oldest.state); err != nil {
		s.log.Warn("store the snapshot of a session", "session", oldest.id, "err", err) // its log is still complete
	}
	return true
}

// archiveOldest archives the chats that have been idle longest when a user has more than may be open.
// It skips pinned chats and the chat but.
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
		if n := len(l.state.Exchanges); n > 0 { // a chat without exchanges has nothing to read
			err = l.appendLocked(ctx, l.state.Exchanges[n-1].Turn, nil, &noticed{Kind: "archived", Text: "This chat was archived, because 50 others are open. Unarchive it to continue."})
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
