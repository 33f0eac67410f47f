package scheduler

import (
	"context"

	"helix/backend/fault"
)

// Status tells how the scheduler stands.
func (s *Service) Status(_ context.Context, _ struct{}) (StatusResult, error) {
	return StatusResult{}, fault.Unavailablef("Not in this build yet.")
}

// PauseAll stops all schedules from firing.
func (s *Service) PauseAll(_ context.Context, _ PauseAllParams) (PauseAllResult, error) {
	return PauseAllResult{}, fault.Unavailablef("Not in this build yet.")
}

// ResumeAll lets them fire again.
func (s *Service) ResumeAll(_ context.Context, _ struct{}) (PauseAllResult, error) {
	return PauseAllResult{}, fault.Unavailablef("Not in this build yet.")
}

// Notices gives the notices that no client has shown yet.
func (s *Service) Notices(_ context.Context, _ struct{}) (NoticesResult, error) {
	return NoticesResult{}, fault.Unavailablef("Not in this build yet.")
}

// TakeNotices marks notices as shown and gives the rest.
func (s *Service) TakeNotices(_ context.Context, _ TakeNoticesParams) (NoticesResult, error) {
	return NoticesResult{}, fault.Unavailablef("Not in this build yet.")
}
