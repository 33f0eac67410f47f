package channels

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

const (
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
)

// queue writes the messages of a text to the outbox. The same key is queued only once.
func (s *Service) queue(tx *storage.Tx, c *channelRow, contextID, key, text string, reply bool) error {
	now, life := s.o.Clock.Now(), noticeLife
	if reply {
		life = replyLife
	}
	if err := s.makeRoom(tx, c); err != nil {
		return err
	}
	for i, part := range messagesOf(text, limitsOf(c.kind)) {
		id := storage.NewID()
		payload, err := s.sealMessage("channel_outbox", id, part)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO channel_outbox (id, user_id, channel_id, context_id, dedupe_key, reply, payload, state, next_at, expires_at, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?) ON CONFLICT (channel_id, dedupe_key) DO NOTHING`,
			id, c.user, c.id, contextID, fmt.Sprintf("%s:%d", key, i), reply, payload, now, now.Add(life), now); err != nil {
			return err
		}
	}
	tx.AfterCommit(func() { s.wakeSender(c.id) })
	return nil
}

// messagesOf returns the messages of a text: its parts, or a file if there would be too many.
func messagesOf(text string, l Limits) (list []message) {
	parts := split(text, l)
	if len(parts) > maxParts {
		return []message{{Text: textAsFile, File: &File{Name: "answer.txt", Data: []byte(text)}}}
	}
	for _, p := range parts {
		list = append(list, message{Text: p})
	}
	return list
}

// makeRoom drops the oldest waiting notifications of a channel whose outbox is full; replies never.
func (s *Service) makeRoom(tx *storage.Tx, c *channelRow) error {
	var waiting int
	if err := tx.QueryRow(`SELECT count(*) FROM channel_outbox WHERE channel_id = ? AND state = 'queued'`, c.id).Scan(&waiting); err != nil || waiting < maxOutbox {
		return err
	}
	r, err := tx.Exec(`UPDATE channel_outbox SET state = 'dropped' WHERE id IN (SELECT id FROM channel_outbox WHERE channel_id = ? AND state = 'queued' AND NOT reply ORDER BY id LIMIT ?)`, c.id, waiting-maxOutbox+1)
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if err != nil || n == 0 {
		return err
	}
	return s.auditDropped(tx, c, n, "full")
}

func (s *Service) auditDropped(tx *storage.Tx, c *channelRow, n int64, reason string) error {
	return audit.Append(tx, audit.Entry{
		User: c.user, ActorKind: "channel", ActorID: c.id.String(), Action: "channel.dropped", SubjectKind: "channel", SubjectID: c.id.String(),
		Details: map[string]any{"channel": c.name, "count": n, "reason": reason},
	})
}

// notice queues a text of the channel itself.
func (s *Service) notice(ctx context.Context, c *channelRow, contextID, key, text string) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error { return s.queue(tx, c, contextID, key, text, false) })
}

// outboxRow is a message to send.
type outboxRow struct {
	id              uuid.UUID
	context         string
	reply, repeated bool
	payload         []byte
	attempts        int
	next, expires   time.Time
}

// heads returns the oldest unsent message of each context: later ones wait for it.
func heads(tx *storage.Tx, channel uuid.UUID) ([]outboxRow, error) {
	return storage.Collect(tx.Select(`SELECT id, context_id, reply, repeated, payload, attempts, next_at, expires_at FROM channel_outbox o WHERE channel_id = ?1 AND state = 'queued'
		AND id = (SELECT min(id) FROM channel_outbox WHERE channel_id = ?1 AND state = 'queued' AND context_id = o.context_id) ORDER BY next_at, id`, channel), func(row storage.Row) (r outboxRow, err error) {
		err = row.Scan(&r.id, &r.context, &r.reply, &r.repeated, &r.payload, &r.attempts, storage.Time(&r.next), storage.Time(&r.expires))
		return r, err
	})
}

// recoverSending decides about messages that were being sent when the process ended. They go out again
// where the service recognizes a repeat; elsewhere only replies do, marked.
func (s *Service) recoverSending(ctx context.Context, c *channelRow) error {
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if limitsOf(c.kind).Idempotent {
			_, err := tx.Exec(`UPDATE channel_outbox SET state = 'queued' WHERE channel_id = ? AND state = 'sending'`, c.id)
			return err
		}
		_, err := tx.Exec(`UPDATE channel_outbox SET state = iif(reply, 'queued', 'unknown'), repeated = reply WHERE channel_id = ? AND state = 'sending'`, c.id)
		return err
	})
}

// send sends what is due, and returns how long to wait for the next message; 0: until one is queued.
func (r *runner) send(ctx context.Context) (wait time.Duration, err error) {
	s := r.s
	for ctx.Err() == nil {
		list, err := storage.Result(ctx, s.db.Read, func(tx *storage.Tx) ([]outboxRow, error) { return heads(tx, r.c.id) })
		if err != nil {
			return 0, err
		}
		if len(list) == 0 {
			return 0, nil
		}
		now, sent := s.o.Clock.Now(), false
		for i := range list {
			if list[i].next.After(now) && list[i].expires.After(now) {
				if !sent {
					return list[i].next.Sub(now), nil
				}
				break
			}
			if err := r.sendOne(ctx, &list[i], now); err != nil {
				return 0, err
			}
			sent = true
		}
	}
	return 0, nil
}

// sendOne sends a message and stores what became of it.
func (r *runner) sendOne(ctx context.Context, o *outboxRow, now time.Time) error {
	s := r.s
	if !o.expires.After(now) {
		return s.db.Write(ctx, func(tx *storage.Tx) error {
			if _, err := tx.Exec(`UPDATE channel_outbox SET state = 'dropped' WHERE id = ? AND state = 'queued'`, o.id); err != nil {
				return err
			}
			return s.auditDropped(tx, &r.c, 1, "expired")
		})
	}
	m, err := s.openMessage("channel_outbox", o.id, o.payload)
	if err != nil {
		return err
	}
	var mine bool
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		res, err := tx.Exec(`UPDATE channel_outbox SET state = 'sending', attempts = attempts + 1 WHERE id = ? AND state = 'queued'`, o.id)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		mine = n > 0
		return err
	})
	if err != nil || !mine { // dropped meanwhile
		return err
	}
	s.crashPoint("before send")
	if o.repeated {
		m.Text = textRepeated + m.Text
	}
	ref, err := r.adapter.Send(ctx, Outgoing{ID: o.id, ContextID: o.context, Text: m.Text, File: m.File, Reply: o.reply})
	s.crashPoint("after send")
	return r.noteSent(context.WithoutCancel(ctx), o, ref, err)
}

// noteSent stores the result of sending a message.
func (r *runner) noteSent(ctx context.Context, o *outboxRow, ref string, failure error) error {
	s := r.s
	var refused *SendError
	final := errors.As(failure, &refused) && refused.Final
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		now := s.o.Clock.Now()
		if failure != nil {
			tx.AfterCommit(func() { bus.Publish(s.bus, r.c.user, Changed{r.c.id, r.adapter.Health().State}) })
		}
		switch {
		case failure == nil:
			tx.AfterCommit(func() { bus.Publish(s.bus, r.c.user, Message{r.c.id, "out", o.context}) })
			_, err := tx.Exec(`UPDATE channel_outbox SET state = 'sent', sent_at = ?, external_ref = ? WHERE id = ?`, now, ref, o.id)
			return err
		case final:
			_, err := tx.Exec(`UPDATE channel_outbox SET state = 'failed', last_error = ? WHERE id = ?`, fault.As(refused.Err).Message, o.id)
			return err
		}
		delay := min(firstRetry<<min(o.attempts, 10), longestRetry)
		delay += time.Duration(rand.Float64() * float64(delay) / 4) //nolint:gosec // jitter
		if refused != nil {
			delay = max(delay, refused.After)
		}
		_, err := tx.Exec(`UPDATE channel_outbox SET state = 'queued', next_at = ?, last_error = ? WHERE id = ?`, now.Add(delay), fault.As(failure).Message, o.id)
		return err
	})
	if err == nil && refused != nil && refused.Disable {
		err = s.disable(ctx, r.c.id, fault.As(refused.Err).Message)
	}
	return err
}
