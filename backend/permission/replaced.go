package permission

import (
	"maps"

	"helix/backend/fault"
)

// forgetAll drops everything cached from a database that has been replaced, and ends the runs whose
// authority came from it.
func (s *Service) forgetAll() {
	s.mu.Lock()
	for user := range maps.Keys(s.caches) { // users without a cache have no decision in progress either
		s.gens[user]++
	}
	clear(s.caches)
	clear(s.undo)
	clear(s.lastUse)
	clear(s.reserve)
	var runs []*Authority
	for as := range maps.Values(s.runs) {
		runs = append(runs, as...)
	}
	s.mu.Unlock()
	for _, a := range runs {
		a.end(fault.Unavailablef("The data was replaced, so the run was stopped."))
	}
}
