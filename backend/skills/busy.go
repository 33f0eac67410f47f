package skills

import (
	"maps"
	"slices"
)

// Busy reports whether a run is executing right now. Housekeeping waits until none is. A run that
// waits for a person or a time is not executing.
func (s *Service) Busy() bool {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.live))
	s.mu.Unlock()
	return slices.ContainsFunc(list, func(r *live) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.waitAt.IsZero()
	})
}
