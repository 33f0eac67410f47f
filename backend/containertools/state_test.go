package containertools

import (
	"context"
	"slices"
	"testing"
	"time"

	"helix/backend/container"
	"helix/backend/fault"
)

// RemoveVolume records what is removed.
func (f *fakeEngine) RemoveVolume(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, name)
	return nil
}

// SnapshotVolume and RestoreVolume record what is copied, if it exists.
func (f *fakeEngine) SnapshotVolume(_ context.Context, image string, v container.Volume, snapshot string) error {
	return f.copied(image, v.Name, snapshot)
}

func (f *fakeEngine) RestoreVolume(_ context.Context, image, snapshot string, v container.Volume) error {
	return f.copied(image, snapshot, v.Name)
}

func (f *fakeEngine) copied(image, from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.broken != nil {
		return f.broken
	}
	if !slices.ContainsFunc(f.volumes, func(v container.VolumeInfo) bool { return v.Name == from }) {
		return fault.NotFoundf("There is no stored data to copy.")
	}
	f.copies = append(f.copies, image+": "+from+" > "+to)
	f.volumes = append(f.volumes, container.VolumeInfo{Name: to})
	return nil
}

func TestStoredDataCanGoBackAfterAChange(t *testing.T) {
	t.Parallel()
	e := setup(t)
	with := func(argv string) func(*AddParams) {
		return func(p *AddParams) { p.StateBytes, p.Argv = 4<<20, []string{argv} }
	}
	tool := e.tool("keeps", true, with("old"))
	if _, err := e.s.RestoreState(e.ctx, ToolParams{tool.ID}); !fault.Is(err, fault.NotFound) || len(e.engine.copies) != 0 {
		t.Errorf("without a copy: %v, %v", err, e.engine.copies)
	}
	name, back := volumeName(tool.ID), snapshotName(tool.ID)
	e.engine.volumes = []container.VolumeInfo{{Name: name}}
	changed := e.tool("keeps", false, with("new"))
	if len(e.engine.copies) != 0 {
		t.Errorf("before the approval: %v", e.engine.copies)
	}
	e.engine.broken = fault.Unavailablef("The engine is gone.")
	if _, err := e.s.Approve(e.ctx, ApproveParams{tool.ID, changed.DefinitionHash}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without a copy: %v", err)
	}
	e.engine.broken = nil
	if again := e.tool("keeps", true, with("new")); again.Status != StatusActive || again.ID != tool.ID {
		t.Errorf("%+v", again)
	}
	if _, err := e.s.RestoreState(e.ctx, ToolParams{tool.ID}); err != nil {
		t.Error(err)
	}
	image := tool.Definition.ImageID
	if want := []string{image + ": " + name + " > " + back, image + ": " + back + " > " + name}; !slices.Equal(e.engine.copies, want) {
		t.Errorf("%v, want %v", e.engine.copies, want)
	}
	if r, err := e.s.Volumes(e.ctx, struct{}{}); err != nil || len(r.Volumes) != 3 || r.Volumes[0].CopyOf != nil || r.Volumes[1].CopyOf == nil || *r.Volumes[1].CopyOf != tool.ID || r.Volumes[1].Tool != "keeps" || r.Volumes[1].ToolID != nil {
		t.Errorf("%+v, %v", r, err)
	}
	for _, age := range []time.Duration{snapshotLife - time.Hour, snapshotLife + time.Hour} {
		if _, err := e.s.Volumes(e.ctx, struct{}{}); err != nil {
			t.Fatal(err)
		}
		e.agePassed(age)
		if err := e.s.Sweep(e.ctx); err != nil || slices.Contains(e.engine.removed, back) != (age > snapshotLife) || slices.Contains(e.engine.removed, name) {
			t.Errorf("after %s: %v, %v", age, e.engine.removed, err)
		}
	}
}

func TestStoredDataBelongsToOneToolAndEndsWithIt(t *testing.T) {
	e := setup(t)
	tool := e.tool("keeps", true, func(p *AddParams) { p.StateBytes = 4 << 20 })
	e.tool("plain", true)
	for _, name := range []string{"keeps", "plain"} {
		if _, err := e.s.Run(e.ctx, RunParams{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if v := e.engine.runs[0].Volume; v == nil || v.Name != "helix-tool-"+tool.ID.String() || v.Quota != 4<<20 || e.engine.runs[1].Volume != nil {
		t.Errorf("%+v", e.engine.runs)
	}
	if _, err := e.s.ClearState(e.ctx, ToolParams{tool.ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.s.Revoke(e.ctx, ToolParams{tool.ID}); err != nil {
		t.Fatal(err)
	}
	if want := "helix-tool-" + tool.ID.String(); !slices.Equal(e.engine.removed, []string{want, want, "helix-back-" + tool.ID.String()}) {
		t.Errorf("%v", e.engine.removed)
	}
	for _, n := range []int64{-1, 1, 1 << 40} {
		if _, err := e.s.Add(e.ctx, AddParams{Name: "bad", Image: "localhost/box", StateBytes: n}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%d: %v", n, err)
		}
	}
}
