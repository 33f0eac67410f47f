package containertools

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/storage"
)

const (
	orphanLife = 24 * time.Hour // how long a volume without a tool is kept
	sweepEvery = time.Hour
)

// Volume is where a tool keeps files between its runs.
type Volume struct {
	Name       string     `json:"name"`
	ToolID     *uuid.UUID `json:"toolId,omitempty"` // absent: its tool was revoked or no longer exists
	Tool       string     `json:"tool,omitempty"`
	QuotaBytes int64      `json:"quotaBytes,omitempty"`
	UsedBytes  int64      `json:"usedBytes"` // -1: the engine does not say
	CreatedAt  time.Time  `json:"createdAt,omitzero"`
	RemoveAt   time.Time  `json:"removeAt,omitzero"` // when a volume without a tool is removed
	// CopyOf is the tool whose stored data this is a copy of, which container.restore_state brings back.
	CopyOf *uuid.UUID `json:"copyOf,omitempty"`
}

// VolumesResult lists volumes.
type VolumesResult struct {
	Volumes []Volume `json:"volumes"`
}

// Volumes lists the volumes of the caller's tools, and those whose tool no longer exists. These are removed 24 hours
// after they were first seen, and copies that RestoreState brings back 7 days after that.
func (s *Service) Volumes(ctx context.Context, _ struct{}) (VolumesResult, error) {
	list, err := s.engine.Volumes(ctx)
	if err != nil {
		return VolumesResult{}, err
	}
	seen, err := s.markOrphans(ctx, list)
	if err != nil {
		return VolumesResult{}, err
	}
	tools, err := s.tools(ctx)
	if err != nil {
		return VolumesResult{}, err
	}
	out := VolumesResult{[]Volume{}}
	for _, v := range list {
		x := Volume{Name: v.Name, UsedBytes: v.UsedBytes, CreatedAt: v.CreatedAt}
		if since, orphan := seen[v.Name]; orphan {
			x.RemoveAt = since.Add(lifeOf(v.Name))
			if i := slices.IndexFunc(tools, func(t *Tool) bool { return snapshotName(t.ID) == v.Name && t.Status != StatusRevoked }); i >= 0 {
				x.CopyOf, x.Tool = &tools[i].ID, tools[i].Name
			}
			out.Volumes = append(out.Volumes, x)
			continue
		}
		if i := slices.IndexFunc(tools, func(t *Tool) bool { return volumeName(t.ID) == v.Name }); i >= 0 {
			x.ToolID, x.Tool, x.QuotaBytes = &tools[i].ID, tools[i].Name, tools[i].Definition.StateBytes
			out.Volumes = append(out.Volumes, x)
		}
	}
	return out, nil
}

// lifeOf returns how long a volume that belongs to no tool is kept.
func lifeOf(volume string) time.Duration {
	if strings.HasPrefix(volume, snapshotPrefix) {
		return snapshotLife
	}
	return orphanLife
}

// markOrphans records which volumes belong to no tool of any user, and returns since when.
func (s *Service) markOrphans(ctx context.Context, list []container.VolumeInfo) (seen map[string]time.Time, err error) {
	err = s.db.Write(ctx, func(tx *storage.Tx) error {
		seen = map[string]time.Time{}
		known := map[string]time.Time{}
		err := tx.Select(`SELECT volume, seen_at FROM container_orphans`).Each(func(row storage.Row) error {
			var name string
			var at time.Time
			err := row.Scan(&name, storage.Time(&at))
			known[name] = at
			return err
		})
		if err != nil {
			return err
		}
		for _, v := range list {
			owned, err := hasTool(tx, v.Name)
			if err != nil {
				return err
			}
			at, marked := known[v.Name]
			if owned {
				continue
			}
			if !marked {
				at = tx.Now
				if _, err := tx.Exec(`INSERT INTO container_orphans (volume, seen_at) VALUES (?, ?)`, v.Name, at); err != nil {
					return err
				}
			}
			seen[v.Name] = at
		}
		for name := range known {
			if _, still := seen[name]; !still { // it was removed, or its tool was restored
				if _, err := tx.Exec(`DELETE FROM container_orphans WHERE volume = ?`, name); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return seen, err
}

// hasTool reports whether a volume belongs to a tool of any user.
func hasTool(tx *storage.Tx, volume string) (bool, error) {
	id, err := uuid.Parse(strings.TrimPrefix(volume, volumePrefix))
	if err != nil {
		return false, nil //nolint:nilerr // no tool has such a volume
	}
	var n int
	err = tx.QueryRow(`SELECT count(*) FROM container_tools WHERE id = ? AND status <> 'revoked'`, id).Scan(&n)
	return n > 0, err
}

// VolumeParams name a volume.
type VolumeParams struct {
	Name string `json:"name"`
}

// RemoveVolume removes a volume whose tool no longer exists, with its files.
func (s *Service) RemoveVolume(ctx context.Context, p VolumeParams) (RemovedResult, error) {
	list, err := s.engine.Volumes(ctx)
	if err != nil {
		return RemovedResult{}, err
	}
	if !slices.ContainsFunc(list, func(v container.VolumeInfo) bool { return v.Name == p.Name }) {
		return RemovedResult{}, fault.NotFoundf("There is no such volume.")
	}
	seen, err := s.markOrphans(ctx, list)
	if err != nil {
		return RemovedResult{}, err
	}
	if _, orphan := seen[p.Name]; !orphan {
		return RemovedResult{}, fault.Conflictf("A tool uses this volume. Clear the stored data of the tool instead.")
	}
	if err := s.engine.RemoveVolume(ctx, p.Name); err != nil {
		return RemovedResult{}, err
	}
	return RemovedResult{[]string{p.Name}}, s.record(ctx, "container.volume_removed", p.Name, nil)
}

// Sweep removes the volumes that have belonged to no tool for 24 hours, and copies after 7 days.
func (s *Service) Sweep(ctx context.Context) error {
	list, err := s.engine.Volumes(ctx)
	if err != nil {
		return err
	}
	seen, err := s.markOrphans(ctx, list)
	if err != nil {
		return err
	}
	for name, since := range seen {
		if time.Since(since) < lifeOf(name) {
			continue
		}
		if err := s.engine.RemoveVolume(ctx, name); err != nil && !fault.Is(err, fault.Conflict) {
			return err
		}
		if err := s.record(ctx, "container.volume_removed", name, map[string]any{"unusedSince": since}); err != nil {
			return err
		}
	}
	return nil
}

// SweepVolumes removes unused volumes every hour, as long as there is an engine, until ctx ends. The user in ctx owns the
// entries in the log.
func (s *Service) SweepVolumes(ctx context.Context) error {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if s.engine.Status().Engine == nil {
			continue
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("remove unused volumes of containers", "err", err)
		}
	}
}
