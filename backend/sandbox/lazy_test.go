package sandbox

import (
	"context"
	"testing"
	"testing/fstest"
)

// TestLazyEngineLoadsAtFirstUse opens engines that load nothing until they are used.
func TestLazyEngineLoadsAtFirstUse(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	e, err := Open(ctx, Options{WorkerCommand: childCommand, Lazy: true})
	if err != nil || e.art != nil {
		t.Fatalf("opened with %v, artefacts read: %v", err, e.art != nil)
	}
	cancel() // as the caller's deadline may expire before the first run
	p, err := e.CompileJS(t.Context(), Source{Name: "a.js", Text: "export default () => 42"})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := e.Execute(t.Context(), p, Call{Trust: TrustOwn}); err != nil || string(r.Output) != "42" {
		t.Errorf("ran to %s, %v", r.Output, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}

	unused, err := Open(t.Context(), Options{WorkerCommand: childCommand, Lazy: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := unused.Close(); err != nil || unused.art != nil {
		t.Errorf("closing an unused engine: %v, artefacts read: %v", err, unused.art != nil)
	}

	broken, err := open(t.Context(), Options{WorkerCommand: childCommand, Lazy: true}, fstest.MapFS{})
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close() //nolint:errcheck // nothing ran
	if st := broken.Status(); st.Ready || st.Reason == "" {
		t.Errorf("without artefacts: %+v", st)
	}
}
