package channels

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/storage"
)

const (
	pairLife  = 10 * time.Minute
	pairTries = 5
	pairLock  = time.Hour
)

// IDParams name a channel.
type IDParams struct {
	ID uuid.UUID `json:"id"`
}

// PairResult is a pairing code. The person to be allowed sends "/pair CODE" to the channel.
type PairResult struct {
	Code      string    `json:"code"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Pair returns a new pairing code of a channel; an earlier one is no longer valid.
func (s *Service) Pair(ctx context.Context, p IDParams) (out PairResult, err error) {
	raw := make([]byte, 5)
	if _, err := rand.Read(raw); err != nil {
		return out, err
	}
	out.Code = base32.StdEncoding.EncodeToString(raw)
	out.ExpiresAt = s.o.Clock.Now().Add(pairLife)
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := loadChannel(tx, p.ID)
		if err != nil {
			return err
		}
		if c.pairLocked.After(s.o.Clock.Now()) {
			return fault.Limitf("Too many wrong codes were sent. Pairing is locked until %s.", c.pairLocked.Format(time.RFC3339))
		}
		if _, err := tx.Exec(`UPDATE channels SET pair_hash = ?, pair_expires = ?, pair_tries = 0, pair_locked = NULL WHERE id = ?`, pairHash(p.ID, out.Code), out.ExpiresAt, p.ID); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{Action: "channel.pairing", SubjectKind: "channel", SubjectID: p.ID.String()})
	})
	return out, err
}

func pairHash(channel uuid.UUID, code string) []byte {
	h := sha256.Sum256(append(channel[:], strings.ToUpper(code)...))
	return h[:]
}

// pairWith adds the sender of a correct code to the allow-list. Any other code gets silence.
func (s *Service) pairWith(ctx context.Context, channel uuid.UUID, in Incoming, code string) error {
	reason := "pairing"
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := loadChannel(tx, channel)
		if err != nil {
			return err
		}
		now := s.o.Clock.Now()
		if len(c.pairHash) == 0 || !c.pairExpires.After(now) || c.pairLocked.After(now) {
			return nil
		}
		if subtle.ConstantTimeCompare(c.pairHash, pairHash(channel, code)) == 0 {
			if c.pairTries+1 >= pairTries {
				_, err = tx.Exec(`UPDATE channels SET pair_hash = NULL, pair_tries = 0, pair_locked = ? WHERE id = ?`, now.Add(pairLock), channel)
			} else {
				_, err = tx.Exec(`UPDATE channels SET pair_tries = pair_tries + 1 WHERE id = ?`, channel)
			}
			return err
		}
		reason = ""
		if _, err := tx.Exec(`UPDATE channels SET pair_hash = NULL, pair_expires = NULL, pair_tries = 0 WHERE id = ?`, channel); err != nil {
			return err
		}
		if err := s.allowTx(tx, &c, senderRow{id: in.SenderID, label: in.SenderLabel, role: "chat", addedBy: "pairing", contexts: []string{}}); err != nil {
			return err
		}
		return s.queue(tx, &c, in.ContextID, "paired:"+in.MessageID, textPaired, false)
	})
	if err == nil && reason != "" {
		s.reject(ctx, channel, rejection{in.SenderID, in.ContextID, reason})
		err = fault.Deniedf("Not allowed.")
	}
	return err
}

// allowTx adds or changes an entry of the allow-list.
func (s *Service) allowTx(tx *storage.Tx, c *channelRow, r senderRow) error {
	var others int
	if err := tx.QueryRow(`SELECT count(*) FROM channel_senders WHERE channel_id = ? AND sender_id <> ?`, c.id, r.id).Scan(&others); err != nil {
		return err
	}
	if others >= maxSenders {
		return fault.Limitf("A channel can have %d senders. Remove one first.", maxSenders)
	}
	if _, err := tx.Exec(`INSERT INTO channel_senders (user_id, channel_id, sender_id, label, context_ids, role, added_by, added_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (channel_id, sender_id) DO UPDATE SET label = excluded.label, context_ids = excluded.context_ids, role = excluded.role`,
		c.user, c.id, r.id, r.label, jsonText(r.contexts), r.role, r.addedBy, s.o.Clock.Now()); err != nil {
		return err
	}
	tx.AfterCommit(func() { bus.Publish(s.bus, c.user, Changed{c.id, s.stateOf(c).State}) })
	return audit.Append(tx, audit.Entry{
		Action: "channel.allowed", SubjectKind: "channel", SubjectID: c.id.String(),
		Details: map[string]any{"channel": c.name, "senderId": r.id, "contexts": r.contexts, "role": r.role, "by": r.addedBy},
	})
}
