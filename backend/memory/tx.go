package memory

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory/importer"
	"helix/backend/storage"
)

// Operations on memory for other domains, within transactions of their own.

// Said holds new turns of an ongoing conversation.
type Said struct {
	Source       string // agent, voice, …
	Conversation string // its id in the source
	Title        string
	Untrusted    bool
	Turns        []SaidTurn
}

// SaidTurn is one message. If the conversation already has a turn with the ID, it is not stored again.
type SaidTurn struct {
	ID            string // in the source; may be empty
	Role, Speaker string
	Text          string
	At            *time.Time
}

// AppendTx appends turns to a conversation of the caller, which it creates if necessary, and
// returns the id of the conversation. If the conversation is in the trash the error is a Conflict.
func (s *Service) AppendTx(ctx context.Context, tx *storage.Tx, p Said) (uuid.UUID, error) {
	user := identity.UserID(ctx)
	if !slices.Contains(sources, p.Source) || p.Conversation == "" {
		return uuid.Nil, invalid("source", "A conversation needs a source and a name in it.")
	}
	w := &importWriter{s: s, tx: tx, job: &importJob{user: user, o: importOptions{Untrusted: &p.Untrusted}}}
	c := &importer.Conversation{Source: p.Source, ExternalID: p.Conversation, Title: p.Title, Exported: true} // an existing head is not changed
	h, _, err := w.head(c)
	if err != nil {
		return uuid.Nil, err
	}
	if h.DeletedAt != nil {
		return uuid.Nil, fault.Conflictf("This conversation is in the trash. Restore it first.")
	}
	var next int64
	if err := tx.QueryRow(`SELECT coalesce(max(seq) + 1, 0) FROM conversation_turns WHERE conversation_id = ? AND deleted_at IS NULL`, h.ID).Scan(&next); err != nil {
		return uuid.Nil, err
	}
	for _, t := range p.Turns {
		text, err := checkContent("text", t.Text)
		if err != nil {
			return uuid.Nil, err
		}
		known := false
		if t.ID != "" {
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM conversation_turns WHERE conversation_id = ? AND external_id = ? AND deleted_at IS NULL)`, h.ID, t.ID).Scan(&known); err != nil {
				return uuid.Nil, err
			}
		}
		if known {
			continue
		}
		row := &turnRow{hash: textHash(text), createdAt: tx.Now, Turn: Turn{Seq: next, TurnID: t.ID, Role: t.Role, Speaker: t.Speaker, Text: text, OccurredAt: t.At}}
		if err := s.insertTurn(tx, h, row, nil); err != nil {
			return uuid.Nil, err
		}
		if err := s.search.Put(tx, h.entry(row)); err != nil {
			return uuid.Nil, err
		}
		next++
	}
	changed(tx, user, "add", h.ID)
	return h.ID, nil
}

// ConversationOf returns the id of a conversation of the caller by its id in a source, or the zero
// UUID if it does not exist.
func (s *Service) ConversationOf(ctx context.Context, source, name string) (id uuid.UUID, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT id FROM conversations WHERE user_id = ? AND source = ? AND external_id = ?`, identity.UserID(ctx), source, name).Scan(&id)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, err
}
