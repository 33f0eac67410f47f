package memory

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/importer"
	"helix/backend/storage"
)

// storedTurn is a turn that an earlier import stored.
type storedTurn struct {
	id         uuid.UUID
	externalID string
	hash       []byte
	createdAt  time.Time
}

func (t *storedTurn) is(of *importer.Turn, hash [32]byte) bool {
	return t != nil && t.externalID == of.ExternalID && string(t.hash) == string(hash[:])
}

// conversation stores the turns of a conversation, starting at the job's checkpoint. Stored turns
// are immutable: a turn that has changed, or has been replaced by one of another branch, becomes a
// tombstone, and a new row takes its position.
func (w *importWriter) conversation(p *prepared) (finished bool, err error) {
	c := p.rec.Conversation
	if len(p.turns) == 0 {
		return true, nil
	}
	head, known, err := w.head(c)
	if err != nil {
		return false, err
	}
	from := w.at.cp.Turn
	if head.DeletedAt != nil {
		n := int64(len(p.turns) - from)
		w.at.Read, w.at.Skipped, w.at.Trashed = w.at.Read+n, w.at.Skipped+n, w.at.Trashed+n
		return true, nil
	}
	if known && c.Exported && from == 0 {
		n := int64(len(p.turns))
		w.at.Read, w.at.Skipped = w.at.Read+n, w.at.Skipped+n
		return true, nil
	}
	var stored map[int64]*storedTurn
	if known {
		if stored, err = w.storedTurns(head.ID, from); err != nil {
			return false, err
		}
	}
	if from == 0 && !w.job.o.DryRun {
		for _, d := range p.long {
			if _, err := w.s.upsertDocument(w.tx, d); err != nil {
				return false, err
			}
		}
	}
	for i := from; i < len(p.turns); i++ {
		if w.full() && i > from {
			w.at.cp.Turn = i
			return false, nil
		}
		w.left--
		w.at.Read++
		old := stored[int64(i)]
		switch {
		case old.is(&p.turns[i], p.hashes[i]):
			w.at.Skipped++
			if i == 0 && head.retitled { // the title is indexed with the first turn
				w.enqueue(head.entry(p.row(i, old.id, old.createdAt)))
			}
			continue
		case old != nil:
			w.at.Updated++
		default:
			w.at.Added++
		}
		if w.job.o.DryRun {
			continue
		}
		if old != nil {
			if err := w.removeTurn(old.id); err != nil {
				return false, err
			}
		}
		if err := w.turn(head, p, i); err != nil {
			return false, err
		}
	}
	if w.job.o.DryRun {
		return true, nil
	}
	for seq, old := range stored { // turns of a branch that was longer
		if seq >= int64(len(p.turns)) {
			if err := w.removeTurn(old.id); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// head returns the row of a conversation, which it inserts if necessary.
func (w *importWriter) head(c *importer.Conversation) (*conversationRow, bool, error) {
	h, err := scanConversation(w.tx.QueryRow(`SELECT `+conversationColumns+` FROM conversations WHERE user_id = ? AND source = ? AND external_id = ?`, w.job.user, c.Source, c.ExternalID))
	switch {
	case fault.Is(err, fault.NotFound):
		return w.newHead(c)
	case err != nil:
		return nil, false, err
	case h.DeletedAt != nil || w.job.o.DryRun || c.Exported:
		return h, true, nil
	}
	if h.Title == c.Title && sameTime(h.StartedAt, c.Started) && sameTime(h.EndedAt, c.Ended) && slices.Equal(h.Participants, c.Participants) {
		return h, true, nil
	}
	h.retitled = h.Title != c.Title
	h.Title, h.StartedAt, h.EndedAt, h.Participants = c.Title, c.Started, c.Ended, c.Participants
	_, err = w.tx.Exec(`UPDATE conversations SET title = ?, started_at = ?, ended_at = ?, participants = ?, updated_at = ? WHERE id = ?`,
		h.Title, h.StartedAt, h.EndedAt, listJSON(h.Participants), w.tx.Now, h.ID)
	return h, true, err
}

func (w *importWriter) newHead(c *importer.Conversation) (*conversationRow, bool, error) {
	o := &w.job.o
	h := &conversationRow{user: w.job.user, layer: o.Layer, typ: o.Type, Conversation: Conversation{
		ID: w.s.rootID(w.job.user, 0, "conversation", c.Source, c.ExternalID), Source: c.Source, ExternalID: c.ExternalID, Title: c.Title, Tags: o.Tags,
		Untrusted: o.Untrusted == nil || *o.Untrusted, Participants: c.Participants, StartedAt: c.Started, EndedAt: c.Ended,
	}}
	if c.Exported {
		h.Tags, h.layer, h.typ = mergeTags(c.Tags, o.Tags), cmp.Or(c.Layer, o.Layer), cmp.Or(c.Type, o.Type)
	}
	if h.typ == "" {
		h.typ = "episodic"
	}
	if o.DryRun {
		return h, false, nil
	}
	_, err := w.tx.Exec(`INSERT INTO conversations (id, user_id, source, external_id, title, started_at, ended_at, participants, tags, layer, type, untrusted, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		h.ID, h.user, h.Source, h.ExternalID, h.Title, h.StartedAt, h.EndedAt, listJSON(h.Participants), listJSON(h.Tags), nullInt(h.layer), h.typ, h.Untrusted, w.tx.Now, w.tx.Now)
	return h, false, err
}

// storedTurns reads the turns from a position on, keyed by position.
func (w *importWriter) storedTurns(conversation uuid.UUID, from int) (map[int64]*storedTurn, error) {
	out := map[int64]*storedTurn{}
	err := w.tx.Select(`SELECT id, seq, coalesce(external_id, ''), content_hash, created_at FROM conversation_turns
		WHERE conversation_id = ? AND seq >= ? AND deleted_at IS NULL`, conversation, from).Each(func(row storage.Row) error {
		var t storedTurn
		var seq int64
		if err := row.Scan(&t.id, &seq, &t.externalID, &t.hash, storage.Time(&t.createdAt)); err != nil {
			return err
		}
		out[seq] = &t
		return nil
	})
	return out, err
}

// removeTurn marks a turn as deleted.
func (w *importWriter) removeTurn(id uuid.UUID) error {
	if _, err := w.tx.Exec(`UPDATE conversation_turns SET deleted_at = ?, updated_at = ? WHERE id = ?`, w.tx.Now, w.tx.Now, id); err != nil {
		return err
	}
	return w.s.search.Drop(w.tx, KindTurn, id)
}

// turn stores a turn of an import at its position.
func (w *importWriter) turn(h *conversationRow, p *prepared, i int) error {
	t := p.row(i, uuid.Nil, w.tx.Now)
	err := w.s.insertTurn(w.tx, h, t, p.turns[i].Metadata())
	if err == nil {
		w.enqueue(h.entry(t))
	}
	return err
}

// row returns a turn of an import as it is stored.
func (p *prepared) row(i int, id uuid.UUID, createdAt time.Time) *turnRow {
	t := &p.turns[i]
	return &turnRow{hash: p.hashes[i], createdAt: createdAt,
		Turn: Turn{ID: id, Seq: int64(i), TurnID: t.ExternalID, Role: t.Role, Speaker: t.Speaker, Text: p.texts[i], OccurredAt: t.At}}
}

// insertTurn inserts a turn of c and assigns its id.
func (s *Service) insertTurn(tx *storage.Tx, c *conversationRow, t *turnRow, metadata json.RawMessage) error {
	if metadata == nil {
		metadata = json.RawMessage(`{}`)
	}
	for generation := 0; ; generation++ {
		t.ID = derivedID(c.ID, t.Seq, generation, t.TurnID, string(t.hash[:]))
		content, err := s.seal("conversation_turns", "content", t.ID, t.Text)
		if err != nil {
			return err
		}
		if done, err := updateRow(tx, `INSERT INTO conversation_turns (id, conversation_id, user_id, seq, external_id, role, speaker, content, occurred_at, content_hash, metadata, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			t.ID, c.ID, c.user, t.Seq, storage.NullText(t.TurnID), t.Role, t.Speaker, content, t.OccurredAt, t.hash, metadata, tx.Now, tx.Now); done || err != nil {
			return err
		}
	}
}
