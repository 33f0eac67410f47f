package sandbox

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"helix/backend/testkit"
)

// TestOneProcessorStaysFree occupies all processors with guests: there must be one more while they
// compute, and not afterwards.
func TestOneProcessorStaysFree(t *testing.T) {
	usual := usualProcessors
	until := func(what string, ok func(n int) bool) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("processors %s, usually %d", what, usual), func() int { return runtime.GOMAXPROCS(0) }, ok)
	}
	until("after other tests", func(n int) bool { return n == usual })
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Idle: 1, Workers: usual, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.CompileJS(context.Background(), Source{Text: "for (;;) {}"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for range usual {
			wg.Go(func() { _, _ = e.Execute(ctx, p, Call{}) })
		}
		until("while guests compute", func(n int) bool { return n > usual })
		cancel()
		wg.Wait()
		until("afterwards", func(n int) bool { return n == usual })
	}
	// Closing must not leave the number raised either.
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range usual {
		wg.Go(func() { _, _ = e.Execute(ctx, p, Call{}) })
	}
	until("while guests compute", func(n int) bool { return n > usual })
	cancel()
	wg.Wait()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	until("after Close", func(n int) bool { return n == usual })
}
