package containertools

import (
	"context"
	"slices"
	"testing"
	"time"

	"helix/backend/container"
	"helix/backend/fault"
	"helix/backend/storage"
)

// Volumes lists those that were not removed.
func (f *fakeEngine) Volumes(context.Context) ([]container.VolumeInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.volumes), func(v container.VolumeInfo) bool { return slices.Contains(f.removed, v.Name) }), nil
}

// agePassed moves the time at which volumes were first seen without a tool into the past.
func (e *env) agePassed(d time.Duration) {
	e.Helper()
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE container_orphans SET seen_at = ?`, tx.Now.Add(-d))
		return err
	}); err != nil {
		e.Fatal(err)
	}
}

func TestVolumesWithoutAToolAreRemovedAfterADay(t *testing.T) {
	t.Parallel()
	e := setup(t)
	used := e.tool("keeps", true, func(p *AddParams) { p.StateBytes = 4 << 20 })
	const orphan, odd = "helix-tool-00000000-0000-7000-8000-000000000001", "helix-tool-x"
	e.engine.volumes = []container.VolumeInfo{{Name: orphan, UsedBytes: 5}, {Name: volumeName(used.ID), UsedBytes: 3}, {Name: odd, UsedBytes: -1}}
	r, err := e.s.Volumes(e.ctx, struct{}{})
	if err != nil || len(r.Volumes) != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, v := range r.Volumes {
		if i == 1 && (v.Tool != "keeps" || *v.ToolID != used.ID || v.QuotaBytes != 4<<20 || v.UsedBytes != 3 || !v.RemoveAt.IsZero()) ||
			i != 1 && (v.ToolID != nil || !v.RemoveAt.After(time.Now())) {
			t.Errorf("%+v", v)
		}
	}
	sweep := func(want ...string) {
		t.Helper()
		if err := e.s.Sweep(e.ctx); err != nil || !slices.Equal(e.engine.removed, want) {
			t.Errorf("%v, %v", e.engine.removed, err)
		}
	}
	sweep()
	e.agePassed(orphanLife - time.Hour)
	sweep()
	if _, err := e.s.RemoveVolume(e.ctx, VolumeParams{volumeName(used.ID)}); !fault.Is(err, fault.Conflict) {
		t.Errorf("one in use: %v", err)
	}
	if _, err := e.s.RemoveVolume(e.ctx, VolumeParams{"helix-tool-y"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("one that doesn't exist: %v", err)
	}
	if r, err := e.s.RemoveVolume(e.ctx, VolumeParams{odd}); err != nil || !slices.Equal(r.Removed, []string{odd}) {
		t.Errorf("%+v, %v", r, err)
	}
	e.agePassed(orphanLife + time.Second)
	sweep(odd, orphan)
	sweep(odd, orphan)
}

func TestAVolumeWhoseToolComesBackIsKept(t *testing.T) {
	t.Parallel()
	e := setup(t)
	tool := e.tool("keeps", true, func(p *AddParams) { p.StateBytes = 4 << 20 })
	e.engine.volumes = []container.VolumeInfo{{Name: volumeName(tool.ID)}}
	status := func(s string) {
		t.Helper()
		if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`UPDATE container_tools SET status = ?`, s)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	status(StatusRevoked)
	if r, err := e.s.Volumes(e.ctx, struct{}{}); err != nil || r.Volumes[0].RemoveAt.IsZero() {
		t.Fatalf("%+v, %v", r, err)
	}
	e.agePassed(10 * orphanLife)
	status(StatusActive)
	if err := e.s.Sweep(e.ctx); err != nil || len(e.engine.removed) > 0 {
		t.Errorf("%v, %v", e.engine.removed, err)
	}
	status(StatusRevoked)
	if err := e.s.Sweep(e.ctx); err != nil || len(e.engine.removed) > 0 { // the time begins again
		t.Errorf("%v, %v", e.engine.removed, err)
	}
}
