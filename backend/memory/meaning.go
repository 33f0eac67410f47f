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

// meaning provides the vectors to search; it implements search.Meaning.
type meaning struct{ s *Service }

// Serving returns the active model and its index. It must not be called within a transaction.
func (m meaning) Serving() *search.Vectors {
	g := m.s.generation()
	if g == nil {
		return nil
	}
	return &search.Vectors{Model: g.id, Index: g.index, Embed: func(ctx context.Context, text string) ([]float32, error) {
		return m.s.embedFor(ctx, g, text)
	}}
}

// Degraded returns what semantic search lacks: "" is nothing, no_vectors means that there is no
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

// Open returns the active index, and waits while it is being opened.
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

// unavailable returns the reason why semantic search is unavailable.
func (m meaning) unavailable() error {
	switch {
	case len(m.s.embedding.models) > 0:
		return fault.Unavailablef("Semantic search is starting.")
	case m.s.o.Why != "":
		return fault.Unavailablef("%s", m.s.o.Why)
	}
	return fault.Unavailablef("Semantic search is not available here.")
}

// Queue requests the vector of a newly numbered item from each model in use. A stored vector of the
// same text and model is reused. The index is updated when the transaction commits, so a query
// never sees the vector of the previous text.
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
		// Insert one row with VALUES. A statement that can write several rows makes search_fts
		// flush, and a transaction with many items would create as many segments there.
		if _, err := tx.Exec(`INSERT INTO embedding_jobs (item, model_id, user_id, queued_at) VALUES (?, ?, ?, ?)`, item, model, user, tx.Now); err != nil {
			return err
		}
	}
	m.s.follow(tx, reused, item)
	return nil
}

// Dropped removes an item from the indexes once tx commits.
func (m meaning) Dropped(tx *storage.Tx, item int64) {
	if len(m.s.embedding.models) > 0 {
		m.s.follow(tx, false, item)
	}
}

// embedFor returns the vector of a query for the index of g.
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
		return nil, fault.Unavailablef("The sentence encoder cannot read this query.").WithCause(err)
	}
	e.queries.put(key, vecs[0])
	return vecs[0], nil
}
