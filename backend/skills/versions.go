package skills

import (
	"context"

	"helix/backend/fault"
)

// ListVersions lists the definitions that a skill had.
func (s *Service) ListVersions(_ context.Context, _ SkillParams) (VersionsResult, error) {
	return VersionsResult{}, fault.Unavailablef("Not in this build yet.")
}

// GetVersion gives one with its body.
func (s *Service) GetVersion(_ context.Context, _ VersionParams) (Version, error) {
	return Version{}, fault.Unavailablef("Not in this build yet.")
}

// DiffVersions compares two definitions step by step.
func (s *Service) DiffVersions(_ context.Context, _ DiffParams) (DiffResult, error) {
	return DiffResult{}, fault.Unavailablef("Not in this build yet.")
}

// Rollback makes an old definition the current one, as a new version.
func (s *Service) Rollback(_ context.Context, _ RollbackParams) (Meta, error) {
	return Meta{}, fault.Unavailablef("Not in this build yet.")
}
