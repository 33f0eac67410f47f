package tools

// Busy reports whether any tool runs right now; housekeeping waits for the end.
func (s *Service) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running) > 0
}
