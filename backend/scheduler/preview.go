package scheduler

import (
	"context"

	"helix/backend/fault"
)

// Preview tells when a cadence is due.
func (s *Service) Preview(_ context.Context, _ PreviewParams) (PreviewResult, error) {
	return PreviewResult{}, fault.Unavailablef("Not in this build yet.")
}

// Calendar tells what was and will be due in a stretch of days.
func (s *Service) Calendar(_ context.Context, _ CalendarParams) (CalendarResult, error) {
	return CalendarResult{}, fault.Unavailablef("Not in this build yet.")
}
