package channels

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Channel is a channel with its state.
type Channel struct {
	ID      uuid.UUID `json:"id"`
	Kind    string    `json:"kind"`
	Name    string    `json:"name"`
	Config  Config    `json:"config"`
	Enabled bool      `json:"enabled"`
	State   string    `json:"state"` // connected, disconnected, error or disabled
	Since   time.Time `json:"since,omitzero"`
	Account string    `json:"account,omitempty"` // name of the bot
	Here    bool      `json:"here"`              // it runs on this device
	HookURL string    `json:"hookUrl,omitempty"` // where a webhook channel receives
	Error   string    `json:"error,omitempty"`

	LastIn      *time.Time `json:"lastIn,omitempty"`
	LastOut     *time.Time `json:"lastOut,omitempty"`
	Queued      int        `json:"queued"` // messages that wait, in both directions
	Rejected24h int        `json:"rejected24h"`
}

// ListResult lists channels by name.
type ListResult struct {
	Channels []Channel `json:"channels"`
}

// AddParams describe a new channel.
type AddParams struct {
	Kind   string `json:"kind"` // telegram or webhook
	Name   string `json:"name"`
	Config Config `json:"config"`
	Token  string `json:"token,omitempty"` // of a Telegram bot, from @BotFather
}

// AddResult is a new channel. The secret is shown only once.
type AddResult struct {
	Channel Channel `json:"channel"`
	Secret  string  `json:"secret,omitempty"` // with which requests of a webhook are signed
}

// UpdateParams change a channel.
type UpdateParams struct {
	ID    uuid.UUID `json:"id"`
	Patch Patch     `json:"patch"`
}

// Patch holds the changes of a channel; what it does not have stays.
type Patch struct {
	Name   *string `json:"name,omitempty"`
	Config *Config `json:"config,omitempty"`
	Token  *string `json:"token,omitempty"` // of a Telegram bot
	// RemoveWebhook makes Telegram stop sending the bot's messages to a webhook that another program set.
	RemoveWebhook bool `json:"removeWebhook,omitempty"`
	// RotateSecret makes a new signing secret. The former one stays valid until the next rotation.
	RotateSecret bool `json:"rotateSecret,omitempty"`
	// TakeOver moves a channel from another device to this one.
	TakeOver bool `json:"takeOver,omitempty"`
}

// EnabledParams switch a channel on or off.
type EnabledParams struct {
	ID      uuid.UUID `json:"id"`
	Enabled bool      `json:"enabled"`
}

// signingSecrets is the sealed secret of a webhook channel.
type signingSecrets struct {
	Current  string `json:"current"`
	Previous string `json:"previous,omitempty"`
}

func newSigningSecret() (string, error) {
	raw := make([]byte, 32)
	_, err := rand.Read(raw)
	return hex.EncodeToString(raw), err
}

func jsonText(v any) string {
	b, _ := json.Marshal(v) // our own types
	return string(b)
}

// List lists the caller's channels.
func (s *Service) List(ctx context.Context, _ struct{}) (ListResult, error) {
	out := ListResult{Channels: []Channel{}}
	if err := s.flushRejections(ctx); err != nil {
		return out, err
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := channelRows(tx, `WHERE user_id = ? AND deleted_at IS NULL ORDER BY name`, identity.UserID(ctx))
		if err != nil {
			return err
		}
		for i := range rows {
			c, err := s.view(tx, &rows[i])
			if err != nil {
				return err
			}
			out.Channels = append(out.Channels, c)
		}
		return nil
	})
	return out, err
}

// SecretUsers calls add with the name and the user of each secret of the caller's channels.
func (s *Service) SecretUsers(ctx context.Context, add func(secret, user string)) error {
	return s.db.Read(ctx, func(tx *storage.Tx) error {
		rows, err := channelRows(tx, `WHERE user_id = ? AND deleted_at IS NULL`, identity.UserID(ctx))
		for _, c := range rows {
			add(c.secret, "channel "+c.name)
		}
		return err
	})
}

// Get returns a channel.
func (s *Service) Get(ctx context.Context, p IDParams) (out Channel, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		c, err := loadChannel(tx, p.ID)
		if err == nil {
			out, err = s.view(tx, &c)
		}
		return err
	})
	return out, err
}

func (s *Service) view(tx *storage.Tx, c *channelRow) (Channel, error) {
	h := s.stateOf(c)
	out := Channel{ID: c.id, Kind: c.kind, Name: c.name, Config: c.config, Enabled: c.enabled, State: h.State, Since: h.Since, Account: h.Account, Here: c.device == tx.Device().ID}
	if c.kind == kindWebhook {
		out.HookURL = s.o.HookURL(c.id)
	}
	if h.State == Failed || h.State == Disconnected {
		out.Error = h.Detail
	}
	return out, tx.QueryRow(`SELECT (SELECT max(received_at) FROM channel_inbox WHERE channel_id = ?1), (SELECT max(sent_at) FROM channel_outbox WHERE channel_id = ?1),
		(SELECT count(*) FROM channel_inbox WHERE channel_id = ?1 AND state = 'received') + (SELECT count(*) FROM channel_outbox WHERE channel_id = ?1 AND state IN ('queued', 'sending')),
		(SELECT coalesce(sum(count), 0) FROM channel_rejections WHERE channel_id = ?1 AND last_at >= ?2)`, c.id, s.o.Clock.Now().Add(-24*time.Hour)).
		Scan(storage.TimePtr(&out.LastIn), storage.TimePtr(&out.LastOut), &out.Queued, &out.Rejected24h)
}

func checkName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" || len(name) > 64 {
		return "", fault.InvalidField("name", fault.CodeInvalid, "A name must have 1 to 64 bytes.")
	}
	return name, nil
}

// nameFree refuses a name of another channel. A removed channel gives up its name.
func (s *Service) nameFree(tx *storage.Tx, name string, but uuid.UUID) error {
	var taken bool
	if err := s.purgeNamed(tx, name); err != nil {
		return err
	}
	err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM channels WHERE user_id = ? AND name = ? AND id <> ?)`, identity.UserID(tx.Context()), name, but).Scan(&taken)
	if err == nil && taken {
		err = fault.Conflictf("Another channel is named %q. Choose another name.", name)
	}
	return err
}

// checkConfig checks the settings of a kind of channel.
func checkConfig(kind string, c Config) error {
	switch {
	case kind != kindTelegram && kind != kindWebhook:
		return fault.InvalidField("kind", fault.CodeInvalid, "kind must be telegram or webhook.")
	case kind == kindTelegram && c.URL == "":
		return nil
	}
	_, err := checkServiceURL(c.URL)
	return err
}

// Add adds a channel and starts it. Nobody is allowed to use it yet.
func (s *Service) Add(ctx context.Context, p AddParams) (out AddResult, err error) {
	if p.Name, err = checkName(p.Name); err != nil {
		return out, err
	}
	if err := checkConfig(p.Kind, p.Config); err != nil {
		return out, err
	}
	sealed := []byte(p.Token)
	if p.Kind == kindTelegram {
		err = checkToken(p.Token)
	} else if out.Secret, err = newSigningSecret(); err == nil {
		sealed = []byte(jsonText(signingSecrets{Current: out.Secret}))
	}
	if err != nil {
		return out, err
	}
	id := storage.NewID()
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		var n int
		if err := tx.QueryRow(`SELECT count(*) FROM channels WHERE user_id = ? AND deleted_at IS NULL`, identity.UserID(ctx)).Scan(&n); err != nil {
			return err
		}
		if n >= maxChannels {
			return fault.Limitf("You can have %d channels. Remove one first.", maxChannels)
		}
		if err := s.nameFree(tx, p.Name, id); err != nil {
			return err
		}
		secret := "channel:" + id.String()
		if err := s.o.Secrets.SetTx(tx, secret, sealed); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO channels (id, user_id, kind, name, config, secret_name, enabled, device_id, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?)`,
			id, identity.UserID(ctx), p.Kind, p.Name, jsonText(p.Config), secret, tx.Device().ID, tx.Now, tx.Now); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{Action: "channel.added", SubjectKind: "channel", SubjectID: id.String(), Details: map[string]any{"channel": p.Name, "kind": p.Kind}})
	})
	if err != nil {
		return AddResult{}, err
	}
	if err := s.restart(ctx, id); err != nil {
		return AddResult{}, err
	}
	out.Channel, err = s.Get(ctx, IDParams{id})
	return out, err
}

// Update changes a channel.
func (s *Service) Update(ctx context.Context, p UpdateParams) (out AddResult, err error) {
	if p.Patch.RotateSecret {
		if out.Secret, err = newSigningSecret(); err != nil {
			return out, err
		}
	}
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := loadChannel(tx, p.ID)
		if err != nil {
			return err
		}
		if p.Patch.Name != nil {
			if c.name, err = checkName(*p.Patch.Name); err != nil {
				return err
			}
			if err := s.nameFree(tx, c.name, c.id); err != nil {
				return err
			}
		}
		if p.Patch.Config != nil {
			if err := checkConfig(c.kind, *p.Patch.Config); err != nil {
				return err
			}
			c.config = *p.Patch.Config
		}
		if p.Patch.TakeOver {
			c.device = tx.Device().ID
		}
		if (p.Patch.Token != nil || p.Patch.RemoveWebhook) && c.kind != kindTelegram || p.Patch.RotateSecret && c.kind != kindWebhook {
			return fault.Invalidf("A webhook has a secret to rotate, and a Telegram channel has a token.")
		}
		if p.Patch.Token != nil {
			if err := checkToken(*p.Patch.Token); err != nil {
				return err
			}
			if err := s.o.Secrets.SetTx(tx, c.secret, []byte(*p.Patch.Token)); err != nil {
				return err
			}
		}
		if p.Patch.RotateSecret {
			raw, err := s.o.Secrets.Value(ctx, c.secret)
			if err != nil {
				return err
			}
			var keys signingSecrets
			if err := json.Unmarshal(raw, &keys); err != nil {
				return err
			}
			if err := s.o.Secrets.SetTx(tx, c.secret, []byte(jsonText(signingSecrets{out.Secret, keys.Current}))); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(`UPDATE channels SET name = ?, config = ?, device_id = ?, last_error = '', updated_at = ? WHERE id = ?`, c.name, jsonText(c.config), c.device, tx.Now, c.id); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{Action: "channel.changed", SubjectKind: "channel", SubjectID: c.id.String(), Details: map[string]any{"channel": c.name, "rotated": p.Patch.RotateSecret, "takenOver": p.Patch.TakeOver}})
	})
	if err != nil {
		return AddResult{}, err
	}
	if p.Patch.RemoveWebhook {
		if err := s.removeWebhook(ctx, p.ID); err != nil {
			return AddResult{}, err
		}
	}
	if err := s.restart(ctx, p.ID); err != nil {
		return AddResult{}, err
	}
	out.Channel, err = s.Get(ctx, IDParams{p.ID})
	return out, err
}

// SetEnabled switches a channel on or off. What waits in its queues is kept.
func (s *Service) SetEnabled(ctx context.Context, p EnabledParams) (Channel, error) {
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := loadChannel(tx, p.ID)
		if err != nil {
			return err
		}
		if p.Enabled && c.device != tx.Device().ID {
			return fault.Conflictf("%s runs on another device. Take it over first.", c.name)
		}
		if err := audit.Append(tx, audit.Entry{Action: "channel.switched", SubjectKind: "channel", SubjectID: c.id.String(), Details: map[string]any{"channel": c.name, "enabled": p.Enabled}}); err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE channels SET enabled = ?, last_error = '', updated_at = ? WHERE id = ?`, p.Enabled, tx.Now, p.ID)
		return err
	})
	if err == nil {
		err = s.restart(ctx, p.ID)
	}
	if err != nil {
		return Channel{}, err
	}
	return s.Get(ctx, IDParams{p.ID})
}

// Sender is an entry of the allow-list.
type Sender struct {
	SenderID   string     `json:"senderId"`
	Label      string     `json:"label"`
	ContextIDs []string   `json:"contextIds"` // groups in which the sender is allowed too
	Role       string     `json:"role"`       // chat, or notify: it only receives
	AddedBy    string     `json:"addedBy"`    // user or pairing
	AddedAt    time.Time  `json:"addedAt"`
	LastSeen   *time.Time `json:"lastSeen,omitempty"`
}

// SendersResult is an allow-list. Nobody else gets an answer.
type SendersResult struct {
	Senders []Sender `json:"senders"`
}

// AllowParams describe an entry of the allow-list.
type AllowParams struct {
	ID         uuid.UUID `json:"id"`
	SenderID   string    `json:"senderId"` // the service's id, never a name
	Label      string    `json:"label,omitempty"`
	ContextIDs []string  `json:"contextIds,omitempty"`
	Role       string    `json:"role,omitempty"` // chat (default) or notify
}

// SenderParams name an entry of the allow-list.
type SenderParams struct {
	ID       uuid.UUID `json:"id"`
	SenderID string    `json:"senderId"`
}

// Senders lists who is allowed to use a channel.
func (s *Service) Senders(ctx context.Context, p IDParams) (SendersResult, error) {
	out := SendersResult{Senders: []Sender{}}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if _, err := loadChannel(tx, p.ID); err != nil {
			return err
		}
		rows, err := senderRows(tx, p.ID, `ORDER BY added_at, sender_id`)
		for _, r := range rows {
			out.Senders = append(out.Senders, Sender{r.id, r.label, r.contexts, r.role, r.addedBy, r.addedAt, r.lastSeen})
		}
		return err
	})
	return out, err
}

// Allow adds a sender to the allow-list, or changes the entry.
func (s *Service) Allow(ctx context.Context, p AllowParams) (SendersResult, error) {
	if p.Role == "" {
		p.Role = "chat"
	}
	if p.ContextIDs == nil {
		p.ContextIDs = []string{}
	}
	switch {
	case p.SenderID == "" || len(p.SenderID) > maxID:
		return SendersResult{}, fault.InvalidField("senderId", fault.CodeInvalid, "A sender's id must have 1 to 128 bytes.")
	case p.Role != "chat" && p.Role != "notify":
		return SendersResult{}, fault.InvalidField("role", fault.CodeInvalid, "role must be chat or notify.")
	case len(p.Label) > 200:
		return SendersResult{}, fault.InvalidField("label", fault.CodeInvalid, "A label can have at most 200 bytes.")
	case len(p.ContextIDs) > maxContexts || slices.ContainsFunc(p.ContextIDs, func(id string) bool { return id == "" || len(id) > maxID }):
		return SendersResult{}, fault.InvalidField("contextIds", fault.CodeInvalid, "A sender can have up to 50 contexts, with ids of 1 to 128 bytes.")
	}
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := loadChannel(tx, p.ID)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM channel_rejections WHERE channel_id = ? AND sender_id = ?`, c.id, p.SenderID); err != nil {
			return err
		}
		return s.allowTx(tx, &c, senderRow{id: p.SenderID, label: p.Label, role: p.Role, addedBy: "user", contexts: p.ContextIDs})
	})
	if err != nil {
		return SendersResult{}, err
	}
	return s.Senders(ctx, IDParams{p.ID})
}

// Disallow removes a sender from the allow-list.
func (s *Service) Disallow(ctx context.Context, p SenderParams) (SendersResult, error) {
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		c, err := loadChannel(tx, p.ID)
		if err != nil {
			return err
		}
		r, err := tx.Exec(`DELETE FROM channel_senders WHERE channel_id = ? AND sender_id = ?`, c.id, p.SenderID)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, fault.NotFoundf("This sender is not on the allow-list."))
		}
		return audit.Append(tx, audit.Entry{Action: "channel.disallowed", SubjectKind: "channel", SubjectID: c.id.String(), Details: map[string]any{"channel": c.name, "senderId": p.SenderID}})
	})
	if err != nil {
		return SendersResult{}, err
	}
	return s.Senders(ctx, IDParams{p.ID})
}

// ContextParams name a conversation of a channel.
type ContextParams struct {
	ID        uuid.UUID `json:"id"`
	ContextID string    `json:"contextId"`
}

// Binding says which chat a conversation of a channel continues.
type Binding struct {
	ContextID string    `json:"contextId"`
	SessionID uuid.UUID `json:"sessionId"`
	Title     string    `json:"title"` // of the chat; "": it was deleted
	LastAt    time.Time `json:"lastAt"`
}

// SessionsResult lists the conversations of a channel.
type SessionsResult struct {
	Bindings []Binding `json:"bindings"`
}

// ListSessions lists the conversations of a channel with their chats.
func (s *Service) ListSessions(ctx context.Context, p IDParams) (SessionsResult, error) {
	out := SessionsResult{Bindings: []Binding{}}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if _, err := loadChannel(tx, p.ID); err != nil {
			return err
		}
		return tx.Select(`SELECT context_id, session_id, last_at FROM channel_sessions WHERE channel_id = ? ORDER BY last_at DESC`, p.ID).Each(func(row storage.Row) error {
			var b Binding
			err := row.Scan(&b.ContextID, &b.SessionID, storage.Time(&b.LastAt))
			out.Bindings = append(out.Bindings, b)
			return err
		})
	})
	for i := range out.Bindings {
		if err == nil {
			out.Bindings[i].Title, err = s.o.Title(ctx, out.Bindings[i].SessionID)
		}
	}
	return out, err
}

// Unbind makes the next message of a conversation start another chat.
func (s *Service) Unbind(ctx context.Context, p ContextParams) (SessionsResult, error) {
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		if _, err := loadChannel(tx, p.ID); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM channel_sessions WHERE channel_id = ? AND context_id = ?`, p.ID, p.ContextID)
		return err
	})
	if err != nil {
		return SessionsResult{}, err
	}
	return s.ListSessions(ctx, IDParams{p.ID})
}

// noRows reports whether a query found nothing.
func noRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }
