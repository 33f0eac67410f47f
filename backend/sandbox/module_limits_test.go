package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/fault"
	"helix/backend/testkit"
)

// spin never ends.
const spin = `(loop $l (br $l))`

func TestModuleLimits(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		parts, body string
		limits      Limits
		class       Class
		limit       string // in LimitDetail
	}{
		"wall":                 {``, spin, Limits{Wall: 60 * time.Millisecond}, ClassTimeout, "wallMs"},
		"cpu":                  {``, spin, Limits{CPU: 60 * time.Millisecond, Wall: time.Minute}, ClassCPU, "cpuMs"},
		"fuel":                 {``, spin, Limits{Fuel: 1_000_000, Wall: time.Minute}, ClassCPU, "fuel"},
		"fuel in _initialize":  {`(func (export "_initialize") ` + spin + `)`, ``, Limits{Fuel: 1_000_000}, ClassCPU, "fuel"},
		"fuel in start":        {`(func $s ` + spin + `) (start $s)`, ``, Limits{Fuel: 1_000_000}, ClassCPU, "fuel"},
		"wall in start":        {`(func $s ` + spin + `) (start $s)`, ``, Limits{Wall: 60 * time.Millisecond}, ClassTimeout, "wallMs"},
		"recursion with fuel":  {`(func $f (call $f) (call $f))`, `(call $f)`, Limits{Fuel: 100_000}, ClassCPU, "fuel"},
		"bulk":                 {``, `(loop $l (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536)) (br $l))`, Limits{CPU: 60 * time.Millisecond}, ClassCPU, "cpuMs"},
		"host calls in a loop": {``, `(loop $l (drop (call $read (i32.const 0) (i32.const 0))) (br $l))`, Limits{Wall: 60 * time.Millisecond}, ClassTimeout, "wallMs"},
		"random for ever":      {``, `(loop $l (drop (call $random_get (i32.const 0) (i32.const 65536))) (br $l))`, Limits{CPU: 60 * time.Millisecond}, ClassCPU, "cpuMs"},
		"reading for ever": {``, `(i32.store (i32.const 4) (i32.const 60000)) (loop $l (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8))) (br $l))`,
			Limits{CPU: 60 * time.Millisecond}, ClassCPU, "cpuMs"},
		"writing errors for ever": {``, `(loop $l (call $write (i32.const 2) (i32.const 0) (i32.const 60000)) (br $l))`, Limits{CPU: 60 * time.Millisecond}, ClassCPU, "cpuMs"},
		"growth that it cannot do without": {``, `(if (i32.eq (memory.grow (i32.const 2000)) (i32.const -1)) (then (unreachable)))`,
			Limits{MemoryBytes: 64 << 20}, ClassMemory, "memoryBytes"},
		"growth and exit": {``, `(if (i32.eq (memory.grow (i32.const 2000)) (i32.const -1)) (then (call $proc_exit (i32.const 2))))`,
			Limits{MemoryBytes: 64 << 20}, ClassMemory, "memoryBytes"},
		"growth by -1": {``, `(if (i32.eq (memory.grow (i32.const -1)) (i32.const -1)) (then (unreachable)))`, Limits{}, ClassTrap, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wasm := textModule(t, c.parts, c.body)
			compileWASM(t, wasm)
			res, err := tryModule(t, wasm, Call{Limits: c.limits})
			if err == nil || err.Class != c.class {
				t.Fatalf("ends with %v, want %s", err, c.class)
			}
			if d, ok := err.Details.(LimitDetail); c.limit != "" && (!ok || d.Limit != c.limit || d.Max <= 0 || d.Limit != "memoryBytes" && d.Value < d.Max) {
				t.Errorf("details %+v", err.Details)
			}
			if res.Usage.Fuel == 0 && c.body == spin {
				t.Errorf("usage %+v", res.Usage)
			}
		})
	}
}

func TestTraps(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ parts, body, says string }{
		"unreachable":      {``, `(unreachable)`, "unreachable"},
		"load":             {``, `(drop (i32.load (i32.const 65536)))`, "out of bounds memory access"},
		"load with offset": {``, `(drop (i32.load offset=4294967295 (i32.const -1)))`, "out of bounds memory access"},
		"fill":             {``, `(memory.fill (i32.const 65535) (i32.const 0) (i32.const 2))`, "out of bounds memory access"},
		"division":         {``, `(drop (i32.div_u (i32.const 1) (i32.const 0)))`, "integer divide by zero"},
		"overflow":         {``, `(drop (i32.trunc_f32_s (f32.const 1e20)))`, "integer overflow"},
		"not a number":     {``, `(drop (i32.trunc_f32_s (f32.const nan)))`, "invalid conversion to integer"},
		"stack":            {`(func $f (param i64 i64 i64) (result i64) (i64.add (call $f (local.get 1) (local.get 2) (local.get 0)) (local.get 0)))`, `(drop (call $f (i64.const 1) (i64.const 2) (i64.const 3)))`, "stack overflow"},
		"null function":    {`(table 2 funcref) (type $t (func))`, `(call_indirect (type $t) (i32.const 1))`, "invalid table access"},
		"other signature":  {`(table funcref (elem $fd_write)) (type $t (func))`, `(call_indirect (type $t) (i32.const 0))`, "indirect call type mismatch"},
		"table access":     {`(table 2 funcref) (type $t (func))`, `(call_indirect (type $t) (i32.const 2))`, "invalid table access"},
		"in _initialize":   {`(func (export "_initialize") (unreachable))`, ``, "unreachable"},
		"in start":         {`(func $s (unreachable)) (start $s)`, ``, "unreachable"},
		"dropped segment":  {`(data $d "abc")`, `(data.drop $d) (memory.init $d (i32.const 0) (i32.const 0) (i32.const 1))`, "out of bounds memory access"},
		"active segment":   {`(data $d (i32.const 5) "abc")`, `(memory.init $d (i32.const 0) (i32.const 0) (i32.const 1))`, "out of bounds memory access"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wasm := textModule(t, c.parts, c.body+`(call $number (i32.const 1))`)
			err := wantModuleClass(t, wasm, Call{}, ClassTrap)
			if !strings.Contains(err.Message, c.says) || strings.Contains(err.Message, "wazero") {
				t.Errorf("message %q", err.Message)
			}
			if name == "unreachable" && !strings.Contains(err.Stack, "$") {
				t.Errorf("stack %q", err.Stack)
			}
		})
	}
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	// grown grows page by page and returns the number of pages at the end.
	grown := func(decl string) []byte {
		return fromText(t, strings.Replace(wasi, `(memory (export "memory") 1)`, `(memory (export "memory") `+decl+`)`, 1)+`
			(func (export "execute")
				(loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
				(call $number (memory.size))))`)
	}
	for _, c := range []struct {
		decl  string
		limit int64
		pages int64
	}{
		{"1", 64 << 20, 1024}, {"1", 128 << 20, 2048}, {"1", 256 << 20, 4096}, {"1", 0, 2048}, {"1", 1 << 40, 4096},
		{"1 10", 0, 10}, {"10 10", 0, 10}, {"1 65536", 64 << 20, 1024}, {"5", 5 << 16, 5}, {"1", 6<<16 - 1, 5},
	} {
		wasm := grown(c.decl)
		for range 2 { // on a new instance, and after another run
			res := runModule(t, wasm, Call{Limits: Limits{MemoryBytes: c.limit}})
			if want := fmt.Sprint(10000 + c.pages); string(res.Output) != want || res.Usage.PeakMemory != c.pages<<16 {
				t.Errorf("memory %s under %d: %s pages, peak %d", c.decl, c.limit, res.Output, res.Usage.PeakMemory)
			}
		}
	}
	e := wantModuleClass(t, grown("20"), Call{Limits: Limits{MemoryBytes: 1 << 20}}, ClassMemory)
	if !strings.Contains(e.Message, "1280 KiB") || !strings.Contains(e.Message, "1 MiB") {
		t.Errorf("message %q", e.Message)
	}
	// All pages at once, written to.
	fill := textModule(t, ``, `(drop (memory.grow (i32.const 1023))) (memory.fill (i32.const 0) (i32.const 7) (i32.const 67108864)) (call $number (i32.load8_u (i32.const 67108863)))`)
	if res := runModule(t, fill, Call{Limits: Limits{MemoryBytes: 64 << 20}}); string(res.Output) != "10007" || res.Usage.PeakMemory != 64<<20 {
		t.Errorf("%s, %+v", res.Output, res.Usage)
	}
}

func TestTableGrowth(t *testing.T) {
	t.Parallel()
	for decl, most := range map[string]int{"1 funcref": 1_000_000, "1 externref": 1_000_000, "10 20 funcref": 20} {
		wasm := textModule(t, `(table $t `+decl+`)`, `
			(loop $l (br_if $l (i32.ne (table.grow $t (ref.null `+strings.TrimSuffix(decl[strings.LastIndex(decl, " ")+1:], "ref")+`) (i32.const 1)) (i32.const -1))))
			(call $number (i32.div_u (table.size $t) (i32.const 1000)))
			(call $number (i32.rem_u (table.size $t) (i32.const 1000)))`)
		want := fmt.Sprintf("1%04d1%04d", most/1000, most%1000)
		if res := runModule(t, wasm, Call{}); string(res.Output) != want {
			t.Errorf("table %s: %s, want %s", decl, res.Output, want)
		}
	}
}

// TestInstanceIsResetBetweenRuns runs a module that leaves data wherever it can: in memory, globals and tables.
func TestInstanceIsResetBetweenRuns(t *testing.T) {
	t.Parallel()
	const state = `
		(global $a (mut i32) (i32.const 1)) (global $b (mut i64) (i64.const 2)) (global $c (mut f32) (f32.const 3)) (global $d (mut f64) (f64.const 4))
		(global $e (export "mine") (mut i32) (i32.const 5))
		(data (i32.const 30000) "first")`
	body := `
		(call $number (global.get $a)) (call $number (i32.wrap_i64 (global.get $b)))
		(call $number (i32.trunc_f32_s (global.get $c))) (call $number (i32.trunc_f64_s (global.get $d))) (call $number (global.get $e))
		(call $number (memory.size)) (call $number (i32.load8_u (i32.const 30000))) (call $number (i32.load8_u (i32.const 20000)))
		(call $number (i32.load8_u (i32.const 65535)))
		(if (i32.eq (memory.grow (i32.const 3)) (i32.const -1)) (then (unreachable)))
		(call $number (i32.load8_u (i32.const 65536))) (call $number (i32.load8_u (i32.const 262143)))
		(memory.fill (i32.const 0) (i32.const 255) (i32.const 262144))
		(global.set $a (i32.const 9)) (global.set $b (i64.const 9)) (global.set $c (f32.const 9)) (global.set $d (f64.const 9)) (global.set $e (i32.const 9))`
	want := "1000110002100031000410005" + "10001" + "10102" + "10000" + "10000" + "10000" + "10000"
	more := map[string]struct {
		parts, body string
		kept        bool
	}{
		"restored":      {``, ``, true},
		"large memory":  {`(data (i32.const 40000) "x")`, `(drop (memory.grow (i32.const 300))) (memory.fill (i32.const 0) (i32.const 255) (i32.const 19000000))`, true},
		"table":         {`(table $t 1 funcref) (elem declare func $out)`, `(if (i32.eqz (ref.is_null (table.get $t (i32.const 0)))) (then (unreachable))) (table.set $t (i32.const 0) (ref.func $out))`, false},
		"vector global": {`(global $v (mut v128) (v128.const i32x4 0 0 0 0))`, `(if (i32x4.extract_lane 1 (global.get $v)) (then (unreachable))) (global.set $v (v128.const i32x4 1 1 1 1))`, false},
		"ref global":    {`(global $r (mut externref) (ref.null extern)) (global $f (mut funcref) (ref.null func)) (elem declare func $out)`, `(if (i32.eqz (ref.is_null (global.get $f))) (then (unreachable))) (global.set $f (ref.func $out))`, false},
		"segment":       {`(data $p "zz")`, `(memory.init $p (i32.const 20000) (i32.const 0) (i32.const 2)) (data.drop $p)`, false},
		"exit":          {``, `(call $proc_exit (i32.const 0))`, true},
		"deep":          {`(func $deep (param i32) (result i32) (if (result i32) (local.get 0) (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get 0) (i32.const 1))))) (else (i32.const 0))))`, `(drop (call $deep (i32.const 40000)))`, true},
	}
	for name, c := range more {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wasm := textModule(t, state+c.parts, body+c.body)
			m := loaded(t, wasm)
			for i := range 30 {
				if got := string(runModule(t, wasm, Call{}).Output); got != want {
					t.Fatalf("run %d sees %s\nwant %s", i, got, want)
				}
			}
			if m.code.restorable != c.kept {
				t.Errorf("restorable: %v", m.code.restorable)
			}
			// Also after runs that were stopped, and concurrently.
			if _, err := tryModule(t, wasm, Call{Limits: Limits{Fuel: 300}}); err == nil {
				t.Error("300 units are enough?")
			}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					res, err := shared.Execute(context.Background(), m, Call{Tier: tier0})
					if err != nil || string(res.Output) != want {
						t.Errorf("beside others: %s, %v", res.Output, err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// TestMixedFates runs modules that end in every possible way concurrently: no result may be mixed
// up, and nothing may be left.
func TestMixedFates(t *testing.T) {
	t.Parallel()
	if !alone(t) {
		return
	}
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Workers: 4, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	compile := func(wasm []byte) *Module {
		m, err := e.CompileWASM(context.Background(), wasm)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	echo := compile(textModule(t, ``, `
		(i32.store (i32.const 0) (i32.const 100)) (i32.store (i32.const 4) (i32.const 1000))
		(drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
		(call $out (i32.const 100) (i32.load (i32.const 8)))`))
	fates := []struct {
		m      *Module
		class  Class
		limits Limits
	}{
		{echo, "", Limits{}},
		{compile(textModule(t, ``, `(unreachable)`)), ClassTrap, Limits{}},
		{compile(textModule(t, ``, spin)), ClassCPU, Limits{Fuel: 2_000_000}},
		{compile(textModule(t, `(global $g (mut i32) (i32.const 1))`, spin)), ClassTimeout, Limits{Wall: 3 * time.Millisecond, CPU: time.Minute}},
		{compile(textModule(t, ``, `(drop (memory.grow (i32.const 100))) (call $proc_exit (i32.const 1))`)), ClassTrap, Limits{}},
		{compile(textModule(t, ``, `(if (i32.eq (memory.grow (i32.const 5000)) (i32.const -1)) (then (unreachable)))`)), ClassMemory, Limits{}},
		{compile(textModule(t, ``, ``)), ClassOutput, Limits{}},
	}
	rounds := 40
	if long {
		rounds = 1500
	}
	run := func(rounds int) {
		var wg sync.WaitGroup
		for worker := range 10 {
			wg.Go(func() {
				for i := range rounds {
					f := fates[(worker+i)%len(fates)]
					in := fmt.Sprintf(`{"worker":%d,"run":%d}`, worker, i)
					res, err := e.Execute(context.Background(), f.m, Call{Input: json.RawMessage(in), Limits: f.limits, Tier: tier0})
					var got *Error
					switch {
					case f.class == "":
						if err != nil || string(res.Output) != in {
							t.Errorf("echo %s: %s, %v", in, res.Output, err)
						}
					case !errors.As(err, &got) || got.Class != f.class:
						t.Errorf("%v, want %s", err, f.class)
					}
				}
			})
		}
		wg.Wait()
	}
	run(rounds / 10)
	before := usedBy()
	run(rounds)
	after := testkit.Eventually(t, fmt.Sprintf("before %+v, after the runs", before), usedBy, func(after held) bool {
		return after.goroutines <= before.goroutines+5 && after.files <= before.files+3 && after.maps <= before.maps+60
	})
	t.Logf("before %+v, after %+v", before, after)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for c := range e.modules.codes {
		t.Errorf("%v stays", c)
	}
}

type held struct{ goroutines, files, maps int }

func usedBy() held {
	runtime.GC()
	h := held{goroutines: runtime.NumGoroutine()}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.files = len(fds)
	}
	if b, err := os.ReadFile("/proc/self/maps"); err == nil {
		h.maps = strings.Count(string(b), "\n")
	}
	return h
}

// TestFreed drops references to modules: their code and memories must be freed.
func TestFreed(t *testing.T) {
	t.Parallel()
	e, err := Open(context.Background(), Options{WorkerCommand: childCommand, Workers: 2, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i := range maxModules + 10 {
		m, err := e.CompileWASM(context.Background(), textModule(t, fmt.Sprintf(`(data (i32.const 1000) "%04d")`, i), `(call $out (i32.const 1000) (i32.const 1))`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Execute(context.Background(), m, Call{Tier: tier0}); err != nil {
			t.Fatal(err)
		}
	}
	alive := func() int {
		e.modules.mu.Lock()
		defer e.modules.mu.Unlock()
		return len(e.modules.codes)
	}
	testkit.Eventually(t, "modules that are alive", func() int { runtime.GC(); return alive() }, func(n int) bool { return n <= maxModules })
	e.modules.trim(0)
	e.modules.mu.Lock()
	defer e.modules.mu.Unlock()
	for c := range e.modules.codes {
		if c.counts() != 0 || len(c.memories) != 0 {
			t.Errorf("%d instances and %d memories wait", c.counts(), len(c.memories))
		}
	}
}

// TestProcessOutput checks that a guest's output does not reach the standard output or error of the
// process.
func TestProcessOutput(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = w, w
	res, runErr := tryModule(t, fromC(t, "command"), Call{Input: json.RawMessage(`{"exit":0}`)})
	os.Stdout, os.Stderr = stdout, stderr
	w.Close()
	b, err := io.ReadAll(r)
	if err != nil || len(b) != 0 || runErr != nil || len(res.Logs) == 0 {
		t.Errorf("the process wrote %q; %v, %v", b, err, runErr)
	}
}

func TestWazeroPanics(t *testing.T) {
	t.Parallel()
	wasm := textModule(t, ``, `(call $number (i32.const 1))`)
	m := loaded(t, wasm)
	in, err := m.code.take()
	if err != nil {
		t.Fatal(err)
	}
	good := in.calls
	in.calls = append(in.functions(m.code.calls), nil) // calling nil panics outside the guest
	m.code.mu.Lock()
	idle := m.code.idle
	m.code.idle = append(m.code.idle, in)
	m.code.mu.Unlock()
	_, _ = good, idle
	res, e := tryModule(t, wasm, Call{})
	if e == nil || e.Class != ClassTrap || !strings.Contains(e.Message, "internal error") || e.Err == nil || strings.Contains(e.Message, "goroutine") {
		t.Errorf("%v, output %s", e, res.Output)
	}
	if fault.As(e).Kind != fault.Internal {
		t.Errorf("kind %s", fault.As(e).Kind)
	}
	if got := string(runModule(t, wasm, Call{}).Output); got != "10001" {
		t.Errorf("the next run gives %s", got)
	}
}

// TestModuleCrosscheck runs modules with wazero's own way of stopping in addition to the meter's.
func TestModuleCrosscheck(t *testing.T) {
	testkit.SkipRaced(t, "many runs of the engine, one after the other")
	t.Parallel()
	e, err := Open(context.Background(), Options{Workers: 2, Crosscheck: true, CacheDir: sharedCache})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, c := range []struct {
		body   string
		class  Class
		limits Limits
	}{
		{`(call $number (i32.const 1))`, "", Limits{}},
		{`(call $number (i32.const 1)) (call $proc_exit (i32.const 0))`, "", Limits{}},
		{`(unreachable)`, ClassTrap, Limits{}},
		{spin, ClassTimeout, Limits{Wall: 30 * time.Millisecond}},
		{spin, ClassCPU, Limits{Fuel: 1_000_000}},
		{`(loop $l (call $out (i32.const 0) (i32.const 65536)) (br $l))`, ClassOutput, Limits{}},
	} {
		m, err := e.CompileWASM(context.Background(), textModule(t, ``, c.body))
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			_, err := e.Execute(context.Background(), m, Call{Limits: c.limits, Tier: tier0})
			var got *Error
			if c.class == "" && err != nil || c.class != "" && (!errors.As(err, &got) || got.Class != c.class) {
				t.Errorf("%s: %v, want %s", c.body, err, c.class)
			}
		}
	}
}
