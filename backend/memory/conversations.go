package memory

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// conversationRow is a row of conversations, without the number of its turns.
type conversationRow struct {
	Conversation
	user     uuid.UUID
	typ      string
	layer    int
	metadata json.RawMessage
	retitled bool // an import has just changed the title
}

const conversationColumns = `id, user_id, source, external_id, title, participants, tags, untrusted, type, coalesce(layer, 0), metadata,
	started_at, ended_at, created_at, deleted_at`

func scanConversation(r storage.Row, more ...any) (*conversationRow, error) {
	c := &conversationRow{Conversation: Conversation{Participants: []string{}, Tags: []string{}}}
	err := r.Scan(append([]any{&c.ID, &c.user, &c.Source, &c.ExternalID, &c.Title, storage.JSON(&c.Participants), storage.JSON(&c.Tags), &c.Untrusted, &c.typ, &c.layer,
		storage.JSON(&c.metadata), storage.TimePtr(&c.StartedAt), storage.TimePtr(&c.EndedAt), storage.Time(&c.CreatedAt), storage.TimePtr(&c.DeletedAt)}, more...)...)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoConversation()
	}
	return c, err
}

// conversation returns a conversation of user, or a NotFound error if it does not exist or
// is in the trash.
func conversation(tx *storage.Tx, user, id uuid.UUID) (*conversationRow, error) {
	return scanConversation(tx.QueryRow(`SELECT `+conversationColumns+` FROM conversations WHERE id = ? AND user_id = ? AND deleted_at IS NULL`, id, user))
}

// turnRow is a row of conversation_turns.
type turnRow struct {
	Turn
	hash      [32]byte
	createdAt time.Time
}

// entry returns a turn as a search entry.
func (c *conversationRow) entry(t *turnRow) *search.Entry {
	return &search.Entry{
		Kind: KindTurn, ID: t.ID, Parent: c.ID, Seq: t.Seq, User: c.user, Title: c.Title, Tags: c.Tags, Text: t.Text, Hash: t.hash, Type: c.typ, Layer: c.layer,
		Source: c.Source, Speaker: t.Speaker, Untrusted: c.Untrusted, Salience: 50, OccurredAt: t.OccurredAt, CreatedAt: t.createdAt,
	}
}

// turns reads turns of a conversation, in order.
func (s *Service) turns(tx *storage.Tx, conversation uuid.UUID, limit, offset int) ([]*turnRow, error) {
	var out []*turnRow
	err := tx.Select(`SELECT id, seq, coalesce(external_id, ''), role, speaker, content, occurred_at, content_hash, created_at FROM conversation_turns
		WHERE conversation_id = ? AND deleted_at IS NULL ORDER BY seq LIMIT ? OFFSET ?`, conversation, limit, offset).Each(func(row storage.Row) error {
		t := &turnRow{}
		var content, hash []byte
		err := row.Scan(&t.ID, &t.Seq, &t.TurnID, &t.Role, &t.Speaker, &content, storage.TimePtr(&t.OccurredAt), &hash, storage.Time(&t.createdAt))
		if err != nil {
			return err
		}
		copy(t.hash[:], hash)
		if t.Text, err = s.open("conversation_turns", "content", t.ID, content); err != nil {
			return err
		}
		out = append(out, t)
		return nil
	})
	return out, err
}

// Conversations lists conversations, latest first; those without a time come last.
func (s *Service) Conversations(ctx context.Context, p PageParams) (ConversationsResult, error) {
	out := ConversationsResult{Conversations: []Conversation{}}
	total, err := conversationParent.list(ctx, s, p, func(row storage.Row) error {
		var turns int64
		c, err := scanConversation(row, &turns)
		if err != nil {
			return err
		}
		c.Turns = turns
		out.Conversations = append(out.Conversations, c.Conversation)
		return nil
	})
	out.Total = total
	return out, err
}

// Conversation returns turns of one conversation, in order: the page at the offset, or the page
// with the turn AroundSeq in its middle.
func (s *Service) Conversation(ctx context.Context, p ConversationParams) (ConversationResult, error) {
	out := ConversationResult{Turns: []Turn{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, pageSize, maxPage); err != nil {
		return out, err
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		c, err := conversation(tx, identity.UserID(ctx), p.ID)
		if err != nil {
			return err
		}
		if out.Total, out.Offset, err = conversationParent.page(tx, c.ID, p.AroundSeq, p.Limit, p.Offset); err != nil {
			return err
		}
		c.Turns = out.Total
		out.Conversation = c.Conversation
		turns, err := s.turns(tx, c.ID, p.Limit, out.Offset)
		for _, t := range turns {
			out.Turns = append(out.Turns, t.Turn)
		}
		return err
	})
	if err != nil {
		return out, err
	}
	ids := make([]uuid.UUID, len(out.Turns))
	for i, t := range out.Turns {
		ids[i] = t.ID
	}
	return out, s.handedOutParts(ctx, KindTurn, ids)
}

// DeleteConversation moves a conversation to the trash and removes its turns from search.
func (s *Service) DeleteConversation(ctx context.Context, p ConversationIDParams) (CountResult, error) {
	return conversationParent.delete(ctx, s, p.ID)
}

// putConversation indexes all turns of a conversation for search. known means that only their
// attributes changed.
func (s *Service) putConversation(tx *storage.Tx, user, id uuid.UUID, known bool) error {
	c, err := conversation(tx, user, id)
	if err != nil {
		return err
	}
	turns, err := s.turns(tx, id, -1, 0)
	if err != nil {
		return err
	}
	es := make([]*search.Entry, len(turns))
	for i, t := range turns {
		es[i] = c.entry(t)
		es[i].AlreadyKnown = known
	}
	return s.search.Put(tx, es...)
}
