package meter

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
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

// BenchmarkStop measures the time from Stop to the end of the call, for guests that only loop, in
// the worst ways for the meter.
func BenchmarkStop(b *testing.B) {
	wasm := quickjs(b)
	metered, _, err := Instrument(wasm, Options{})
	if err != nil {
		b.Fatal(err)
	}
	js := newGuest(b, metered, wazero.NewRuntimeConfigCompiler())
	ends := []struct {
		name  string
		gauge *Gauge
		run   func() error
	}{{"script", js.gauge, func() error { _, err := js.eval(b, "while(1){}"); return err }}}
	for name, m := range map[string]mod{
		"loop":        {funcs: []fn{{name: "f", code: []byte{opLoop, 0x40, opBr, 0, opEnd}}}},
		"hostcalls":   {imports: []string{"nothing"}, funcs: []fn{{name: "f", code: []byte{opLoop, 0x40, opCall, 0, opBr, 0, opEnd}}}},
		"division":    {funcs: []fn{{name: "f", code: append(append([]byte{opLoop, 0x40}, bytes.Repeat([]byte{0x42, 0x7f, 0x42, 3, 0x80, 0x1a}, 100_000)...), opBr, 0, opEnd)}}},
		"memory.fill": {memory: appendU([]byte{0}, 1600), funcs: []fn{{name: "f", code: []byte{opLoop, 0x40, 0x41, 0, 0x41, 1, 0x41, 0x80, 0x80, 0x80, 0x32, opPrefixMisc, miscMemoryFill, 0, opBr, 0, opEnd}}}},
	} {
		out, _, err := Instrument(m.build(), Options{})
		if err != nil {
			b.Fatal(err)
		}
		inst, g := start(b, out)
		ends = append(ends, struct {
			name  string
			gauge *Gauge
			run   func() error
		}{name, g, func() error { _, err := inst.ExportedFunction("f").Call(context.Background()); return err }})
	}
	for _, e := range ends {
		var took []time.Duration
		for range 60 {
			e.gauge.Arm(1 << 62)
			done := make(chan time.Time, 1)
			go func() {
				if e.run() == nil {
					b.Error("ended by itself")
				}
				done <- time.Now()
			}()
			for e.gauge.Used() == 0 {
				time.Sleep(time.Millisecond)
			}
			begin := time.Now()
			e.gauge.Stop()
			took = append(took, (<-done).Sub(begin))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[30])/1e6, e.name+"-p50-ms")
		b.ReportMetric(float64(took[59])/1e6, e.name+"-max-ms")
	}
}
