package sandbox

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"helix/backend/fault"
)

// BenchRow is one result of the short benchmark.
type BenchRow struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Note  string  `json:"note"` // what it means, for people
}

// BenchResult lists the results, and what could not be measured here.
type BenchResult struct {
	Rows    []BenchRow `json:"rows"`
	Skipped []string   `json:"skipped"`
}

// Bench measures for a few seconds how fast code starts, runs and is stopped on this computer. The
// results are meant for people; they are compared with other engines by make bench-
func (e *Engine) Bench(ctx context.Context, _ struct{}) (BenchResult, error) {
	if st := e.Status(); !st.Ready {
		return BenchResult{}, failf(ClassUnavailable, "The sandbox is not ready: %s", st.Reason)
	}
	m := &bencher{ctx: ctx, box: e, out: BenchResult{Rows: []BenchRow{}, Skipped: []string{}}}
	m.hello()
	m.compute()
	m.stop()
	m.module()
	m.child()
	return m.out, m.err
}

// bencher takes measurements until one fails, then skips the rest.
type bencher struct {
	ctx context.Context
	box *Engine
	out BenchResult
	err error
}

func (m *bencher) add(name string, d time.Duration, note string) {
	m.out.Rows = append(m.out.Rows, BenchRow{name, float64(d.Nanoseconds()) / 1e3, "µs", note})
}

func (m *bencher) js(text string) *Program {
	p, err := m.box.CompileJS(m.ctx, Source{Name: "bench.js", Text: text})
	m.fail(err)
	return p
}

func (m *bencher) fail(err error) {
	if m.err == nil && err != nil {
		m.err = err
	}
}

// benchTime is the longest time for one measurement; on a slow computer it is based on fewer runs.
const benchTime = time.Second

// times runs what n times, or as often as benchTime allows, and returns the durations in ascending
// order.
func (m *bencher) times(n int, what Runnable, c Call) []time.Duration {
	out := make([]time.Duration, 0, n)
	until := time.Now().Add(benchTime)
	for range n {
		if m.err != nil {
			return nil
		}
		begun := time.Now()
		if begun.After(until) && len(out) > 0 {
			break
		}
		_, err := m.box.Execute(m.ctx, what, c)
		m.fail(err)
		out = append(out, time.Since(begun))
	}
	slices.Sort(out)
	return out
}

func at(d []time.Duration, part float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return d[min(len(d)-1, int(float64(len(d))*part))]
}

func (m *bencher) hello() {
	p := m.js("export default (p) => p.n + 1")
	if m.err != nil {
		return
	}
	call := Call{Input: json.RawMessage(`{"n":41}`), Trust: TrustOwn}
	m.times(20, p, call) // warm-up
	d := m.times(500, p, call)
	m.add("call.p50", at(d, 0.5), "a fresh world, one small call and its result")
	m.add("call.p99", at(d, 0.99), "the same, one call in a hundred takes longer")
}

func (m *bencher) compute() {
	p := m.js("export default () => { let s = 0; for (let i = 0; i < 1e6; i++) s = (s * 31 + i) | 0; return s }")
	if m.err != nil {
		return
	}
	m.add("loop.1m", at(m.times(3, p, Call{Trust: TrustOwn}), 0), "a million rounds of a loop in JavaScript")
}

// stop measures how long an endless loop runs beyond its limit.
func (m *bencher) stop() {
	p := m.js("export default () => { for (;;); }")
	if m.err != nil {
		return
	}
	const limit = 50 * time.Millisecond
	var over []time.Duration
	for range 5 {
		begun := time.Now()
		_, err := m.box.Execute(m.ctx, p, Call{Trust: TrustOwn, Limits: Limits{Wall: limit}})
		if d := time.Since(begun); err != nil && m.ctx.Err() == nil {
			over = append(over, max(0, d-limit))
		}
	}
	slices.Sort(over)
	m.add("stop.p50", at(over, 0.5), "an endless loop ends this long after its limit")
}

// emptyModule exports memory and an execute() that returns at once.
const emptyModule = "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x03\x01\x00\x01" +
	"\x07\x14\x02\x06memory\x02\x00\x07execute\x00\x00\x0a\x04\x01\x02\x00\x0b"

func (m *bencher) module() {
	if m.err != nil {
		return
	}
	w, err := m.box.CompileWASM(m.ctx, []byte(emptyModule))
	if err != nil {
		m.out.Skipped = append(m.out.Skipped, "wasm: "+fault.As(err).Message)
		return
	}
	call := Call{Trust: TrustOwn}
	once := func() time.Duration {
		begun := time.Now()
		_, _ = m.box.Execute(m.ctx, w, call) // fails because it writes no output, but measures the start
		return time.Since(begun)
	}
	for range 20 {
		once()
	}
	d := make([]time.Duration, 0, 500)
	for range 500 {
		d = append(d, once())
	}
	slices.Sort(d)
	m.add("wasm.call.p50", at(d, 0.5), "a fresh instance of an empty module and one call")
}

func (m *bencher) child() {
	if m.err != nil {
		return
	}
	for _, t := range m.box.Status().Tiers {
		if t.Tier == "t1" && !t.Available {
			m.out.Skipped = append(m.out.Skipped, "t1: the separate process is not available here")
			return
		}
	}
	p := m.js("export default () => 1")
	call := Call{Trust: TrustForeign, Tier: "t1"}
	m.times(1, p, call)
	if m.err != nil {
		m.out.Skipped = append(m.out.Skipped, "t1: "+fault.As(m.err).Message)
		m.err = nil
		return
	}
	m.add("t1.call.p50", at(m.times(11, p, call), 0.5), "the same small call in a separate, locked process")
}
