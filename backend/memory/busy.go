package memory

import "helix/backend/pause"

// Busy reports whether an import is adding records right now. Housekeeping waits until it is not.
// An import that waits for disk space is not busy: housekeeping has to run to free that space.
func (s *Service) Busy() bool {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	return len(s.imports.jobs) > 0 && !s.lowSpace()
}

func (s *Service) lowSpace() bool { return s.o.Pause.By(pause.LowSpace) || s.db.ReadOnly() }
