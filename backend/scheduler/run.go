package scheduler

import (
	"context"

	"helix/backend/fault"
)

// RunNow starts a schedule's target now.
func (s *Service) RunNow(_ context.Context, _ RunNowParams) (RunNowResult, error) {
	return RunNowResult{}, fault.Unavailablef("Not in this build yet.")
}

// Runs lists runs, newest first.
func (s *Service) Runs(_ context.Context, _ RunsParams) (RunsResult, error) {
	return RunsResult{}, fault.Unavailablef("Not in this build yet.")
}

// RunOutput gives the output of a run as text.
func (s *Service) RunOutput(_ context.Context, _ RunOutputParams) (RunOutputResult, error) {
	return RunOutputResult{}, fault.Unavailablef("Not in this build yet.")
}

// CancelRun stops a run.
func (s *Service) CancelRun(_ context.Context, _ RunParams) (Run, error) {
	return Run{}, fault.Unavailablef("Not in this build yet.")
}
