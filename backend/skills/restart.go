package skills

import (
	"context"

	"helix/backend/fault"
)

// Restart runs a skill again from a step.
func (s *Service) Restart(_ context.Context, _ RestartParams) (RestartResult, error) {
	return RestartResult{}, fault.Unavailablef("Not in this build yet.")
}
