package containertools

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/storage"
)

const (
	snapshotPrefix = "helix-back-"
	snapshotLife   = 7 * 24 * time.Hour
)

func snapshotName(tool uuid.UUID) string { return snapshotPrefix + tool.String() }

// snapshot keeps a copy of what an approved tool has stored, before another definition of it may change that.
func (s *Service) snapshot(ctx context.Context, p ApproveParams) error {
	t, err := s.find(ctx, &p.ToolID, "")
	if err != nil || t.Status != StatusPending || t.ApprovedAt == nil || p.DefinitionHash != t.DefinitionHash {
		return err // Approve refuses it, or there is nothing to keep
	}
	// The former quota is not known any more.
	err = s.engine.SnapshotVolume(ctx, t.Definition.ImageID, container.Volume{Name: volumeName(t.ID), Quota: maxState}, snapshotName(t.ID))
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		f := *fault.As(err)
		f.Message = "Couldn't keep a copy of the stored data, so nothing was approved. " + f.Message
		return &f
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error { // an earlier one had its own time
		_, err := tx.Exec(`DELETE FROM container_orphans WHERE volume = ?`, snapshotName(t.ID))
		return err
	})
}

// RestoreState brings back what a tool had stored when its definition was last changed. That copy is kept for 7 days.
// What was stored since is lost.
func (s *Service) RestoreState(ctx context.Context, p ToolParams) (struct{}, error) {
	t, err := s.find(ctx, &p.ToolID, "")
	if err != nil {
		return struct{}{}, err
	}
	if t.Status == StatusRevoked || t.Definition.StateBytes == 0 {
		return struct{}{}, fault.Conflictf("The tool %s stores no data.", t.Name)
	}
	err = s.engine.RestoreVolume(ctx, t.Definition.ImageID, snapshotName(t.ID), container.Volume{Name: volumeName(t.ID), Quota: t.Definition.StateBytes})
	if fault.Is(err, fault.NotFound) {
		return struct{}{}, fault.NotFoundf("There is no copy of what %s had stored. It is made when a changed definition is approved, and kept for 7 days.", t.Name).WithCause(err)
	}
	if err != nil {
		return struct{}{}, err
	}
	return struct{}{}, s.record(ctx, "container.state_restored", t.ID.String(), map[string]any{"name": t.Name})
}
