package memory

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory/search"
	"helix/backend/storage"
	"helix/backend/vector"
)

// meaning is what search needs of the vectors; it implements search.Meaning.
type meaning struct{ s *Service }

// Serving gives the model that answers queries and its index. It must not be called within a
// transaction.
func (m meaning) Serving() *search.Vectors {
	g := m.s.generation()
	if g == nil {
		return nil
	}
	return &search.Vectors{Model: g.id, Index: g.index, Embed: func(ctx context.Context, text string) ([]float32, error) {
		return m.s.embedFor(ctx, g, text)
	}}
}

// Degraded says what search by meaning lacks: "" is nothing, no_vectors that there is no
// model, reindexing that more than 1 % of the items have no vector yet.
func (m meaning) Degraded() string {
	e := &m.s.embedding
	if len(e.models) == 0 {
		return "no_vectors"
	}
	g := m.s.generation()
	if g == nil || g.behind(m.s) {
		return "reindexing"
	}
	return ""
}

// Open gives the index that serves, and waits while it is opened.
func (m meaning) Open(ctx context.Context) (*search.Vectors, error) {
	if len(m.s.embedding.models) > 0 {
		if err := m.s.openIndexes(ctx); err != nil {
			return nil, err
		}
	}
	if v := m.Serving(); v != nil {
		return v, nil
	}
	return nil, m.unavailable()
}

// unavailable says why nothing can be found by meaning.
func (m meaning) unavailable() error {
	switch {
	case len(m.s.embedding.models) > 0:
		return fault.Unavailablef("Semantic search is starting.")
	case m.s.o.Why != "":
		return fault.Unavailablef("%s", m.s.o.Why)
	}
	return fault.Unavailablef("Semantic search isn't available here.")
}

// Queue asks each model in use for the vector of an item that has just got its number. A
// stored vector of the same text and model is used again. The index follows when the
// transaction has committed, so a query never meets the vector of the text before.
func (m meaning) Queue(tx *storage.Tx, item int64, user uuid.UUID) error {
	if len(m.s.embedding.models) == 0 {
		return nil
	}
	p, err := m.s.currentPlan(tx)
	if err != nil {
		return err
	}
	reused := false
	for _, model := range p.models() {
		var known bool
		if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM search_items i
			JOIN item_vectors v ON v.item_kind = i.kind AND v.item_id = i.item_id AND v.model_id = ?2 AND v.text_hash = i.text_hash WHERE i.item = ?1)`, item, model).Scan(&known); err != nil {
			return err
		}
		if known {
			reused = true
			continue
		}
		// One row by its values: a statement that can write several makes search_fts write what it
		// has gathered, and a transaction of many items would leave as many segments there.
		if _, err := tx.Exec(`INSERT INTO embedding_jobs (item, model_id, user_id, queued_at) VALUES (?, ?, ?, ?)`, item, model, user, tx.Now); err != nil {
			return err
		}
	}
	m.s.follow(tx, reused, item)
	return nil
}

// Dropped has the indexes follow when an item has left search.
func (m meaning) Dropped(tx *storage.Tx, item int64) {
	if len(m.s.embedding.models) > 0 {
		m.s.follow(tx, false, item)
	}
}

// embedFor gives the vector of a query for the index of g.
func (s *Service) embedFor(ctx context.Context, g *generation, text string) ([]float32, error) {
	e := &s.embedding
	key := queryKey{g.id, text}
	if vec := e.queries.get(key); vec != nil {
		return vec, nil
	}
	defer s.foreground()()
	vecs, err := g.model.Embed(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	if len(vecs) != 1 {
		return nil, fault.Internalf(errors.New("no vector for a query"), "The sentence encoder did not answer.")
	}
	if err := vector.Check(vecs[0], g.dims); err != nil {
		return nil, fault.Unavailablef("The sentence encoder couldn't read this query.").WithCause(err)
	}
	e.queries.put(key, vecs[0])
	return vecs[0], nil
}
