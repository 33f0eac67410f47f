package memory

import "helix/backend/pause"

// Busy reports whether an import is adding records right now; housekeeping waits for the end.
// One that waits for space does not count, or nothing would ever make room for it.
func (s *Service) Busy() bool {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	return len(s.imports.jobs) > 0 && !s.lowSpace()
}

func (s *Service) lowSpace() bool { return s.o.Pause.By(pause.LowSpace) || s.db.ReadOnly() }
