package meter

import (
	"context"
	"os"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// fn is a function of a test module.
type fn struct {
	name            string // export, or empty
	params, results []byte
	locals          []byte // declarations as in the body, count first; nil: none
	code            []byte // without the final end
}

// mod is a simplified description of a test module.
type mod struct {
	imports []string // names of functions () -> () of module "env"
	funcs   []fn
	table   []byte // limits, nil: none
	memory  []byte // limits, nil: none
	globals [][]byte
	exports []exportEntry // in addition to those of funcs
	start   int           // function index + 1
	elems   [][]byte
	count   bool
	datas   [][]byte
	custom  []byte // payload of a custom section at the end
}

func vec(items ...[]byte) []byte {
	b := appendU(nil, uint64(len(items)))
	for _, i := range items {
		b = append(b, i...)
	}
	return b
}

func bytesVec(b []byte) []byte { return append(appendU(nil, uint64(len(b))), b...) }

func (m mod) build() []byte {
	w := &rewriter{out: []byte{0, 'a', 's', 'm', 1, 0, 0, 0}}
	types := [][]byte{{0x60, 0, 0}}
	var imports, decl, exports, bodies [][]byte
	for _, n := range m.imports {
		imports = append(imports, append(append(append(bytesVec([]byte("env")), bytesVec([]byte(n))...), kindFunc), 0))
	}
	export := func(name string, kind byte, i int) {
		exports = append(exports, appendU(append(bytesVec([]byte(name)), kind), uint64(i)))
	}
	for i, f := range m.funcs {
		decl = append(decl, appendU(nil, uint64(len(types))))
		types = append(types, append(append([]byte{0x60}, bytesVec(f.params)...), bytesVec(f.results)...))
		if f.name != "" {
			export(f.name, kindFunc, len(m.imports)+i)
		}
		locals := f.locals
		if locals == nil {
			locals = []byte{0}
		}
		body := append(append(append([]byte{}, locals...), f.code...), opEnd)
		bodies = append(bodies, bytesVec(body))
	}
	for _, x := range m.exports {
		export(x.name, x.kind, int(x.index))
	}
	put := func(id byte, n int, b []byte) {
		if n > 0 {
			w.section(id, b)
		}
	}
	put(secType, 1, vec(types...))
	put(secImport, len(imports), vec(imports...))
	put(secFunction, len(decl), vec(decl...))
	put(secTable, len(m.table), vec(append([]byte{typeFuncref}, m.table...)))
	put(secMemory, len(m.memory), vec(m.memory))
	put(secGlobal, len(m.globals), vec(m.globals...))
	put(secExport, len(exports), vec(exports...))
	if m.start > 0 {
		w.section(secStart, appendU(nil, uint64(m.start-1)))
	}
	put(secElement, len(m.elems), vec(m.elems...))
	if m.count {
		w.section(secDataCount, appendU(nil, uint64(len(m.datas))))
	}
	put(secCode, len(bodies), vec(bodies...))
	put(secData, len(m.datas), vec(m.datas...))
	put(secCustom, len(m.custom), m.custom)
	return w.out
}

// start instantiates an instrumented module without arming its gauge.
func start(t testing.TB, wasm []byte) (api.Module, *Gauge) {
	t.Helper()
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(Features))
	t.Cleanup(func() { _ = rt.Close(ctx) })
	env := rt.NewHostModuleBuilder("env")
	env.NewFunctionBuilder().WithFunc(func() {}).Export("nothing")
	if _, err := env.Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := rt.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGauge(m)
	if err != nil {
		t.Fatal(err)
	}
	return m, g
}

// instrument instruments with a slice of 1,000 units, unless o sets another.
func instrument(t testing.TB, wasm []byte, o Options) ([]byte, Report) {
	t.Helper()
	if o.Slice == 0 {
		o.Slice = 1000
	}
	out, rep, err := Instrument(wasm, o)
	if err != nil {
		t.Fatal(err)
	}
	return out, rep
}

// quickjs returns the engine's module from npm, which make engines installs.
func quickjs(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("../../../build/engines/node_modules/quickjs-wasi/quickjs.wasm")
	if err != nil {
		t.Skip("quickjs.wasm is missing, run make engines")
	}
	return b
}

func anyImport(l ModuleLimits) ModuleLimits {
	l.Imports = func(string, string) bool { return true }
	return l
}
