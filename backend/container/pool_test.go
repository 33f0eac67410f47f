//go:build !containers

package container

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/testkit"
)

// keeping runs the engine in the background until stop is called.
func keeping(t *testing.T, e *Engine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); e.Run(ctx) }() //nolint:errcheck // it returns none
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	testkit.Eventually(t, "the pool is kept", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.pooling != nil && e.client != nil
	}, func(ok bool) bool { return ok })
	return stop
}

// pooled waits until the pool has n containers.
func pooled(t *testing.T, e *Engine, n int) {
	t.Helper()
	testkit.Eventually(t, "prepared containers", func() int {
		e.mu.Lock()
		busy := len(e.preparing)
		e.mu.Unlock()
		if busy > 0 {
			return -1
		}
		return e.Status().Pool
	}, func(have int) bool { return have == n })
}

func (f *fake) creations() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.created)
}

func run1(t *testing.T, e *Engine, s Spec) {
	t.Helper()
	s.RunID = uuid.New()
	if r, err := e.Execute(t.Context(), s); err != nil || r.Outcome != Success {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestTheNextRunOfAToolStartsAPreparedContainer(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e := f.open(t)
	run1(t, e, spec())
	if n := e.Status().Pool; n != 0 || f.left() != 0 {
		t.Fatalf("%d prepared before the engine runs", n)
	}
	stop := keeping(t, e)
	for i := range 3 {
		run1(t, e, spec())
		pooled(t, e, 1)
		if n := f.creations(); n != i+3 { // one before, and one prepared
			t.Fatalf("%d containers after run %d", n, i)
		}
	}
	if removed, err := e.Reap(t.Context()); err != nil || len(removed) > 0 {
		t.Errorf("the reaper took %v, %v", removed, err)
	}
	other := spec()
	other.Limits.MemoryBytes = 64 << 20 // needs another container
	before := f.creations()
	run1(t, e, other)
	pooled(t, e, 2)
	if n := f.creations() - before; n != 2 {
		t.Errorf("%d containers for other limits", n)
	}
	third := spec()
	third.ImageID = "sha256:def"
	run1(t, e, third)
	pooled(t, e, poolSize)
	before = f.creations()
	run1(t, e, spec()) // the oldest made room
	if n := f.creations() - before; n == 0 {
		t.Error("more are kept than fit")
	}
	stop()
	if f.left() != 0 || e.Status().Pool != 0 {
		t.Errorf("%d are left over", f.left())
	}
}

// An engine creates the container of a request that was canceled meanwhile.
func TestACanceledCreationLeavesNoContainer(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e := f.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.slow = func() {
		cancel()
		time.Sleep(100 * time.Millisecond) // a removal would come now
	}
	s := spec()
	s.RunID = uuid.New()
	if r, err := e.Execute(ctx, s); err == nil && r.Outcome != Cancelled || err != nil && !fault.Is(err, fault.Canceled) {
		t.Errorf("%+v, %v", r, err)
	}
	testkit.Eventually(t, "the creation", f.creations, func(n int) bool { return n == 1 })
	if n := f.left(); n != 0 {
		t.Errorf("%d are left over", n)
	}
}

func TestAPreparedContainerThatIsGoneIsReplaced(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e := f.open(t)
	keeping(t, e)
	run1(t, e, spec())
	pooled(t, e, 1)
	f.mu.Lock()
	for id := range f.containers {
		f.gone = append(f.gone, id)
	}
	f.mu.Unlock()
	run1(t, e, spec())
}

func TestPreparedContainersGoWithTheirVolumeOrImage(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e := f.open(t)
	keeping(t, e)
	s := spec()
	s.Volume = &Volume{Name: "helix-tool-a", Quota: 1 << 20}
	run1(t, e, s)
	pooled(t, e, 1)
	if err := e.RemoveVolume(t.Context(), "helix-tool-b"); err != nil || e.Status().Pool != 1 {
		t.Errorf("another volume: %v, %d", err, e.Status().Pool)
	}
	if err := e.RemoveVolume(t.Context(), "helix-tool-a"); err != nil || e.Status().Pool != 0 || f.left() != 0 {
		t.Errorf("%v, %d", err, f.left())
	}
	run1(t, e, spec())
	pooled(t, e, 1)
	if err := e.RemoveImage(t.Context(), "box"); err != nil || e.Status().Pool != 0 || f.left() != 0 {
		t.Errorf("%v, %d", err, f.left())
	}
}

func TestPreparedContainersHoldNothingOfARun(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	e := f.open(t)
	keeping(t, e)
	s := spec()
	s.Env, s.Input = []string{"TOOL_PARAMS=planted"}, []byte("planted")
	run1(t, e, s)
	pooled(t, e, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.created[len(f.created)-1]
	if slices.Contains(b.Env, "planted") || strings.Contains(strings.Join(slices.Collect(maps.Values(b.Labels)), " "), s.RunID.String()) {
		t.Errorf("%+v", b)
	}
}

func TestVolumesAreLimitedByTheFileSystemWhereItCan(t *testing.T) {
	t.Parallel()
	for quotas, want := range map[bool]string{true: "hard", false: "guard"} {
		f := startFake(t)
		f.quotas = quotas
		e := f.open(t)
		s := spec()
		s.Volume = &Volume{Name: "helix-tool-a", Quota: 4 << 20}
		run1(t, e, s)
		st := e.Status()
		guarded := slices.ContainsFunc(st.Tiers[1].Reasons, func(r Reason) bool { return r.Code == QuotaGuardOnly })
		if st.Quota != want || guarded == quotas {
			t.Errorf("%t: %s, %+v", quotas, st.Quota, st.Tiers[1].Reasons)
		}
		v := f.volumes[len(f.volumes)-1]
		options, _ := v["DriverOpts"].(map[string]any)
		if v["Name"] != "helix-tool-a" || quotas && options["size"] != "4194304" || !quotas && options != nil {
			t.Errorf("%t: %+v", quotas, v)
		}
		if start := f.started[0]; start.DataBytes != 4<<20 {
			t.Errorf("it isn't measured: %+v", start)
		}
	}
}
