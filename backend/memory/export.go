package memory

import (
	"context"

	"helix/backend/fault"
)

// Export writes what the filters choose into a blob.
func (s *Service) Export(context.Context, ExportParams) (ExportResult, error) {
	return ExportResult{}, fault.Unavailablef("This is being built.")
}
