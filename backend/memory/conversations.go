package memory

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// conversationRow is a row of conversations, without a count of its turns.
type conversationRow struct {
	Conversation
	user     uuid.UUID
	typ      string
	layer    int
	metadata json.RawMessage
}

const conversationColumns = `c.id, c.user_id, c.source, c.external_id, c.title, c.participants, c.tags, c.untrusted, c.type, coalesce(c.layer, 0), c.metadata,
	c.started_at, c.ended_at, c.created_at, c.deleted_at`

func scanConversation(r storage.Row, more ...any) (*conversationRow, error) {
	c := &conversationRow{Conversation: Conversation{Participants: []string{}, Tags: []string{}}}
	err := r.Scan(append([]any{&c.ID, &c.user, &c.Source, &c.ExternalID, &c.Title, storage.JSON(&c.Participants), storage.JSON(&c.Tags), &c.Untrusted, &c.typ, &c.layer,
		storage.JSON(&c.metadata), storage.TimePtr(&c.StartedAt), storage.TimePtr(&c.EndedAt), storage.Time(&c.CreatedAt), storage.TimePtr(&c.DeletedAt)}, more...)...)
	if errors.Is(err, sql.ErrNoRows) {
		err = errNoConversation()
	}
	return c, err
}

func errNoConversation() error { return fault.NotFoundf("There is no such conversation.") }

// conversation reads one conversation of user that is not in the trash.
func conversation(tx *storage.Tx, user, id uuid.UUID) (*conversationRow, error) {
	return scanConversation(tx.QueryRow(`SELECT `+conversationColumns+` FROM conversations c WHERE c.id = ? AND c.user_id = ? AND c.deleted_at IS NULL`, id, user))
}

// turnRow is a row of conversation_turns.
type turnRow struct {
	Turn
	hash      [32]byte
	createdAt time.Time
}

// entry is a turn as search sees it.
func (c *conversationRow) entry(t *turnRow) *entry {
	return &entry{
		kind: KindTurn, id: t.ID, parent: c.ID, seq: t.Seq, user: c.user, title: c.Title, tags: c.Tags, text: t.Text, hash: t.hash, typ: c.typ, layer: c.layer,
		source: c.Source, speaker: t.Speaker, untrusted: c.Untrusted, salience: 50, occurredAt: t.OccurredAt, createdAt: t.createdAt,
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

const countTurns = `(SELECT count(*) FROM conversation_turns t WHERE t.conversation_id = c.id AND t.deleted_at IS NULL)`

// Conversations lists conversations, the latest first and those without a time last.
func (s *Service) Conversations(ctx context.Context, p PageParams) (ConversationsResult, error) {
	out := ConversationsResult{Conversations: []Conversation{}}
	if err := storage.CheckPage(&p.Limit, &p.Offset, pageSize, maxPage); err != nil {
		return out, err
	}
	where, args := []string{"c.user_id = ?"}, []any{identity.UserID(ctx)}
	add := func(cond string, v ...any) { where, args = append(where, cond), append(args, v...) }
	order := "c.started_at DESC, c.id DESC"
	if p.Trash {
		add("c.deleted_at IS NOT NULL AND " + strings.ReplaceAll(notPurged[0], "conversations.id", "c.id"))
		order = "c.deleted_at DESC, c.id DESC"
	} else {
		add("c.deleted_at IS NULL")
	}
	if p.From != nil {
		add("coalesce(c.ended_at, c.started_at) >= ?", p.From)
	}
	if p.To != nil {
		add("c.started_at < ?", p.To)
	}
	err := s.db.Read(ctx, func(tx *storage.Tx) error {
		if p.Query != "" {
			ids, err := titled(tx, `SELECT id, title FROM conversations WHERE user_id = ?`, p.Query, args[0])
			if err != nil {
				return err
			}
			add("c.id IN (SELECT unhex(value) FROM json_each(?))", ids)
		}
		cond := strings.Join(where, " AND ")
		if err := tx.QueryRow(`SELECT count(*) FROM conversations c WHERE `+cond, args...).Scan(&out.Total); err != nil {
			return err
		}
		return tx.Select(`SELECT `+conversationColumns+`, `+countTurns+` FROM conversations c WHERE `+cond+` ORDER BY `+order+` LIMIT ? OFFSET ?`,
			append(args, p.Limit, p.Offset)...).Each(func(row storage.Row) error {
			var n int64
			c, err := scanConversation(row, &n)
			if err != nil {
				return err
			}
			c.Turns = n
			out.Conversations = append(out.Conversations, c.Conversation)
			return nil
		})
	})
	return out, err
}

// titled gives the ids of those rows of query that have text in one of their names, whatever
// the case, as a JSON list of hexadecimal numbers: SQLite knows the case of ASCII only.
func titled(tx *storage.Tx, query, text string, user any) (string, error) {
	fold := func(s string) string { return norm.NFC.String(strings.ToLower(s)) }
	text = fold(strings.TrimSpace(text))
	rows, err := tx.Query(query, user)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	ids := []string{}
	for rows.Next() {
		var id uuid.UUID
		var name string
		if err := rows.Scan(&id, &name); err != nil {
			return "", err
		}
		if strings.Contains(fold(name), text) {
			ids = append(ids, hex.EncodeToString(id[:]))
		}
	}
	list, _ := json.Marshal(ids) // strings only
	return string(list), rows.Err()
}

// Conversation gives turns of one conversation, in order: a page, or the page that has the turn
// AroundSeq in its middle.
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
		if err := tx.QueryRow(`SELECT count(*) FROM conversation_turns WHERE conversation_id = ? AND deleted_at IS NULL`, c.ID).Scan(&out.Total); err != nil {
			return err
		}
		c.Turns = out.Total
		out.Conversation, out.Offset = c.Conversation, p.Offset
		if p.AroundSeq != nil {
			var before int
			if err := tx.QueryRow(`SELECT count(*) FROM conversation_turns WHERE conversation_id = ? AND deleted_at IS NULL AND seq < ?`, c.ID, *p.AroundSeq).Scan(&before); err != nil {
				return err
			}
			out.Offset = max(0, min(before-p.Limit/2, int(out.Total)-p.Limit))
		}
		turns, err := s.turns(tx, c.ID, p.Limit, out.Offset)
		for _, t := range turns {
			out.Turns = append(out.Turns, t.Turn)
		}
		return err
	})
	if err != nil {
		return out, err
	}
	hits := make([]Hit, len(out.Turns))
	for i, t := range out.Turns {
		hits[i] = Hit{ID: t.ID, Kind: KindTurn}
	}
	return out, s.handedOut(ctx, hits...)
}

// DeleteConversation moves a conversation to the trash; search forgets its turns at once.
func (s *Service) DeleteConversation(ctx context.Context, p ConversationIDParams) (CountResult, error) {
	var out CountResult
	err := s.db.Write(ctx, func(tx *storage.Tx) error {
		user := identity.UserID(ctx)
		n, err := s.deleteConversationTx(tx, user, p.ID)
		if err != nil {
			return err
		}
		if n == 0 {
			return errNoConversation()
		}
		out.Count = 1
		out.UndoToken, err = s.undoable(tx, user, undoConversation, idsUndo{IDs: []uuid.UUID{p.ID}, At: tx.Now.UnixMicro()})
		return err
	})
	return out, err
}

// deleteConversationTx moves a conversation to the trash; 0: it is not there.
func (s *Service) deleteConversationTx(tx *storage.Tx, user, id uuid.UUID) (int, error) {
	if n, err := trashWhole(tx, "conversations", user, id); n == 0 || err != nil {
		return 0, err
	}
	turns, err := partsOf(tx, "conversation_turns", "conversation_id", id)
	if err != nil {
		return 0, err
	}
	changed(tx, user, "delete", id)
	return 1, s.drop(tx, KindTurn, turns...)
}

// restoreConversation brings a conversation back from the trash, or only if it went there at a
// moment; 0: it is not there.
func (s *Service) restoreConversation(tx *storage.Tx, user, id uuid.UUID, at *int64) (int, error) {
	res, err := tx.Exec(`UPDATE conversations SET deleted_at = NULL, updated_at = ? WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL
		AND (? IS NULL OR deleted_at = ?) AND `+notPurged[0], tx.Now, id, user, at, at)
	if err != nil {
		return 0, err
	}
	if n, err := res.RowsAffected(); n == 0 || err != nil {
		return 0, err
	}
	changed(tx, user, "restore", id)
	return 1, s.putConversation(tx, user, id, false)
}

// putConversation puts all turns of a conversation into search; known: only their attributes
// changed.
func (s *Service) putConversation(tx *storage.Tx, user, id uuid.UUID, known bool) error {
	c, err := conversation(tx, user, id)
	if err != nil {
		return err
	}
	turns, err := s.turns(tx, id, -1, 0)
	if err != nil {
		return err
	}
	es := make([]*entry, len(turns))
	for i, t := range turns {
		es[i] = c.entry(t)
		es[i].alreadyKnown = known
	}
	return s.putMany(tx, es)
}

// undeleteDocument brings a document back from the trash, or only if it went there at a moment;
// 0: it is not there.
func (s *Service) undeleteDocument(tx *storage.Tx, user, id uuid.UUID, at *int64) (int, error) {
	res, err := tx.Exec(`UPDATE documents SET deleted_at = NULL, updated_at = ? WHERE id = ? AND user_id = ? AND deleted_at IS NOT NULL
		AND (? IS NULL OR deleted_at = ?) AND `+notPurged[1], tx.Now, id, user, at, at)
	if err != nil {
		return 0, err
	}
	if n, err := res.RowsAffected(); n == 0 || err != nil {
		return 0, err
	}
	changed(tx, user, "restore", id)
	return 1, s.putDocument(tx, user, id, false)
}

// putDocument puts all parts of a document into search; known: only their attributes changed.
func (s *Service) putDocument(tx *storage.Tx, user, id uuid.UUID, known bool) error {
	d, err := s.liveDocument(tx, user, id)
	if err != nil {
		return err
	}
	rows, err := tx.Query(`SELECT id, seq, heading, content, content_hash, created_at FROM chunks WHERE document_id = ? AND deleted_at IS NULL ORDER BY seq`, id)
	if err != nil {
		return err
	}
	defer rows.Close()
	var es []*entry
	for rows.Next() {
		var chunk uuid.UUID
		var p part
		var content, hash []byte
		var created time.Time
		if err := rows.Scan(&chunk, &p.seq, &p.heading, &content, &hash, storage.Time(&created)); err != nil {
			return err
		}
		copy(p.hash[:], hash)
		if p.text, err = s.open("chunks", "content", chunk, content); err != nil {
			return err
		}
		e := d.entry(chunk, &p, created)
		e.alreadyKnown = known
		es = append(es, e)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return s.putMany(tx, es)
}
