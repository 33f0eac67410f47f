package meter

import (
	"context"
	"testing"
)

// spin counts its parameter down to zero.
var spin = fn{name: "spin", params: []byte{typeI64}, results: []byte{typeI64}, code: []byte{
	opLoop, 0x40, 0x20, 0, 0x42, 1, 0x7d, 0x22, 0, 0x42, 0, 0x52, opBrIf, 0, opEnd, 0x20, 0,
}}

func TestGaugeCountsAndEndsRuns(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	out, _ := instrument(t, mod{funcs: []fn{spin}}.build(), Options{})
	m, g := start(t, out)
	f := m.ExportedFunction("spin")
	if _, err := f.Call(ctx, 1); err == nil {
		t.Fatal("the module ran before the gauge was armed")
	}
	var last uint64
	for _, n := range []uint64{1, 2, 10, 1000, 12345} {
		g.Arm(1 << 40)
		if _, err := f.Call(ctx, n); err != nil {
			t.Fatal(err)
		}
		used := g.Used()
		if want := 7*n + 1; used < want || used > want+8 || used <= last {
			t.Errorf("%d rounds used %d units, expected about %d", n, used, want)
		}
		last = used
	}
	g.Arm(5000)
	if _, err := f.Call(ctx, 1_000_000); err == nil || !g.Exhausted() || g.Used() != 5000 || g.Stopped() {
		t.Errorf("budget: err %v, exhausted %v, used %d", err, g.Exhausted(), g.Used())
	}
	if _, err := f.Call(ctx, 1); err == nil {
		t.Error("a second call went on without a budget")
	}
	g.Arm(1 << 40)
	g.Stop()
	if _, err := f.Call(ctx, 1); err == nil || g.Exhausted() || !g.Stopped() {
		t.Errorf("stop before the run: err %v", err)
	}
	g.Arm(1 << 60)
	done := make(chan error, 1)
	go func() {
		_, err := f.Call(ctx, 1<<62)
		done <- err
	}()
	for g.Used() < 1_000_000 {
	}
	g.Stop()
	if err := <-done; err == nil || g.Exhausted() {
		t.Errorf("stop during the run: err %v", err)
	}
	g.Arm(1 << 40)
	if r, err := f.Call(ctx, 3); err != nil || r[0] != 0 {
		t.Errorf("after a stop: %v, %v", r, err)
	}
}

func TestQuickjsStaysValid(t *testing.T) {
	t.Parallel()
	wasm := quickjs(t)
	if err := Validate(wasm, anyImport(ModuleLimits{})); err != nil {
		t.Fatal(err)
	}
	if err := Validate(wasm, ModuleLimits{}); err == nil {
		t.Error("imports of env were allowed")
	}
	out, _ := instrument(t, wasm, Options{})
	if err := typeCheck(out); err != nil {
		t.Fatal(err)
	}
	stripped, err := StripData(out, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := typeCheck(stripped); err != nil {
		t.Fatal(err)
	}
}
