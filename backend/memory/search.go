package memory

import (
	"context"

	"helix/backend/fault"
)

// Weights are those of the lists that are fused; all zero takes the defaults.
type Weights struct {
	Keyword, Vector, Window float64
}

// Search finds what a query is about, best first.
func (s *Service) Search(context.Context, SearchParams) (SearchResult, error) {
	return SearchResult{}, fault.Unavailablef("Memory search is being built.")
}

// SearchEnhanced is Search with reasons, neighbours, groups and facets.
func (s *Service) SearchEnhanced(context.Context, EnhancedParams) (EnhancedResult, error) {
	return EnhancedResult{}, fault.Unavailablef("Memory search is being built.")
}

// Related finds what is like one item.
func (s *Service) Related(context.Context, RelatedParams) (SearchResult, error) {
	return SearchResult{}, fault.Unavailablef("Memory search is being built.")
}

// searchState is what search keeps in a Service.
type searchState struct{}

func (s *Service) initSearch() {}
