package memory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// Passage is a person's text for analysis: a memory, or a message of a conversation.
type Passage struct {
	Kind     string // KindMemory or KindTurn
	ID       uuid.UUID
	Parent   uuid.UUID // the conversation; the zero UUID for a memory
	Speaker  string    // empty: the person
	Text     string
	At       time.Time // when it happened, else when it was stored
	Valence  *float64  // -1 to 1; nil: not set
	Salience float64   // 0 to 100
	Vector   []float32 // of the model that serves; nil: not embedded yet
}

// CorpusFilter selects passages; zero fields select all.
type CorpusFilter struct {
	From, To *time.Time // From is inclusive, To exclusive
	IDs      []uuid.UUID
	Limit    int // the newest ones; 0: no limit
}

// In these sources the other speaker is a model, whose messages say nothing about the person.
const corpusTurns = `(t.role = 'user' OR c.source NOT IN ('chatgpt', 'claude', 'agent', 'jsonl'))`

// DeletedTx returns those of ids whose memories or messages are in the trash or were purged from it.
func (s *Service) DeletedTx(ctx context.Context, tx *storage.Tx, ids []uuid.UUID) ([]uuid.UUID, error) {
	var memories, turns where
	user := identity.UserID(ctx)
	memories.add("user_id = ?", user)
	memories.addIDs("id", ids)
	memories.add("deleted_at IS NOT NULL")
	turns.add("t.user_id = ?", user)
	turns.addIDs("t.id", ids)
	turns.add("(t.deleted_at IS NOT NULL OR c.deleted_at IS NOT NULL)")
	return storage.Collect(tx.Select(`SELECT id FROM memories WHERE `+memories.String()+`
		UNION ALL SELECT t.id FROM conversation_turns t JOIN conversations c ON c.id = t.conversation_id WHERE `+turns.String(),
		append(append([]any{}, memories.args...), turns.args...)...), storage.RowTo[uuid.UUID])
}

// CorpusTx returns passages of the caller that are not in the trash, oldest first, and the id of the model
// of their vectors ("" without a model). Documents are excluded, because other people wrote them.
func (s *Service) CorpusTx(ctx context.Context, tx *storage.Tx, f CorpusFilter) (model string, list []Passage, err error) {
	dims := 0
	if len(s.embedding.models) > 0 {
		p, err := s.currentPlan(tx)
		if err != nil {
			return "", nil, err
		}
		if m := s.embedding.models[p.active]; m != nil {
			model, dims = p.active, m.Dims()
		}
	}
	var memories, turns where
	user := identity.UserID(ctx)
	memories.add("user_id = ?", user)
	memories.add("deleted_at IS NULL AND length(content) > 0")
	turns.add("t.user_id = ?", user)
	turns.add("t.deleted_at IS NULL AND c.deleted_at IS NULL AND " + corpusTurns)
	bound := func(condition string, value any) {
		memories.add("coalesce(occurred_at, created_at) "+condition, value)
		turns.add("coalesce(t.occurred_at, t.created_at) "+condition, value)
	}
	if f.From != nil {
		bound(">= ?", f.From)
	}
	if f.To != nil {
		bound("< ?", f.To)
	}
	if f.IDs != nil {
		memories.addIDs("id", f.IDs)
		turns.addIDs("t.id", f.IDs)
	}
	limit := f.Limit
	if limit == 0 {
		limit = -1
	}
	args := append(append([]any{}, memories.args...), turns.args...)
	args = append(args, limit, model)
	list, err = storage.Collect(tx.Select(`WITH chosen AS (
			SELECT 'memory' AS kind, id, coalesce(occurred_at, created_at) AS at, NULL AS parent, '' AS speaker, content, emotional_valence AS valence, salience, content_hash AS hash FROM memories WHERE `+memories.String()+`
			UNION ALL SELECT 'turn', t.id, coalesce(t.occurred_at, t.created_at), t.conversation_id, t.speaker, t.content, NULL, 50, t.content_hash
				FROM conversation_turns t JOIN conversations c ON c.id = t.conversation_id WHERE `+turns.String()+`
			ORDER BY at DESC, id DESC LIMIT ?)
		SELECT c.kind, c.id, c.at, c.parent, c.speaker, c.content, c.valence, c.salience, v.vector
		FROM chosen c LEFT JOIN item_vectors v ON v.item_kind = c.kind AND v.item_id = c.id AND v.model_id = ? AND v.text_hash = c.hash
		ORDER BY c.at, c.id`, args...), func(r storage.Row) (p Passage, err error) {
		var content, vec []byte
		var parent *uuid.UUID
		if err = r.Scan(&p.Kind, &p.ID, storage.Time(&p.At), &parent, &p.Speaker, &content, &p.Valence, &p.Salience, &vec); err != nil {
			return p, err
		}
		if parent != nil {
			p.Parent = *parent
		}
		if p.Speaker == "You" { // the name that importers give the person
			p.Speaker = ""
		}
		if p.Text, err = s.open(search.Table(p.Kind), "content", p.ID, content); err != nil || len(vec) == 0 {
			return p, err
		}
		p.Vector, err = decodeVector(vec, dims)
		return p, err
	})
	return model, list, err
}
