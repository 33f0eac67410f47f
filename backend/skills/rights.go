package skills

import (
	"context"

	"helix/backend/fault"
)

// PreviewRights says what a run would need, without asking anybody.
func (s *Service) PreviewRights(_ context.Context, _ PreviewRightsParams) (RightsPreview, error) {
	return RightsPreview{}, fault.Unavailablef("Not in this build yet.")
}
