package meter

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"golang.org/x/sys/unix"
)

// BenchmarkCost measures what metering costs on the JavaScript kernels: the least CPU time
// of the thread in seven runs, against the same module without the meter. Run it alone:
//
//	go test ./backend/sandbox/meter -run '^$' -bench Cost -benchtime 1x
func BenchmarkCost(b *testing.B) {
	wasm := quickjs(b)
	metered, rep, err := Instrument(wasm, Options{})
	if err != nil {
		b.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	plain := newGuest(b, wasm, wazero.NewRuntimeConfigCompiler())
	count := newGuest(b, metered, wazero.NewRuntimeConfigCompiler())
	fmt.Fprintf(os.Stderr, "checks %d, bytes %d to %d\n", rep.Checks, rep.SizeBefore, rep.SizeAfter)
	for range b.N {
		product := 1.0
		for _, k := range kernels {
			least := [2]time.Duration{math.MaxInt64, math.MaxInt64}
			var units uint64
			for range 7 {
				for i, g := range []*guest{plain, count} {
					if g.gauge != nil {
						g.gauge.Arm(1 << 62)
					}
					begin := threadCPU()
					if _, err := g.eval(b, k.source); err != nil {
						b.Fatal(err)
					}
					least[i] = min(least[i], threadCPU()-begin)
					if g.gauge != nil {
						units = g.gauge.Used()
					}
					g.must(b, "qjs_run_gc")
				}
			}
			ratio := float64(least[1]) / float64(least[0])
			product *= ratio
			b.ReportMetric(ratio, k.name)
			fmt.Fprintf(os.Stderr, "%-9s %8.2f ms %8.2f ms  %.3f  %5.2f units/ns\n", k.name,
				float64(least[0])/1e6, float64(least[1])/1e6, ratio, float64(units)/float64(least[1]))
		}
		b.ReportMetric(math.Pow(product, 1/float64(len(kernels))), "mean")
	}
}

func threadCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
