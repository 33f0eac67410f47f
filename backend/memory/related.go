package memory

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"helix/backend/identity"
	"helix/backend/storage"
)

// relatedWords is how many words of an item are looked for.
const relatedWords = 24

// Related finds what is like one item of any kind, best first; the item is not among it.
func (s *Service) Related(ctx context.Context, p RelatedParams) (SearchResult, error) {
	id, err := uuid.Parse(strings.TrimPrefix(p.ID, "note-"))
	if err != nil {
		return SearchResult{}, errNoMemory()
	}
	r, err := s.check(SearchParams{Limit: p.Limit})
	if err != nil {
		return SearchResult{}, err
	}
	if err := s.catalogLoaded(ctx); err != nil {
		return SearchResult{}, err
	}
	user := identity.UserID(ctx)
	c := &s.search.catalog
	c.mu.RLock()
	n, ok := c.numberOf(id)
	var is picked
	if ok {
		is = picked{candidate: candidate{item: n}, row: *c.row(n)}
		ok = is.row.owner.id == user
	}
	c.mu.RUnlock()
	if !ok {
		return SearchResult{}, errNoMemory()
	}
	texts := map[uuid.UUID]*shown{}
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return s.showKind(tx, is.row.kind, []picked{is}, texts, user)
	}); err != nil {
		return SearchResult{}, err
	}
	t := texts[id]
	if t == nil {
		return SearchResult{}, errNoMemory()
	}
	r.text, r.except, r.turns = t.text, id, true
	r.query = readQueryOr(strings.ReplaceAll(t.text, `"`, " "), stopWords)
	r.query.terms = r.query.terms[:min(len(r.query.terms), relatedWords)]
	if g := s.meaning(); g != nil {
		if v, ok := g.index.Vector(n, nil); ok {
			r.vec = v
		}
	}
	found, err := s.find(ctx, r)
	if err != nil {
		return SearchResult{}, err
	}
	return found.SearchResult, s.handedOut(ctx, found.Results...)
}
