package memory

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/memory/importer/importertest"
	"helix/backend/storage"
)

// TestImportAtScale imports HELIX_IMPORT_MB megabytes (HELIX_LONG: 1,000) and logs the speed, the memory
// and how long another write had to wait. Its limits are those of the specification, for an idle machine.
func TestImportAtScale(t *testing.T) {
	mb, _ := strconv.Atoi(os.Getenv("HELIX_IMPORT_MB"))
	if mb == 0 && os.Getenv("HELIX_LONG") != "" {
		mb = 1000
	}
	if mb == 0 {
		t.Skip("long: set HELIX_LONG or HELIX_IMPORT_MB")
	}
	b := newBundle(t, Options{})
	path, wrote := export(t, importertest.Options{Bytes: int64(mb) << 20})
	runtime.GC()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var waits []time.Duration
	var peak uint64
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			start := time.Now()
			_ = b.db.Write(b.ctx, func(*storage.Tx) error { return nil })
			waits = append(waits, time.Since(start))
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
		}
	})
	start, busy := time.Now(), processorTime()
	st := b.imported(t, ImportParams{Path: path})
	took := time.Since(start)
	busy = processorTime() - busy
	close(stop)
	wg.Wait()
	n := int64(wrote.Turns)
	wantCounts(t, st, "completed", n, n, 0, 0, 0)
	slices.Sort(waits)
	wait := func(part float64) time.Duration { return waits[int(part*float64(len(waits)-1))] }
	t.Logf("%d MB, %d turns: %.0f turns/s, heap %d MB, resident %s, wait of another write: half %v, 99 of 100 %v, longest %v", wrote.Bytes>>20, n, float64(n)/took.Seconds(), peak>>20, residentPeak(), wait(0.5), wait(0.99), wait(1))
	if busy > 0 {
		t.Logf("%.0f turns a second of processor time", float64(n)/busy.Seconds())
	}
	start = time.Now()
	wantCounts(t, b.imported(t, ImportParams{Path: path}), "completed", n, 0, 0, n, 0)
	t.Logf("again: %.0f turns/s", float64(n)/time.Since(start).Seconds())
}

// residentPeak returns the peak memory of this process, if the system reports it.
func residentPeak() string {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return fmt.Sprintf("%d MB", kb>>10)
		}
	}
	return "unknown"
}

// processorTime returns the processor time of this process, if the system reports it.
func processorTime() time.Duration {
	text, err := os.ReadFile("/proc/self/stat")
	_, rest, ok := strings.Cut(string(text), ") ") // the name may contain spaces
	fields := strings.Fields(rest)
	if err != nil || !ok || len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
