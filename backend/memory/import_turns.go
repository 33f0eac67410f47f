package memory

import (
	"cmp"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/memory/importer"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// conversationHead is what an import needs to know of a conversation.
type conversationHead struct {
	id           uuid.UUID
	title        string
	tags         []string
	layer        int
	typ          string
	untrusted    bool
	participants []string
	started      *time.Time
	ended        *time.Time
	deletedAt    *time.Time
	retitled     bool // its title has just changed
}

// storedTurn is a turn that a former import has stored.
type storedTurn struct {
	id         uuid.UUID
	externalID string
	hash       []byte
	createdAt  time.Time
}

func (t *storedTurn) is(of *importer.Turn, hash [32]byte) bool {
	return t != nil && t.externalID == of.ExternalID && string(t.hash) == string(hash[:])
}

// conversation stores the turns of a conversation from where the job stands. Turns are final
// once they are written: one that has changed, or that another branch has taken the place of,
// gets a tombstone, and a new row with its place in the order.
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
	if head.deletedAt != nil {
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
		if stored, err = w.storedTurns(head.id, from); err != nil {
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
			if i == 0 && head.retitled { // the title is found with the first turn
				w.found(w.turnEntry(head, p, i, old.id, old.createdAt))
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
			if err := w.bury(old.id); err != nil {
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
	for seq, old := range stored { // of a branch that was longer
		if seq >= int64(len(p.turns)) {
			if err := w.bury(old.id); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// head finds or makes the row of a conversation.
func (w *importWriter) head(c *importer.Conversation) (*conversationHead, bool, error) {
	h := &conversationHead{}
	err := w.tx.QueryRow(`SELECT id, title, tags, coalesce(layer, 0), type, untrusted, participants, started_at, ended_at, deleted_at FROM conversations
		WHERE user_id = ? AND source = ? AND external_id = ?`, w.job.user, c.Source, c.ExternalID).
		Scan(&h.id, &h.title, storage.JSON(&h.tags), &h.layer, &h.typ, &h.untrusted, storage.JSON(&h.participants),
			storage.TimePtr(&h.started), storage.TimePtr(&h.ended), storage.TimePtr(&h.deletedAt))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return w.newHead(c)
	case err != nil:
		return nil, false, err
	case h.deletedAt != nil || w.job.o.DryRun || c.Exported:
		return h, true, nil
	}
	if h.title == c.Title && sameTime(h.started, c.Started) && sameTime(h.ended, c.Ended) && slices.Equal(h.participants, c.Participants) {
		return h, true, nil
	}
	h.retitled = h.title != c.Title
	h.title, h.started, h.ended, h.participants = c.Title, c.Started, c.Ended, c.Participants
	_, err = w.tx.Exec(`UPDATE conversations SET title = ?, started_at = ?, ended_at = ?, participants = ?, updated_at = ? WHERE id = ?`,
		h.title, h.started, h.ended, listJSON(h.participants), w.tx.Now, h.id)
	return h, true, err
}

func (w *importWriter) newHead(c *importer.Conversation) (*conversationHead, bool, error) {
	o := &w.job.o
	h := &conversationHead{id: rootID(w.job.user, 0, "conversation", c.Source, c.ExternalID), title: c.Title, tags: o.Tags, layer: o.Layer, typ: o.Type, untrusted: o.Untrusted == nil || *o.Untrusted,
		participants: c.Participants, started: c.Started, ended: c.Ended}
	if c.Exported {
		h.tags, h.layer, h.typ = mergeTags(c.Tags, o.Tags), cmp.Or(c.Layer, o.Layer), cmp.Or(c.Type, o.Type)
	}
	if h.typ == "" {
		h.typ = "episodic"
	}
	if o.DryRun {
		return h, false, nil
	}
	_, err := w.tx.Exec(`INSERT INTO conversations (id, user_id, source, external_id, title, started_at, ended_at, participants, tags, layer, type, untrusted, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		h.id, w.job.user, c.Source, c.ExternalID, h.title, h.started, h.ended, listJSON(h.participants), listJSON(h.tags), nullInt(h.layer), h.typ, h.untrusted, w.tx.Now, w.tx.Now)
	return h, false, err
}

// storedTurns reads the turns from a place on, by their places.
func (w *importWriter) storedTurns(conversation uuid.UUID, from int) (map[int64]*storedTurn, error) {
	rows, err := w.tx.Query(`SELECT id, seq, coalesce(external_id, ''), content_hash, created_at FROM conversation_turns
		WHERE conversation_id = ? AND seq >= ? AND deleted_at IS NULL`, conversation, from)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[int64]*storedTurn{}
	for rows.Next() {
		var t storedTurn
		var seq int64
		if err := rows.Scan(&t.id, &seq, &t.externalID, &t.hash, storage.Time(&t.createdAt)); err != nil {
			return nil, err
		}
		out[seq] = &t
	}
	return out, rows.Err()
}

// bury takes a turn out of its conversation.
func (w *importWriter) bury(id uuid.UUID) error {
	if _, err := w.tx.Exec(`UPDATE conversation_turns SET deleted_at = ?, updated_at = ? WHERE id = ?`, w.tx.Now, w.tx.Now, id); err != nil {
		return err
	}
	return w.s.search.Drop(w.tx, KindTurn, id)
}

// turn stores a turn of an import at its place.
func (w *importWriter) turn(h *conversationHead, p *prepared, i int) error {
	id, err := w.s.insertTurn(w.tx, w.job.user, h.id, int64(i), &p.turns[i], p.texts[i], p.hashes[i])
	if err == nil {
		w.found(w.turnEntry(h, p, i, id, w.tx.Now))
	}
	return err
}

// insertTurn stores a turn and gives it its id.
func (s *Service) insertTurn(tx *storage.Tx, user, conversation uuid.UUID, seq int64, t *importer.Turn, text string, hash [32]byte) (uuid.UUID, error) {
	meta := t.Metadata()
	if meta == nil {
		meta = []byte(`{}`)
	}
	for generation := 0; ; generation++ {
		id := derivedID(conversation, seq, generation, t.ExternalID, string(hash[:]))
		content, err := s.seal("conversation_turns", "content", id, text)
		if err != nil {
			return id, err
		}
		r, err := tx.Exec(`INSERT INTO conversation_turns (id, conversation_id, user_id, seq, external_id, role, speaker, content, occurred_at, content_hash, metadata, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			id, conversation, user, seq, nullText(t.ExternalID), t.Role, t.Speaker, content, t.At, hash, meta, tx.Now, tx.Now)
		if err != nil {
			return id, err
		}
		if n, err := r.RowsAffected(); err != nil || n > 0 {
			return id, err
		}
	}
}

func (w *importWriter) turnEntry(h *conversationHead, p *prepared, i int, id uuid.UUID, createdAt time.Time) *search.Entry {
	t := &p.turns[i]
	return &search.Entry{
		Kind: KindTurn, ID: id, Parent: h.id, Seq: int64(i), User: w.job.user, Title: h.title, Tags: h.tags, Text: p.texts[i], Hash: p.hashes[i], Type: h.typ, Layer: h.layer,
		Source: p.rec.Conversation.Source, Speaker: t.Speaker, Untrusted: h.untrusted, Salience: 50, OccurredAt: t.At, CreatedAt: createdAt,
	}
}
