// Package footprint returns memory to the system that an idle process does not need. Anyone may
// import it; the backend runs it.
package footprint

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// interval is how long the process must be quiet before its memory is returned.
	interval = 10 * time.Second
	// quiet is the number of bytes that a process which only waits may allocate in an interval.
	quiet = 4 << 20
	// worthwhile is the number of bytes that a process which was quiet all along must have wasted:
	// returning them costs a garbage collection.
	worthwhile = 16 << 20
)

// Run returns memory to the system each time the process becomes quiet, until ctx ends.
func Run(ctx context.Context) error {
	w := watch{busy: true} // starting is work
	w.due(read())
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			if w.due(read()) {
				Release()
				w.allocated = read().allocated
			}
		}
	}
}

// Release collects garbage and returns free memory to the system.
func Release() {
	runtime.GC() // what is in a sync.Pool is freed by the second collection, which FreeOSMemory does
	debug.FreeOSMemory()
}

// usage describes the heap, in bytes.
type usage struct {
	allocated uint64 // since the start
	wasted    uint64 // free or garbage, but not returned to the system
}

func read() usage {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(s)
	u := usage{s[0].Value.Uint64(), s[1].Value.Uint64()}
	if objects, live := s[2].Value.Uint64(), s[3].Value.Uint64(); objects > live {
		u.wasted += objects - live
	}
	return u
}

// watch decides when memory is returned.
type watch struct {
	allocated uint64 // at the last look
	busy      bool   // the process worked since memory was returned
}

// due reports whether memory should be returned now. It is called once in each interval.
func (w *watch) due(u usage) bool {
	working := u.allocated-w.allocated > quiet
	w.allocated = u.allocated
	if working {
		w.busy = true
		return false
	}
	if !w.busy && u.wasted < worthwhile {
		return false
	}
	w.busy = false
	return true
}
