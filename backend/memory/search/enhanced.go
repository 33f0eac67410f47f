package search

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
)

const maxExpand = 3

// SearchEnhanced is Search with reasons, neighbors, groups and facets.
func (x *Index) SearchEnhanced(ctx context.Context, p EnhancedParams) (EnhancedResult, error) {
	q, err := parse(p.Params, &x.tuning)
	if err != nil {
		return EnhancedResult{}, err
	}
	reach := 1
	if p.Expand != nil {
		reach = *p.Expand
	}
	if reach < 0 || reach > maxExpand {
		return EnhancedResult{}, fault.Invalidf("expand is 0 to 3")
	}
	if !slices.Contains([]string{"", groupConversation, groupSource, groupDay}, p.GroupBy) {
		return EnhancedResult{}, fault.Invalidf("groupBy is conversation, source or day")
	}
	q.explain, q.facets = p.Explain == nil || *p.Explain, p.Facets
	a, err := x.answer(ctx, q)
	if err != nil {
		return EnhancedResult{}, err
	}
	if err := x.expand(ctx, a, reach); err != nil {
		return EnhancedResult{}, err
	}
	a.TookMs = milliseconds(time.Since(q.asked))
	return EnhancedResult{Result: a.Result, Facets: a.facets, Groups: groups(a.Results, p.GroupBy)}, nil
}

// expand adds to each hit its neighbors within reach.
func (x *Index) expand(ctx context.Context, a *answer, reach int) error {
	around, of := x.catalog.around(identity.UserID(ctx), a.chosen, reach)
	texts, err := x.texts(ctx, around)
	if err != nil {
		return err
	}
	for i, places := range of {
		for _, j := range places {
			if t := texts[around[j].row.id]; t != nil {
				a.Results[i].Context = append(a.Results[i].Context, Neighbor{ID: t.id, Seq: around[j].row.seq, Speaker: around[j].speaker, Text: t.text})
			}
		}
	}
	return nil
}

// around returns the neighbors of items, without duplicates, and for each item the indexes of its
// neighbors in that list.
func (c *catalog) around(user uuid.UUID, items []chosen, reach int) (around []chosen, of [][]int) {
	of = make([][]int, len(items))
	at := map[uint32]int{}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for i := range items {
		r := c.row(items[i].item)
		if r == nil || !r.live || r.owner.id != user {
			continue
		}
		for d := -reach; d <= reach; d++ {
			near, ok := r.neighbor(d)
			if d == 0 || !ok {
				continue
			}
			if _, ok := at[near]; !ok {
				n := c.row(near)
				at[near] = len(around)
				around = append(around, chosen{row: *n, speaker: c.names.text[n.speaker]})
			}
			of[i] = append(of[i], at[near])
		}
	}
	return around, of
}

// Ways to group hits.
const (
	groupConversation = "conversation"
	groupSource       = "source"
	groupDay          = "day"
)

// groups groups hits, in the order of the first hit of each group. It returns nil if by is empty.
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

// groupOf returns the group of a hit. When grouping by conversation, a chunk belongs to its
// document, and a memory is a group by itself.
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
