package permission

import (
	"maps"

	"helix/backend/fault"
)

// forgetAll drops everything that was learned of a database whose place another file has
// taken, and ends the runs whose rights came from it.
func (s *Service) forgetAll() {
	s.mu.Lock()
	for user := range maps.Keys(s.books) { // who has no book has no answer in flight either
		s.gens[user]++
	}
	clear(s.books)
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
