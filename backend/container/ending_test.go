//go:build !containers

package container

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
)

// A bug of ours between two requests to the engine must not leave a container behind.
func TestPanicInAnyPhaseLeavesNoContainer(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{PhaseCreate, PhaseStart, PhaseReady, PhaseRunning, PhaseEnded, PhaseRemoved} {
		f := startFake(t)
		e := f.open(t)
		s := spec()
		s.Phase = func(p string) {
			if p == phase {
				panic("a bug")
			}
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", phase)
				}
			}()
			e.Execute(t.Context(), s) //nolint:errcheck // it panics
		}()
		if f.left() != 0 {
			t.Errorf("%s: %d containers are left over", phase, f.left())
		}
		if n := len(e.Status().Running); n != 0 {
			t.Errorf("%s: %d runs are left over", phase, n)
		}
		if n := len(e.slots); n != 0 {
			t.Errorf("%s: %d slots are taken", phase, n)
		}
	}
}

func TestCancelWhileNeitherTheEngineNorTheInitProcessAnswers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.forever = true
	e := f.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := spec()
	s.Phase = func(p string) {
		if p == PhaseRunning {
			f.mu.Lock()
			f.dead, f.deaf = true, true
			f.mu.Unlock()
			cancel()
		}
	}
	if r, err := e.Execute(ctx, s); err != nil || r.Outcome != Cancelled {
		t.Errorf("%+v, %v", r, err)
	}
	if n := len(e.Status().Running); n != 0 {
		t.Errorf("%d runs are left over", n)
	}
	if _, err := e.Execute(t.Context(), spec()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("without an engine: %v", err)
	}
}

func TestEngineIsAskedAboutTheMemoryOfAnInitProcessThatWasKilled(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.killed = true
	if r, err := f.open(t).Execute(t.Context(), spec()); err != nil || r.Outcome != OOM {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestEveryMethodSaysThatThereIsNoEngine(t *testing.T) {
	t.Parallel()
	e := Open(Options{Host: "unix:///nonexistent/engine.sock"})
	t.Cleanup(func() { e.Close() })
	dir := t.TempDir()
	for name, fn := range map[string]func(context.Context) error{
		"Execute": func(ctx context.Context) error { _, err := e.Execute(ctx, spec()); return err },
		"Spawn": func(ctx context.Context) error {
			_, err := e.Spawn(ctx, SessionSpec{ID: uuid.New(), ImageID: "sha256:abc"})
			return err
		},
		"Image":        func(ctx context.Context) error { _, err := e.Image(ctx, "box"); return err },
		"Images":       func(ctx context.Context) error { _, err := e.Images(ctx); return err },
		"Pull":         func(ctx context.Context) error { _, err := e.Pull(ctx, "box", "", nil); return err },
		"ImportImage":  func(ctx context.Context) error { _, err := e.ImportImage(ctx, dir, "box"); return err },
		"RemoveImage":  func(ctx context.Context) error { return e.RemoveImage(ctx, "box") },
		"Volumes":      func(ctx context.Context) error { _, err := e.Volumes(ctx); return err },
		"RemoveVolume": func(ctx context.Context) error { return e.RemoveVolume(ctx, "helix-tool-a") },
		"Reap":         func(ctx context.Context) error { _, err := e.Reap(ctx); return err },
	} {
		err := fn(t.Context())
		if d, _ := fault.As(err).Details.(Refusal); !fault.Is(err, fault.Unavailable) || d.Code != EngineNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}
