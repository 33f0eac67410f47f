package skills

import (
	"context"

	"helix/backend/fault"
)

// DryRun rehearses a skill without any effect.
func (s *Service) DryRun(_ context.Context, _ DryRunParams) (ExecuteResult, error) {
	return ExecuteResult{}, fault.Unavailablef("Not in this build yet.")
}

// Replay feeds a run's recorded outcomes through the engine again.
func (s *Service) Replay(_ context.Context, _ RunParams) (ReplayResult, error) {
	return ReplayResult{}, fault.Unavailablef("Not in this build yet.")
}
