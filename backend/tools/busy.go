package tools

// Busy reports whether any tool is running. Housekeeping waits until none is.
func (s *Service) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running) > 0
}
