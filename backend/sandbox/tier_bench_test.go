package sandbox

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// settled waits until the spare children are ready.
func (c *children) settled() {
	c.mu.Lock()
	list := slices.Clone(c.spares)
	c.mu.Unlock()
	for _, s := range list {
		<-s.done
	}
}

// BenchmarkTier1 compares a run in a child with one in process and with starting /bin/true, with a
// spare child and without.
func BenchmarkTier1(b *testing.B) {
	p, m := compile(b, `return 42`), compileWASM(b, fromC(b, "json"))
	run := func(b *testing.B, what Runnable, tier string) {
		if _, err := shared.Execute(context.Background(), what, Call{Tier: tier}); err != nil {
			b.Fatal(err)
		}
	}
	ready := func() { shared.children.settled() }
	none := func() { shared.children.settled(); shared.children.trim(0) }
	modes := []struct {
		name    string
		prepare func()
		do      func(b *testing.B)
	}{
		{"true", func() {}, func(b *testing.B) { _ = exec.Command("/bin/true").Run() }},
		{"t0", func() {}, func(b *testing.B) { run(b, p, tier0) }},
		{"spare", ready, func(b *testing.B) { run(b, p, tier1) }},
		{"cold", none, func(b *testing.B) { run(b, p, tier1) }},
		{"burst", func() {}, func(b *testing.B) { run(b, p, tier1) }},
		{"module/t0", func() {}, func(b *testing.B) { run(b, m, tier0) }},
		{"module/spare", ready, func(b *testing.B) { run(b, m, tier1) }},
		{"module/cold", none, func(b *testing.B) { run(b, m, tier1) }},
	}
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				m.prepare()
				b.StartTimer()
				start := time.Now()
				m.do(b)
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[0].Microseconds())/1e3, "min-ms")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "p50-ms")
		})
	}
}
