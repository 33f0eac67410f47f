package memory

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

const maxExpand = 3

// SearchEnhanced is Search with reasons, neighbours, groups and facets.
func (s *Service) SearchEnhanced(ctx context.Context, p EnhancedParams) (EnhancedResult, error) {
	r, err := s.check(p.SearchParams)
	if err != nil {
		return EnhancedResult{}, err
	}
	expand := 1
	if p.Expand != nil {
		expand = *p.Expand
	}
	if expand < 0 || expand > maxExpand {
		return EnhancedResult{}, fault.Invalidf("expand is 0 to 3")
	}
	if !slices.Contains([]string{"", groupConversation, groupSource, groupDay}, p.GroupBy) {
		return EnhancedResult{}, fault.Invalidf("groupBy is conversation, source or day")
	}
	start := time.Now()
	r.explain, r.facets = p.Explain == nil || *p.Explain, p.Facets
	f, err := s.find(ctx, r)
	if err != nil {
		return EnhancedResult{}, err
	}
	if err := s.expand(ctx, f, expand); err != nil {
		return EnhancedResult{}, err
	}
	if err := s.handedOut(ctx, f.Results...); err != nil {
		return EnhancedResult{}, err
	}
	f.TookMs = float64(time.Since(start).Microseconds()) / 1000
	return EnhancedResult{SearchResult: f.SearchResult, Facets: f.facets, Groups: groups(f.Results, p.GroupBy)}, nil
}

// expand gives each hit what stands around it.
func (s *Service) expand(ctx context.Context, f *found, reach int) error {
	if reach == 0 {
		return nil
	}
	var around []picked
	of := make([][]int, len(f.picked)) // of each hit, places in around
	at := map[uint32]int{}
	user := identity.UserID(ctx)
	c := &s.search.catalog
	c.mu.RLock()
	for i := range f.picked {
		r := c.row(f.picked[i].item)
		if r == nil || !r.live || r.owner.id != user {
			continue
		}
		for d := -reach; d <= reach; d++ {
			near, ok := r.neighbour(d)
			if d == 0 || !ok {
				continue
			}
			if _, ok := at[near]; !ok {
				n := c.row(near)
				at[near] = len(around)
				around = append(around, picked{row: *n, speaker: c.names.text[n.speaker]})
			}
			of[i] = append(of[i], at[near])
		}
	}
	c.mu.RUnlock()
	if len(around) == 0 {
		return nil
	}
	texts := map[uuid.UUID]*shown{}
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		for kind := range showQueries {
			if err := s.showKind(tx, uint8(kind), around, texts, user); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for i, places := range of {
		for _, j := range places {
			if t := texts[around[j].row.id]; t != nil {
				f.Results[i].Context = append(f.Results[i].Context, Neighbour{ID: t.id, Seq: around[j].row.seq, Speaker: around[j].speaker, Text: t.text})
			}
		}
	}
	return nil
}

// What hits are grouped by.
const (
	groupConversation = "conversation"
	groupSource       = "source"
	groupDay          = "day"
)

// groups puts hits together, in the order of their first; nil without by.
func groups(hits []Hit, by string) []Group {
	if by == "" {
		return nil
	}
	out := []Group{}
	at := map[string]int{}
	for i, h := range hits {
		key, title := groupOf(&h, by)
		j, ok := at[key]
		if !ok {
			j = len(out)
			at[key] = j
			out = append(out, Group{Key: key, Title: title})
		}
		out[j].Hits = append(out[j].Hits, i)
	}
	return out
}

// groupOf is the group of a hit. A chunk belongs to its document and a memory to itself, where
// conversations are asked for.
func groupOf(h *Hit, by string) (key, title string) {
	switch by {
	case groupSource:
		return h.Source, h.Source
	case groupDay:
		if h.OccurredAt == nil {
			return "", ""
		}
		day := h.OccurredAt.UTC().Format(time.DateOnly)
		return day, day
	}
	e := h.Evidence[0]
	switch {
	case e.ConversationID != nil:
		return e.ConversationID.String(), h.Title
	case e.DocumentID != nil:
		return e.DocumentID.String(), h.Title
	}
	return h.ID.String(), h.Title
}
