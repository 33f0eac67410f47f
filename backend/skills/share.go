package skills

import (
	"context"

	"helix/backend/fault"
)

// Export makes the share file of a skill.
func (s *Service) Export(_ context.Context, _ ExportParams) (ExportResult, error) {
	return ExportResult{}, fault.Unavailablef("Not in this build yet.")
}

// Import brings a share file in, disabled.
func (s *Service) Import(_ context.Context, _ ImportParams) (ImportResult, error) {
	return ImportResult{}, fault.Unavailablef("Not in this build yet.")
}
