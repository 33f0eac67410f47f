package channels

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// RejectedParams select refused messages.
type RejectedParams struct {
	ID     *uuid.UUID `json:"id,omitempty"`
	From   *time.Time `json:"from,omitempty"`
	Before *time.Time `json:"before,omitempty"` // the timestamp of the last entry of the page before
	Limit  int        `json:"limit,omitempty"`  // 1 to 100, default 50
}

// Rejection counts refused messages of a sender. It has no text. Senders over the limit of rows are
// counted together, without ids.
type Rejection struct {
	Timestamp time.Time `json:"timestamp"` // of the last one
	Channel   string    `json:"channel"`
	ChannelID uuid.UUID `json:"channelId"`
	SenderID  string    `json:"senderId"`
	Context   string    `json:"context"`
	Reason    string    `json:"reason"` // not_allowed, context, rate, size, signature, replay or pairing
	Count     int       `json:"count"`
}

// RejectedResult lists refused messages, newest first.
type RejectedResult struct {
	Entries []Rejection `json:"entries"`
}

// Rejected lists what was refused.
func (s *Service) Rejected(ctx context.Context, p RejectedParams) (RejectedResult, error) {
	out := RejectedResult{Entries: []Rejection{}}
	if err := storage.CheckPage(&p.Limit, new(int), 50, 100); err != nil {
		return out, err
	}
	if err := s.flushRejections(ctx); err != nil {
		return out, err
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT r.last_at, c.name, c.id, r.sender_id, r.context_id, r.reason, r.count FROM channel_rejections r JOIN channels c ON c.id = r.channel_id
			WHERE c.user_id = ?1 AND c.deleted_at IS NULL AND (?2 IS NULL OR c.id = ?2) AND (?3 IS NULL OR r.last_at >= ?3) AND (?4 IS NULL OR r.last_at < ?4) ORDER BY r.last_at DESC, r.sender_id LIMIT ?5`, identity.UserID(ctx), p.ID, p.From, p.Before, p.Limit).Each(func(row storage.Row) error {
			var r Rejection
			err := row.Scan(storage.Time(&r.Timestamp), &r.Channel, &r.ChannelID, &r.SenderID, &r.Context, &r.Reason, &r.Count)
			out.Entries = append(out.Entries, r)
			return err
		})
	})
	return out, err
}

// SendParams are a message to a conversation of a channel.
type SendParams struct {
	ID        uuid.UUID `json:"id"`
	ContextID string    `json:"contextId"`
	Text      string    `json:"text"`
	// NotifyOnly sends a notification: it expires after 6 hours instead of 24, and makes room for replies.
	NotifyOnly bool `json:"notifyOnly,omitempty"`
}

// SendResult is a queued message.
type SendResult struct {
	MessageID uuid.UUID `json:"messageId"`
	State     string    `json:"state"`
}

// Send queues a message. Its context must be one that an allowed sender has written from or may write in.
func (s *Service) Send(ctx context.Context, p SendParams) (out SendResult, err error) {
	if p.Text == "" || len(p.Text) > maxAnswerText {
		return out, fault.InvalidField("text", fault.CodeInvalid, "A text must have 1 byte to 256 KiB.")
	}
	key := "send:" + storage.NewID().String()
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := loadChannel(tx, p.ID)
		if err != nil {
			return err
		}
		if known, err := knows(tx, p.ID, p.ContextID); err != nil || !known {
			if err == nil {
				err = fault.Deniedf("Nobody on the allow-list uses this conversation. Nothing was sent.")
			}
			return err
		}
		if err := s.queue(tx, &c, p.ContextID, key, s.o.Scrub(ctx, p.Text), !p.NotifyOnly); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT id, state FROM channel_outbox WHERE channel_id = ? AND dedupe_key = ?`, p.ID, key+":0").Scan(&out.MessageID, &out.State)
	})
	return out, err
}

// knows reports whether somebody on the allow-list uses a conversation.
func knows(tx *storage.Tx, channel uuid.UUID, contextID string) (known bool, err error) {
	err = tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM channel_sessions WHERE channel_id = ?1 AND context_id = ?2)
		OR EXISTS (SELECT 1 FROM channel_senders s, json_each(s.context_ids) j WHERE s.channel_id = ?1 AND j.value = ?2)
		OR EXISTS (SELECT 1 FROM channel_senders WHERE channel_id = ?1 AND sender_id = ?2)`, channel, contextID).Scan(&known)
	return known, err
}

// QueueParams select queued messages.
type QueueParams struct {
	ID     *uuid.UUID `json:"id,omitempty"`
	State  string     `json:"state,omitempty"`
	Limit  int        `json:"limit,omitempty"` // 1 to 100, default 50
	Offset int        `json:"offset,omitempty"`
}

// Queued is a message that was received or is to be sent.
type Queued struct {
	MessageID uuid.UUID `json:"messageId"`
	ChannelID uuid.UUID `json:"channelId"`
	Direction string    `json:"direction"` // in or out
	ContextID string    `json:"contextId"`
	State     string    `json:"state"`
	Attempts  int       `json:"attempts"`
	Error     string    `json:"error,omitempty"`
	At        time.Time `json:"at"`
}

// QueueResult lists messages, newest first.
type QueueResult struct {
	Messages []Queued `json:"messages"`
}

// Queue lists messages that were not answered or sent yet, or those in a state.
func (s *Service) Queue(ctx context.Context, p QueueParams) (QueueResult, error) {
	out := QueueResult{Messages: []Queued{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, 50, 100); err != nil {
		return out, err
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT * FROM (
			SELECT id, channel_id, 'in', context_id, state, 0, '', received_at AS at FROM channel_inbox WHERE user_id = ?1 AND (?2 IS NULL OR channel_id = ?2) AND iif(?3 = '', state <> 'done', state = ?3)
			UNION ALL SELECT id, channel_id, 'out', context_id, state, attempts, last_error, created_at FROM channel_outbox WHERE user_id = ?1 AND (?2 IS NULL OR channel_id = ?2) AND iif(?3 = '', state <> 'sent', state = ?3))
			ORDER BY at DESC, id LIMIT ?4 OFFSET ?5`, identity.UserID(ctx), p.ID, p.State, p.Limit, p.Offset).Each(func(row storage.Row) error {
			var q Queued
			err := row.Scan(&q.MessageID, &q.ChannelID, &q.Direction, &q.ContextID, &q.State, &q.Attempts, &q.Error, storage.Time(&q.At))
			out.Messages = append(out.Messages, q)
			return err
		})
	})
	return out, err
}

// MessageParams name a message.
type MessageParams struct {
	MessageID uuid.UUID `json:"messageId"`
}

// MessageResult is the state of a message.
type MessageResult struct {
	MessageID uuid.UUID `json:"messageId"`
	State     string    `json:"state"`
}

// Retry sends a message that failed, or is waiting, now. A received message can be handed to the agent
// again if it never reached it.
func (s *Service) Retry(ctx context.Context, p MessageParams) (MessageResult, error) {
	return s.setState(ctx, p, "This message can't be tried again.",
		`UPDATE channel_outbox SET state = 'queued', next_at = ?1, expires_at = max(expires_at, ?1 + 3600000000) WHERE id = ?2 AND user_id = ?3 AND state IN ('queued', 'failed', 'unknown', 'dropped') RETURNING channel_id, state`,
		`UPDATE channel_inbox SET state = 'received', done_at = NULL WHERE id = ?2 AND user_id = ?3 AND state = 'failed' AND session_id IS NULL RETURNING channel_id, state`)
}

// Drop gives up a message that was not sent, or not handed to the agent, yet.
func (s *Service) Drop(ctx context.Context, p MessageParams) (MessageResult, error) {
	return s.setState(ctx, p, "This message is not waiting.",
		`UPDATE channel_outbox SET state = 'dropped', next_at = ?1 WHERE id = ?2 AND user_id = ?3 AND state IN ('queued', 'failed', 'unknown') RETURNING channel_id, state`,
		`UPDATE channel_inbox SET state = 'done', done_at = ?1 WHERE id = ?2 AND user_id = ?3 AND (state = 'failed' OR state = 'received' AND session_id IS NULL) RETURNING channel_id, state`)
}

// setState changes a message of the outbox, or else of the inbox.
func (s *Service) setState(ctx context.Context, p MessageParams, none string, updates ...string) (MessageResult, error) {
	out := MessageResult{MessageID: p.MessageID}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		var channel uuid.UUID
		err := fault.NotFoundf("%s", none)
		for _, update := range updates {
			failure := tx.QueryRow(update, s.o.Clock.Now(), p.MessageID, identity.UserID(ctx)).Scan(&channel, &out.State)
			if noRows(failure) {
				continue
			}
			if failure != nil {
				return failure
			}
			tx.AfterCommit(func() {
				s.wakeSender(channel)
				signal(s.wake)
			})
			return nil
		}
		return err
	})
	return out, err
}
