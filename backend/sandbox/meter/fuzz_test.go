package meter

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// fuzzBudget is the budget of a fuzzed module.
const fuzzBudget = 2_000_000

// runner instantiates modules whose only import is env.nothing.
type runner struct{ rt wazero.Runtime }

// newRunner enables the cross-check, so that no loop outlives its context.
func newRunner(t testing.TB) runner { return newRunnerOn(t, wazero.NewRuntimeConfig()) }

func newRunnerOn(t testing.TB, c wazero.RuntimeConfig) runner {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, c.WithCoreFeatures(Features).WithCloseOnContextDone(true).WithMemoryLimitPages(64))
	t.Cleanup(func() { _ = rt.Close(ctx) })
	if _, err := rt.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func() {}).Export("nothing").Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	return runner{rt}
}

func (r runner) load(wasm []byte) (api.Module, error) {
	return r.rt.InstantiateWithConfig(context.Background(), wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions())
}

// state returns the content of a module's memory and globals.
func state(m api.Module) string {
	var b bytes.Buffer
	for _, n := range []string{"steps", "sum"} {
		if g := m.ExportedGlobal(n); g != nil {
			fmt.Fprintf(&b, "%s %d ", n, g.Get())
		}
	}
	if mem := m.Memory(); hasMemory(m) {
		all, _ := mem.Read(0, mem.Size())
		h := uint64(14695981039346656037)
		for _, c := range all {
			h = (h ^ uint64(c)) * 1099511628211
		}
		fmt.Fprintf(&b, "memory %d %x", mem.Size(), h)
	}
	return b.String()
}

// hasMemory handles that wazero returns a typed nil pointer for a module without memory.
func hasMemory(m api.Module) bool { return !reflect.ValueOf(m.Memory()).IsNil() }

// sameGenerated runs a generated module unchanged, instrumented and audited. The audited one is
// large, so r2 should compile fast.
func sameGenerated(t *testing.T, r, r2 runner, wasm []byte) {
	if err := Validate(wasm, anyImport(ModuleLimits{})); err != nil {
		t.Fatalf("the generated module is not valid: %v\n%x", err, wasm)
	}
	o := Options{Slice: 1000, CountStack: len(wasm)%2 == 0, BulkSlice: uint32(len(wasm)%40 + 1)}
	out, _, err := Instrument(wasm, o)
	if err != nil {
		t.Fatal(err)
	}
	again, _, _ := Instrument(wasm, o)
	if !bytes.Equal(out, again) {
		t.Fatal("two runs of Instrument differ")
	}
	var mods [3]api.Module
	for i, w := range [][]byte{wasm, out, audit(t, wasm)} {
		if i == 2 {
			r = r2
		}
		if mods[i], err = r.load(w); err != nil {
			t.Fatalf("module %d: %v\n%x", i, err, wasm)
		}
		defer mods[i].Close(context.Background())
	}
	gauge, err := NewGauge(mods[1])
	if err != nil {
		t.Fatal(err)
	}
	for f := range genFuncMax {
		name := fmt.Sprintf("f%d", f)
		if mods[0].ExportedFunction(name) == nil {
			continue
		}
		for _, arg := range []uint64{0, 3, 1 << 31} {
			var res [3]string
			for i, m := range mods {
				m.ExportedGlobal("steps").(api.MutableGlobal).Set(60)
				if i == 1 {
					gauge.Arm(1 << 40)
				}
				if i == 2 {
					auditReset(m)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				v, err := m.ExportedFunction(name).Call(ctx, arg)
				cancel()
				res[i] = fmt.Sprint(v, trapText(err), state(m))
			}
			if res[0] != res[1] || res[0] != res[2] {
				t.Fatalf("%s(%d): original %s\nmetered %s\naudited %s\n%x", name, arg, res[0], res[1], res[2], wasm)
			}
			if gap := auditVerify(t, mods[2], name); gap > 2500 {
				t.Errorf("%d units between two checks", gap)
			}
			charged := mods[2].ExportedGlobal(auditNames[1]).Get()
			// Bulk operations also charge their length.
			if used := gauge.Used(); used < charged || used > charged+charged*2+1024 {
				t.Errorf("used %d, charged %d", used, charged)
			}
			if t.Failed() {
				t.Fatalf("%x", wasm)
			}
		}
	}
}

// sameBytes runs any valid module unchanged and instrumented.
func sameBytes(t *testing.T, r runner, wasm []byte) {
	if len(wasm) > 1<<16 || Validate(wasm, anyImport(ModuleLimits{MemoryPages: 32, TableEntries: 10_000, Locals: 2000})) != nil {
		return
	}
	out, rep, err := Instrument(wasm, Options{Slice: 1000, CountStack: true, BulkSlice: 1000})
	if err != nil {
		if err.(*Error).Feature == featReserved {
			return
		}
		t.Fatalf("valid, but: %v\n%x", err, wasm)
	}
	if err := typeCheck(out); err != nil {
		t.Fatalf("the output is not valid: %v\n%x", err, wasm)
	}
	if _, err := inspect(wasm); err != nil {
		t.Fatal(err)
	}
	if stripped, err := StripData(out, 33); err == nil {
		if err := typeCheck(stripped); err != nil {
			t.Fatalf("stripped: %v\n%x", err, wasm)
		}
	}
	if rep.Start || len(rep.Imports) > 0 {
		return
	}
	plain, err := r.load(wasm)
	metered, err2 := r.load(out)
	if (err == nil) != (err2 == nil) {
		t.Fatalf("original %v, metered %v\n%x", err, err2, wasm)
	}
	if err != nil {
		return
	}
	ctx := context.Background()
	defer plain.Close(ctx)
	defer metered.Close(ctx)
	gauge, err := NewGauge(metered)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range rep.Exports {
		if x.Signature == nil {
			continue
		}
		f := plain.ExportedFunction(x.Name)
		args := make([]uint64, words(x.Signature.Params))
		gauge.Arm(fuzzBudget)
		b, err2 := metered.ExportedFunction(x.Name).Call(ctx, args...)
		if gauge.Exhausted() {
			return // the original may never end
		}
		a, err1 := f.Call(ctx, args...)
		if trapText(err1) != trapText(err2) {
			if stackEnd(err1) || stackEnd(err2) {
				return // frame sizes differ
			}
			t.Fatalf("%s: original %v, metered %v\n%x", x.Name, err1, err2, wasm)
		}
		if len(a) != len(b) {
			t.Fatalf("%s: %v, %v", x.Name, a, b)
		}
		for i := range a {
			if ty := x.Signature.Results; len(ty) == len(a) && a[i] != b[i] && ty[i] != "funcref" && !bothNaN(ty[i], a[i], b[i]) {
				t.Fatalf("%s: original %#x, metered %#x\n%x", x.Name, a, b, wasm)
			}
		}
		// A module without memory gets the meter's.
		if s1, s2 := state(plain), state(metered); s1 != s2 && hasMemory(plain) {
			t.Fatalf("%s: original %s, metered %s\n%x", x.Name, s1, s2, wasm)
		}
	}
}

func stackEnd(err error) bool {
	return err != nil && bytes.Contains([]byte(err.Error()), []byte("stack overflow"))
}

// TestGeneratedModulesBehaveTheSame does the same as FuzzInstrument, with modules from a fixed
// sequence.
func TestGeneratedModulesBehaveTheSame(t *testing.T) {
	t.Parallel()
	r, r2 := newRunner(t), newRunnerOn(t, wazero.NewRuntimeConfigInterpreter())
	for i := range 150 {
		rnd := rand.New(rand.NewPCG(7, uint64(i)))
		data := make([]byte, 50+rnd.IntN(1500))
		for j := 0; j+8 <= len(data); j += 8 {
			binary.LittleEndian.PutUint64(data[j:], rnd.Uint64())
		}
		sameGenerated(t, r, r2, generate(data))
	}
}

// FuzzInstrument generates a valid module from any bytes, and also uses the bytes as a module; the
// output of Instrument must be valid and behave like the original.
func FuzzInstrument(f *testing.F) {
	for _, w := range corpus() {
		f.Add(w)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		b := make([]byte, 300)
		for j := range b {
			b[j] = byte(rnd.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newRunner(t)
		if len(data) > 4 && bytes.Equal(data[:4], magic) {
			sameBytes(t, r, data)
			return
		}
		if len(data) > 2048 {
			return
		}
		sameGenerated(t, r, newRunnerOn(t, wazero.NewRuntimeConfigInterpreter()), generate(data))
	})
}

// FuzzValidate checks that any bytes cause no panic, and that an accepted module can be
// instrumented.
func FuzzValidate(f *testing.F) {
	for _, w := range corpus() {
		f.Add(w)
		f.Add(w[:len(w)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := anyImport(ModuleLimits{MemoryPages: 32, TableEntries: 10_000, Locals: 2000})
		m, err := parse(data, l, true)
		if err == nil {
			err = m.scanAll()
		}
		if err != nil {
			if err.Message == "" || err.Feature == "" || err.Offset < 0 || err.Offset > len(data) {
				t.Errorf("error without a place or reason: %+v", err)
			}
			return
		}
		if typeCheck(data) != nil {
			// It is invalid, but must not make the rewriter panic.
			_, _, _ = Instrument(data, Options{})
			_, _ = StripData(data, 1)
			return
		}
		out, _, e := Instrument(data, Options{})
		if e != nil {
			if e.(*Error).Feature == featReserved {
				return
			}
			t.Fatal(e)
		}
		if err := typeCheck(out); err != nil {
			t.Fatalf("the output is not valid: %v\n%x", err, data)
		}
	})
}

// corpus returns valid modules as seeds.
func corpus() [][]byte {
	var c [][]byte
	c = append(c, mod{}.build(), mod{funcs: []fn{spin}}.build(), mod{funcs: []fn{{}}, start: 1, memory: []byte{0, 1}}.build())
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 6 {
		b := make([]byte, 200)
		for j := range b {
			b[j] = byte(rnd.Uint32())
		}
		c = append(c, generate(b))
	}
	return c
}

// words returns the number of wazero API values for these types.
func words(types []string) int {
	n := len(types)
	for _, t := range types {
		if t == "v128" {
			n++
		}
	}
	return n
}
