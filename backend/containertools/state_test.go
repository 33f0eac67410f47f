package containertools

import (
	"context"
	"slices"
	"testing"

	"helix/backend/fault"
)

// RemoveVolume records what is removed.
func (f *fakeEngine) RemoveVolume(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, name)
	return nil
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
	if want := "helix-tool-" + tool.ID.String(); !slices.Equal(e.engine.removed, []string{want, want}) {
		t.Errorf("%v", e.engine.removed)
	}
	for _, n := range []int64{-1, 1, 1 << 40} {
		if _, err := e.s.Add(e.ctx, AddParams{Name: "bad", Image: "localhost/box", StateBytes: n}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%d: %v", n, err)
		}
	}
}
