package channels

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/storage"
)

const (
	// maxRejections is how many rows a channel has at most. More senders than that are counted
	// together, so that a flood can't fill the database or the audit log.
	maxRejections = 100
	maxNamed      = maxRejections - 8 // the other rows are one for each reason, without a sender
	logEach       = time.Hour         // identical rejections within it are one audit entry
	rejectionAge  = 24 * time.Hour    // after which a row makes room for another sender
)

// rejection identifies messages that were refused for the same reason. It holds no text.
type rejection struct{ sender, context, reason string }

// counter counts identical rejections since the last entry in the audit log.
type counter struct {
	logged  time.Time
	pending int // not stored yet
}

// reject counts a refused message. The first of its kind in an hour is stored at once.
func (s *Service) reject(ctx context.Context, channel uuid.UUID, r rejection) {
	r.sender, r.context = clip(r.sender), clip(r.context)
	now := s.o.Clock.Now()
	s.mu.Lock()
	all := s.rejections[channel]
	if all == nil {
		all = map[rejection]*counter{}
		s.rejections[channel] = all
	}
	if all[r] == nil && len(all) >= maxNamed {
		r.sender, r.context = "", ""
	}
	if c := all[r]; c != nil && now.Sub(c.logged) < logEach {
		c.pending++
		s.mu.Unlock()
		return
	}
	c := all[r]
	if c == nil {
		c = &counter{}
		all[r] = c
	}
	count := c.pending + 1
	c.logged, c.pending = now, 0
	s.mu.Unlock()
	if err := s.storeRejection(ctx, channel, r, count, true); err != nil {
		s.log.Warn("a rejected message was not logged", "channel", channel, "reason", r.reason, "err", err)
	}
}

// storeRejection adds to the counted row, and to the audit log if logged is true.
func (s *Service) storeRejection(ctx context.Context, channel uuid.UUID, r rejection, count int, logged bool) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := loadChannel(tx, channel)
		if err != nil {
			return err
		}
		now := s.o.Clock.Now()
		var there bool
		var rows int
		if err := tx.QueryRow(`SELECT count(*), count(*) FILTER (WHERE sender_id = ? AND context_id = ? AND reason = ?) > 0 FROM channel_rejections WHERE channel_id = ?`,
			r.sender, r.context, r.reason, channel).Scan(&rows, &there); err != nil {
			return err
		}
		if !there && rows >= maxNamed {
			gone, err := tx.Exec(`DELETE FROM channel_rejections WHERE channel_id = ? AND last_at < ?`, channel, now.Add(-rejectionAge))
			if err != nil {
				return err
			}
			if n, err := gone.RowsAffected(); err != nil {
				return err
			} else if n == 0 {
				r.sender, r.context = "", ""
			}
		}
		if _, err := tx.Exec(`INSERT INTO channel_rejections (user_id, channel_id, sender_id, context_id, reason, first_at, last_at, logged_at, count) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (channel_id, sender_id, context_id, reason) DO UPDATE SET last_at = excluded.last_at, count = count + excluded.count, logged_at = iif(?, excluded.logged_at, logged_at)`,
			c.user, channel, r.sender, r.context, r.reason, now, now, now, count, logged); err != nil {
			return err
		}
		tx.AfterCommit(func() { bus.Publish(s.bus, c.user, Rejected{channel, count}) })
		if !logged {
			return nil
		}
		return audit.Append(tx, audit.Entry{
			User: c.user, ActorKind: "channel", ActorID: channel.String(), Action: "channel.rejected", SubjectKind: "channel", SubjectID: channel.String(), Outcome: audit.Denied,
			Details: map[string]any{"channel": c.name, "senderId": r.sender, "context": r.context, "reason": r.reason, "count": count},
		})
	})
}

// flushRejections stores what was counted since the last entries.
func (s *Service) flushRejections(ctx context.Context) error {
	type pending struct {
		channel uuid.UUID
		rejection
		count int
	}
	var list []pending
	s.mu.Lock()
	for channel, all := range s.rejections {
		for r, c := range all {
			if c.pending > 0 {
				list = append(list, pending{channel, r, c.pending})
				c.pending = 0
			}
		}
	}
	s.mu.Unlock()
	for _, p := range list {
		user, err := s.owner(ctx, p.channel)
		if err == nil {
			err = s.storeRejection(as(ctx, user), p.channel, p.rejection, p.count, false)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) owner(ctx context.Context, channel uuid.UUID) (user uuid.UUID, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT user_id FROM channels WHERE id = ?`, channel).Scan(&user)
	})
	return user, err
}

// clip shortens an id from outside.
func clip(id string) string { return strings.ToValidUTF8(id[:min(len(id), maxID)], "") }
