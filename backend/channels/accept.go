package channels

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

const (
	senderRate  = 20 // messages of a sender in a minute
	channelRate = 60
	ratePeriod  = time.Minute
)

type rateKey struct {
	channel uuid.UUID
	sender  string // "": all of the channel
}

// rate counts the messages of one minute.
type rate struct {
	since time.Time
	count int
}

// The texts that senders get from the channel itself.
const (
	textPaired   = "Paired."
	textSlowDown = "Please slow down. Messages of the next minute are not read."
	textNoModel  = "No model is set up on the computer."
	textApproval = "This needs your approval in Helix."
	textNoFiles  = "Files of this kind are not supported. Nothing was read."
	textEdited   = "(edited) "
	textTooLong  = "This message is too long. Nothing was read."
	textFailed   = "Helix couldn't answer this message."
	textRepeated = "(may be a repeat) "
	textAsFile   = "The answer is long. All of it is in the file."
)

// sink accepts the messages of one channel.
type sink struct {
	s             *Service
	channel, user uuid.UUID
}

// Reject implements Sink.
func (k sink) Reject(ctx context.Context, reason string) {
	k.s.reject(as(ctx, k.user), k.channel, rejection{reason: reason})
}

// SetCursor implements Sink.
func (k sink) SetCursor(ctx context.Context, cursor string) error {
	return k.s.db.Write(as(ctx, k.user), func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE channels SET cursor = ? WHERE id = ?`, cursor, k.channel)
		return err
	})
}

// Accept implements Sink. The order of the checks is: sender and context, rate, size.
func (k sink) Accept(ctx context.Context, in Incoming) error {
	s, ctx := k.s, as(ctx, k.user)
	if in.SenderID == "" || in.ContextID == "" || in.MessageID == "" || len(in.SenderID) > maxID || len(in.ContextID) > maxID || len(in.MessageID) > maxID {
		s.reject(ctx, k.channel, rejection{reason: "not_allowed"})
		return fault.Deniedf("Not allowed.")
	}
	var c channelRow
	var sender *senderRow
	var known bool
	err := s.db.Read(ctx, func(tx *storage.Tx) (err error) {
		if c, err = loadChannel(tx, k.channel); err != nil {
			return err
		}
		list, err := senderRows(tx, k.channel, `AND sender_id = ?`, in.SenderID)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			sender = &list[0]
		}
		return tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM channel_inbox WHERE channel_id = ? AND external_id = ?)`, k.channel, in.MessageID).Scan(&known)
	})
	if err != nil {
		return err
	}
	refuse := func(reason string) error {
		s.reject(ctx, k.channel, rejection{in.SenderID, in.ContextID, reason})
		return fault.Deniedf("Not allowed.")
	}
	if in.Anonymous {
		return refuse("not_allowed")
	}
	if sender == nil {
		if code, ok := strings.CutPrefix(strings.TrimSpace(in.Text), "/pair "); ok && !in.Group {
			return s.pairWith(ctx, k.channel, in, strings.TrimSpace(code))
		}
		return refuse("not_allowed")
	}
	if !sender.allows(&in) {
		return refuse("context")
	}
	if known {
		return errRepeated()
	}
	if sender.role != "chat" {
		return refuse("not_allowed") // it only receives
	}
	if first, ok := s.admit(k.channel, in.SenderID); !ok {
		s.reject(ctx, k.channel, rejection{in.SenderID, in.ContextID, "rate"})
		if first {
			if err := s.notice(ctx, &c, in.ContextID, "slow:"+in.MessageID, textSlowDown); err != nil {
				return err
			}
		}
		return fault.Limitf("Too many messages. Try again in a minute.")
	}
	if len(in.Text) > maxText {
		s.reject(ctx, k.channel, rejection{in.SenderID, in.ContextID, "size"})
		if err := s.notice(ctx, &c, in.ContextID, "size:"+in.MessageID, textTooLong); err != nil {
			return err
		}
		return fault.Invalidf("The text has more than 32 KiB.")
	}
	s.crashPoint("before commit")
	if err := s.storeIncoming(ctx, &c, in); err != nil {
		return err
	}
	s.crashPoint("after commit")
	signal(s.wake)
	return nil
}

func errRepeated() error { return fault.Conflictf("This message was received before.") }

// storeIncoming writes the row of an accepted message.
func (s *Service) storeIncoming(ctx context.Context, c *channelRow, in Incoming) error {
	id := storage.NewID()
	m := message{Text: in.Text, Label: in.SenderLabel, Media: s.keepMedia(ctx, in.Media)}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if replaced, err := s.replaceWaiting(tx, c, in, m); err != nil || replaced {
			return err
		}
		if in.Edits != "" {
			m.Text = textEdited + m.Text
		}
		payload, err := s.sealMessage("channel_inbox", id, m)
		if err != nil {
			return err
		}
		var waiting int
		if err := tx.QueryRow(`SELECT count(*) FROM channel_inbox WHERE channel_id = ? AND state = 'received'`, c.id).Scan(&waiting); err != nil {
			return err
		}
		if waiting >= maxWaiting {
			return fault.Unavailablef("%d messages wait already.", waiting)
		}
		now := s.o.Clock.Now()
		r, err := tx.Exec(`INSERT INTO channel_inbox (id, user_id, channel_id, external_id, context_id, sender_id, payload, state, received_at) VALUES (?, ?, ?, ?, ?, ?, ?, 'received', ?) ON CONFLICT (channel_id, external_id) DO NOTHING`,
			id, c.user, c.id, in.MessageID, in.ContextID, in.SenderID, payload, now)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			if err == nil {
				err = errRepeated()
			}
			return err
		}
		tx.AfterCommit(func() { bus.Publish(s.bus, c.user, Message{c.id, "in", in.ContextID}) })
		_, err = tx.Exec(`UPDATE channel_senders SET last_seen = ? WHERE channel_id = ? AND sender_id = ?`, now, c.id, in.SenderID)
		return err
	})
}

// replaceWaiting replaces the text of a message that the agent hasn't got yet.
func (s *Service) replaceWaiting(tx *storage.Tx, c *channelRow, in Incoming, m message) (bool, error) {
	if in.Edits == "" {
		return false, nil
	}
	list, err := storage.Collect(tx.Select(`SELECT id FROM channel_inbox WHERE channel_id = ? AND external_id = ? AND sender_id = ? AND state = 'received' AND session_id IS NULL`, c.id, in.Edits, in.SenderID), storage.RowTo[uuid.UUID])
	if err != nil || len(list) == 0 {
		return false, err
	}
	payload, err := s.sealMessage("channel_inbox", list[0], m)
	if err == nil {
		_, err = tx.Exec(`UPDATE channel_inbox SET payload = ? WHERE id = ?`, payload, list[0])
	}
	return true, err
}

// admit counts a message against the rates. first reports the first refusal since a rate was exceeded.
// Only allowed senders are counted, so the map stays small.
func (s *Service) admit(channel uuid.UUID, sender string) (first, ok bool) {
	now := s.o.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	ok = true
	for _, l := range []struct {
		key  rateKey
		most int
	}{{rateKey{channel, sender}, senderRate}, {rateKey{channel: channel}, channelRate}} {
		r := s.rates[l.key]
		if r == nil || now.Sub(r.since) >= ratePeriod || now.Before(r.since) {
			r = &rate{since: now}
			s.rates[l.key] = r
		}
		r.count++
		if r.count == l.most+1 {
			r.since, first = now, true // silence lasts a minute from here
		}
		if r.count > l.most {
			return first, false
		}
	}
	return false, ok
}
