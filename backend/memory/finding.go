package memory

import (
	"context"

	"helix/backend/memory/search"
)

// Search returns the items that match a query, best first; see search.Index.
func (s *Service) Search(ctx context.Context, p search.Params) (search.Result, error) {
	r, err := s.Find(ctx, p)
	if err != nil {
		return r, err
	}
	return r, s.handedOut(ctx, r.Results...)
}

// Find is Search for a caller that passes on only some of the results to a program or a model, and
// calls LogRecall with them.
func (s *Service) Find(ctx context.Context, p search.Params) (search.Result, error) {
	r, err := s.search.Search(ctx, p)
	if err != nil {
		return search.Result{}, err
	}
	return r, s.fadeHits(ctx, r.Results)
}

// SearchEnhanced is Search with reasons, neighbors, groups and facets.
func (s *Service) SearchEnhanced(ctx context.Context, p search.EnhancedParams) (search.EnhancedResult, error) {
	r, err := s.search.SearchEnhanced(ctx, p)
	if err != nil {
		return search.EnhancedResult{}, err
	}
	if err := s.fadeHits(ctx, r.Results); err != nil {
		return r, err
	}
	return r, s.handedOut(ctx, r.Results...)
}

// Related returns items of any kind that are similar to one item, best first, without the item itself.
func (s *Service) Related(ctx context.Context, p search.RelatedParams) (search.Result, error) {
	r, err := s.search.Related(ctx, p)
	if err != nil {
		return search.Result{}, err
	}
	if err := s.fadeHits(ctx, r.Results); err != nil {
		return r, err
	}
	return r, s.handedOut(ctx, r.Results...)
}
