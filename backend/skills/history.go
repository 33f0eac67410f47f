package skills

import (
	"context"

	"helix/backend/fault"
)

// Status tells how a run stands, or lists the installed skills.
func (s *Service) Status(_ context.Context, _ StatusParams) (StatusResult, error) {
	return StatusResult{}, fault.Unavailablef("Not in this build yet.")
}

// History lists runs, newest first.
func (s *Service) History(_ context.Context, _ HistoryParams) (HistoryResult, error) {
	return HistoryResult{}, fault.Unavailablef("Not in this build yet.")
}

// GetExecution gives one run with its steps.
func (s *Service) GetExecution(_ context.Context, _ RunParams) (Execution, error) {
	return Execution{}, fault.Unavailablef("Not in this build yet.")
}

// Events gives the events of a run.
func (s *Service) Events(_ context.Context, _ EventsParams) (EventsResult, error) {
	return EventsResult{}, fault.Unavailablef("Not in this build yet.")
}

// Pin keeps a run from being pruned.
func (s *Service) Pin(_ context.Context, _ PinParams) (Execution, error) {
	return Execution{}, fault.Unavailablef("Not in this build yet.")
}

// PurgeHistory removes runs that have ended.
func (s *Service) PurgeHistory(_ context.Context, _ PurgeParams) (PurgeResult, error) {
	return PurgeResult{}, fault.Unavailablef("Not in this build yet.")
}
