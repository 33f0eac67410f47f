package skills

import (
	"context"

	"helix/backend/fault"
)

// PurgeHistory removes runs that have ended.
func (s *Service) PurgeHistory(_ context.Context, _ PurgeParams) (PurgeResult, error) {
	return PurgeResult{}, fault.Unavailablef("Not in this build yet.")
}
