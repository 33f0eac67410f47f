package skills

import (
	"context"

	"helix/backend/fault"
)

// ExecuteComposite runs a skill and waits for its end.
func (s *Service) ExecuteComposite(_ context.Context, _ ExecuteParams) (ExecuteResult, error) {
	return ExecuteResult{}, fault.Unavailablef("Not in this build yet.")
}

// Cancel stops a run. A run that has ended answers its status.
func (s *Service) Cancel(_ context.Context, _ CancelParams) (CancelResult, error) {
	return CancelResult{}, fault.Unavailablef("Not in this build yet.")
}

// Answer answers a question of a run.
func (s *Service) Answer(_ context.Context, _ AnswerParams) (Execution, error) {
	return Execution{}, fault.Unavailablef("Not in this build yet.")
}

// Restart runs a skill again from a step.
func (s *Service) Restart(_ context.Context, _ RestartParams) (RestartResult, error) {
	return RestartResult{}, fault.Unavailablef("Not in this build yet.")
}
