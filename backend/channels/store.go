package channels

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Config is what a channel connects to. Which fields apply depends on its kind.
type Config struct {
	// URL is where a webhook channel sends replies, or the Bot API server of a Telegram channel (empty:
	// Telegram's own): https, or http to this computer.
	URL string `json:"url,omitempty"`
}

// channelRow is a row of channels.
type channelRow struct {
	id, user, device        uuid.UUID
	kind, name, secret      string
	config                  Config
	enabled                 bool
	cursor, lastError       string
	pairHash                []byte
	pairExpires, pairLocked time.Time
	pairTries               int
}

func channelRows(tx *storage.Tx, where string, args ...any) ([]channelRow, error) {
	return storage.Collect(tx.Select(`SELECT id, user_id, device_id, kind, name, secret_name, config, enabled, cursor, last_error, pair_hash, pair_expires, pair_locked, pair_tries FROM channels `+where, args...), func(row storage.Row) (r channelRow, err error) {
		err = row.Scan(&r.id, &r.user, &r.device, &r.kind, &r.name, &r.secret, storage.JSON(&r.config), &r.enabled, &r.cursor, &r.lastError, &r.pairHash, storage.Time(&r.pairExpires), storage.Time(&r.pairLocked), &r.pairTries)
		return r, err
	})
}

// loadChannel returns a channel of the caller.
func loadChannel(tx *storage.Tx, id uuid.UUID) (channelRow, error) {
	list, err := channelRows(tx, `WHERE id = ? AND user_id = ? AND deleted_at IS NULL`, id, identity.UserID(tx.Context()))
	if err == nil && len(list) == 0 {
		err = fault.NotFoundf("Channel not found.")
	}
	if err != nil {
		return channelRow{}, err
	}
	return list[0], nil
}

// senderRow is an entry of the allow-list.
type senderRow struct {
	id, label, role, addedBy string
	contexts                 []string
	addedAt                  time.Time
	lastSeen                 *time.Time
}

func senderRows(tx *storage.Tx, channel uuid.UUID, where string, args ...any) ([]senderRow, error) {
	return storage.Collect(tx.Select(`SELECT sender_id, label, role, added_by, context_ids, added_at, last_seen FROM channel_senders WHERE channel_id = ? `+where, append([]any{channel}, args...)...), func(row storage.Row) (r senderRow, err error) {
		err = row.Scan(&r.id, &r.label, &r.role, &r.addedBy, storage.JSON(&r.contexts), storage.Time(&r.addedAt), storage.TimePtr(&r.lastSeen))
		return r, err
	})
}

// allows reports whether the sender may write in a context.
func (r *senderRow) allows(in *Incoming) bool {
	return !in.Group || slices.Contains(r.contexts, in.ContextID)
}

// message is the payload of a row of channel_inbox or channel_outbox.
type message struct {
	Text  string        `json:"text"`
	Label string        `json:"label,omitempty"`
	Media []storedMedia `json:"media,omitempty"`
	File  *File         `json:"file,omitempty"` // of an outgoing message
}

func (s *Service) sealMessage(table string, id uuid.UUID, m message) (any, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	return s.db.Keys().SealText(s.o.Private, table, "payload", id, string(raw))
}

func (s *Service) openMessage(table string, id uuid.UUID, stored []byte) (m message, err error) {
	text, err := s.db.Keys().OpenText(table, "payload", id, stored)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal([]byte(text), &m)
}

// Retention returns how long messages and rejections are kept.
func Retention() []storage.Retention {
	return []storage.Retention{
		{Table: "channel_inbox", Time: "received_at", Only: "state IN ('done', 'failed')"},
		{Table: "channel_outbox", Time: "created_at", Only: "state NOT IN ('queued', 'sending')"},
		{Table: "channel_rejections", Time: "last_at", Key: "channel_id, sender_id, context_id, reason", Age: 90 * 24 * time.Hour},
	}
}
