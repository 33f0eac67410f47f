package skills

import (
	"maps"
	"slices"
)

// Busy reports whether a run is working right now; housekeeping waits for the end. A run that
// waits for a person or a time does not count.
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
