package sandbox

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestOneProcessorStaysFree fills all processors with guests: one more is there while they
// compute, and gone afterwards.
func TestOneProcessorStaysFree(t *testing.T) {
	for deadline := time.Now().Add(patience); ; { // until what other tests raised is back
		process.mu.Lock()
		settled := process.usual == 0 && !process.busy
		process.mu.Unlock()
		if settled || time.Now().After(deadline) {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	usual := runtime.GOMAXPROCS(0)
	e, err := Open(context.Background(), Options{Idle: 1, Workers: usual, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.CompileJS(context.Background(), Source{Text: "for (;;) {}"})
	if err != nil {
		t.Fatal(err)
	}
	until := func(what string, ok func(n int) bool) {
		t.Helper()
		deadline := time.Now().Add(patience)
		for !ok(runtime.GOMAXPROCS(0)) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: there are %d processors, usually %d", what, runtime.GOMAXPROCS(0), usual)
			}
			time.Sleep(2 * time.Millisecond)
		}
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
	// Closing does not leave it raised either.
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
