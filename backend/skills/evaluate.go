package skills

import (
	"context"

	"helix/backend/fault"
)

// Evaluate tries a path, a template or a condition on a document.
func (s *Service) Evaluate(_ context.Context, _ EvaluateParams) (EvaluateResult, error) {
	return EvaluateResult{}, fault.Unavailablef("Not in this build yet.")
}

// Document gives the run document of a run, for mapping.
func (s *Service) Document(_ context.Context, _ RunParams) (DocumentResult, error) {
	return DocumentResult{}, fault.Unavailablef("Not in this build yet.")
}
