package footprint

import (
	"os"
	"runtime"
	"testing"

	"helix/backend/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

func TestMemoryIsReturnedOnceAfterWorkAndAgainWhenEnoughIsWasted(t *testing.T) {
	t.Parallel()
	w := watch{busy: true}
	total := uint64(0)
	for i, step := range []struct {
		allocated, wasted uint64
		due               bool
	}{
		{allocated: 50 << 20, wasted: 40 << 20},       // working
		{allocated: quiet + 1, wasted: 40 << 20},      // still working
		{allocated: quiet, wasted: 0, due: true},      // quiet, whatever was wasted
		{allocated: 1, wasted: worthwhile - 1},        // nothing to gain
		{allocated: 1, wasted: worthwhile, due: true}, // many small allocations
		{allocated: 1, wasted: 0},
		{allocated: 5 << 20, wasted: 5 << 20}, // a call
		{allocated: 0, wasted: 5 << 20, due: true},
	} {
		total += step.allocated
		if got := w.due(usage{total, step.wasted}); got != step.due {
			t.Fatalf("step %d: due %v, want %v", i, got, step.due)
		}
	}
}

func TestReleaseReturnsFreeMemoryToTheSystem(t *testing.T) {
	if !testkit.Alone(t) {
		return
	}
	big := make([]byte, 64<<20)
	for i := 0; i < len(big); i += 4096 {
		big[i] = 1
	}
	runtime.KeepAlive(big)
	runtime.GC() // garbage is now free, but still the process's
	Release()
	if after := read().wasted; after > 8<<20 {
		t.Fatalf("%d bytes are wasted after Release", after)
	}
}
