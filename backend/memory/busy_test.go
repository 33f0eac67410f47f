package memory

import (
	"testing"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/pause"
)

// On a nearly full disk an import waits and reports that, but does not block housekeeping. Once
// there is space again it completes normally.
func TestImportsWaitForSpace(t *testing.T) {
	t.Parallel()
	hold, err := pause.Open("", bus.New())
	if err != nil {
		t.Fatal(err)
	}
	hold.Set(pause.LowSpace, true)
	b := newBundle(t, Options{Pause: hold})
	p := ImportParams{Path: writeFile(t, t.TempDir(), "c.json", "["+chat("c", "Dinner", "a=Alpha", "b=Bravo")+"]")}
	job := must(b.Import(b.ctx, p))(t)
	waits := func() ImportStatus { return must(b.ImportStatus(b.ctx, JobParams(job)))(t) }
	until(t, "the import to stand so", func() bool { return waits().Message == fault.As(errLowSpace).Message })
	if st := waits(); st.Status != "running" || st.Added != 0 {
		t.Errorf("%+v", st)
	}
	if b.Busy() {
		t.Error("what waits for space keeps pruning from making room")
	}
	hold.Set(pause.LowSpace, false)
	until(t, "the import to stand so", func() bool { return waits().Status == "completed" })
	wantCounts(t, waits(), "completed", 2, 2, 0, 0, 0)
	until(t, "the import not to be busy", func() bool { return !b.Busy() }) // it ends after its status does
}
