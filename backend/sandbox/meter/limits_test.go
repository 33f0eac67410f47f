package meter

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

// body returns a module with one function with this code, a memory, a table and a global.
func body(code ...byte) []byte {
	return mod{
		memory: []byte{0, 1}, table: []byte{0, 1}, globals: [][]byte{{typeI32, 1, 0x41, 0, opEnd}},
		funcs: []fn{{code: code}},
	}.build()
}

// raw returns a module of the given sections.
func raw(sections ...[]byte) []byte {
	b := []byte{0, 'a', 's', 'm', 1, 0, 0, 0}
	for _, s := range sections {
		b = append(b, s[0])
		b = append(b, bytesVec(s[1:])...)
	}
	return b
}

func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wasm    []byte
		feature string
	}{
		"nothing":            {nil, featMalformed},
		"text":               {[]byte("(module)"), featMalformed},
		"a version":          {[]byte{0, 'a', 's', 'm', 2, 0, 0, 0}, featMalformed},
		"component":          {[]byte{0, 'a', 's', 'm', 0x0d, 0, 1, 0}, featComponent},
		"cut off":            {body(0x01)[:30], featMalformed},
		"unknown section":    {raw([]byte{14}), featMalformed},
		"sections in a mess": {raw([]byte{3, 0}, []byte{1, 0}), featMalformed},
		"a section twice":    {raw([]byte{1, 0}, []byte{1, 0}), featMalformed},
		"bytes too many":     {raw([]byte{1, 0, 0}), featMalformed},
		"count too large":    {raw([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f}), featMalformed},
		"LEB128 of 6 bytes":  {raw([]byte{1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}), featMalformed},
		"LEB128 of 33 bits":  {raw([]byte{1, 0x80, 0x80, 0x80, 0x80, 0x10}), featMalformed},
		"i32 of 33 bits":     {body(0x41, 0x80, 0x80, 0x80, 0x80, 0x10, 0x1a), featMalformed},
		"i64 of 65 bits":     {body(0x42, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02, 0x1a), featMalformed},
		"no bodies":          {raw([]byte{1, 1, 0x60, 0, 0}, []byte{3, 1, 0}), featMalformed},
		"name not UTF-8":     {raw([]byte{0, 2, 0xff, 0xff}), featMalformed},
		"else without if":    {body(opBlock, 0x40, opElse, opEnd), featInvalid},
		"two else":           {body(0x41, 0, opIf, 0x40, opElse, opElse, opEnd), featInvalid},
		"end too many":       {body(opEnd), featMalformed},
		"end missing":        {body(opBlock, 0x40), featMalformed},
		"label":              {body(opBr, 1), featInvalid},
		"switch label":       {body(0x41, 0, opBrTable, 1, 0, 1), featInvalid},
		"switch too long":    {body(0x41, 0, opBrTable, 0xff, 0xff, 0xff, 0xff, 0x0f), featMalformed},
		"types do not fit":   {body(0x41, 0, 0x42, 0, 0x6a, 0x1a), featInvalid},
		"stack not empty":    {body(0x41, 0), featInvalid},
		"lane":               {body(0x41, 0, opPrefixSIMD, 15, opPrefixSIMD, 21, 16, 0x1a), featInvalid},
		"alignment":          {body(0x41, 0, 0x28, 5, 0, 0x1a), featInvalid},

		"atomics":             {body(0xfe, 3, 0), featThreads},
		"shared memory":       {raw([]byte{5, 1, 3, 0, 1}), featThreads},
		"shared global":       {raw([]byte{6, 1, typeI32, 2, 0x41, 0, opEnd}), featThreads},
		"memory64":            {raw([]byte{5, 1, 4, 0}), featMemory64},
		"table64":             {raw([]byte{4, 1, typeFuncref, 4, 0}), featMemory64},
		"page size":           {raw([]byte{5, 1, 8, 0, 0}), featPageSize},
		"two memories":        {raw([]byte{5, 2, 0, 0, 0, 0}), featMultiMem},
		"memory index":        {body(0x3f, 1, 0x1a), featMultiMem},
		"memory in a load":    {body(0x41, 0, 0x28, 0x42, 0, 0, 0x1a), featMultiMem},
		"tail call":           {body(0x12, 0), featTailCall},
		"indirect tail call":  {body(0x13, 0, 0), featTailCall},
		"try":                 {body(0x06, 0x40, opEnd), featExceptions},
		"throw":               {body(0x08, 0), featExceptions},
		"try_table":           {body(0x1f, 0x40, 0, opEnd), featExceptions},
		"tag section":         {raw([]byte{13, 0}), featExceptions},
		"exception reference": {raw([]byte{1, 1, 0x60, 1, 0x69, 0}), featExceptions},
		"struct type":         {raw([]byte{1, 1, 0x5f, 0}), featGC},
		"recursive types":     {raw([]byte{1, 1, 0x4e, 0}), featGC},
		"GC instruction":      {body(0xfb, 0), featGC},
		"anyref":              {raw([]byte{1, 1, 0x60, 1, 0x6e, 0}), featGC},
		"call_ref":            {body(0x14, 0), featFuncRefs},
		"ref.as_non_null":     {body(0xd4), featFuncRefs},
		"typed reference":     {raw([]byte{1, 1, 0x60, 1, 0x64, 0x70, 0}), featFuncRefs},
		"table initialiser":   {raw([]byte{4, 1, 0x40, 0, typeFuncref, 0, 0, 0xd0, typeFuncref, opEnd}), featFuncRefs},
		"relaxed SIMD":        {body(opPrefixSIMD, 0x80, 2), featRelaxed},
		"hole in SIMD":        {body(opPrefixSIMD, 0x9a, 1), featUnknown},
		"extended constant":   {raw([]byte{6, 1, typeI32, 0, 0x41, 0, 0x41, 0, 0x6a, opEnd}), featExtConst},
		"wide arithmetic":     {body(opPrefixMisc, 19), featWide},
		"unknown opcode":      {body(0x27), featUnknown},
		"unknown misc":        {body(opPrefixMisc, 18), featUnknown},
		"last opcode":         {body(0xff), featUnknown},

		"import":          {mod{imports: []string{"nothing"}}.build(), featImport},
		"memory imported": {raw(append(append([]byte{2, 1, 5}, "helix"...), 1, 'm', kindMemory, 0, 1)), featImport},
		"fuel name":       {mod{funcs: []fn{{name: FuelGlobal}}}.build(), featReserved},
		"budget name":     {mod{funcs: []fn{{name: BudgetGlobal}}}.build(), featReserved},
		"stop name":       {mod{funcs: []fn{{name: StopGlobal}}}.build(), featReserved},
		"start name":      {mod{funcs: []fn{{name: StartExport}}}.build(), featReserved},
		"name twice":      {mod{funcs: []fn{{name: "f"}, {name: "f"}}}.build(), featInvalid},
		"start signature": {mod{funcs: []fn{{params: []byte{typeI32}}}, start: 1}.build(), featInvalid},
	} {
		err := Validate(c.wasm, ModuleLimits{})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if e.Feature != c.feature || e.Message == "" || e.Offset < 0 || e.Offset > len(c.wasm) {
			t.Errorf("%s: %s, expected %s", name, e, c.feature)
		}
		if !strings.Contains(e.Error(), c.feature) {
			t.Errorf("%s: %q does not name the feature", name, e.Error())
		}
	}
}

// TestGuestsCannotReachWhatIsAdded uses modules that would be valid only with the meter's own
// globals, functions, type or memory. Each index is the first one after the module's own.
func TestGuestsCannotReachWhatIsAdded(t *testing.T) {
	t.Parallel()
	none := func(code ...byte) []byte { return mod{funcs: []fn{{code: code}}}.build() }
	for name, wasm := range map[string][]byte{
		"read fuel":         body(0x23, 1, 0x1a),
		"write fuel":        body(0x42, 0, 0x24, 1),
		"write budget":      body(0x42, 0, 0x24, 2),
		"write stop":        body(0x41, 0, 0x24, 3),
		"call the helper":   body(opCall, 1),
		"helper as a value": body(opRefFunc, 1, 0x1a),
		"helper in a table": mod{table: []byte{0, 1}, funcs: []fn{{}}, elems: [][]byte{{0, 0x41, 0, opEnd, 1, 1}}}.build(),
		"export fuel":       mod{funcs: []fn{{}}, exports: []exportEntry{{name: "g", kind: kindGlobal, index: 0}}}.build(),
		"export the helper": mod{funcs: []fn{{}}, exports: []exportEntry{{name: "g", kind: kindFunc, index: 1}}}.build(),
		"start the helper":  mod{funcs: []fn{{}}, start: 2}.build(),
		"helper's type":     body(opBlock, 2, opEnd),
		"the check's local": body(0x20, 0, 0x1a),
		"private memory":    none(0x41, 0, 0x28, 0, 0, 0x1a),
		"its size":          none(0x3f, 0, 0x1a),
		"its growth":        none(0x41, 0, opMemoryGrow, 0, 0x1a),
		"fill it":           none(0x41, 0, 0x41, 0, 0x41, 0, opPrefixMisc, miscMemoryFill, 0),
		"export it":         mod{funcs: []fn{{}}, exports: []exportEntry{{name: "m", kind: kindMemory}}}.build(),
		"data for it":       mod{datas: [][]byte{{0, 0x41, 0, opEnd, 0}}}.build(),
		"global from fuel":  mod{globals: [][]byte{{typeI64, 0, 0x23, 1, opEnd}}}.build(),
	} {
		if err := Validate(wasm, ModuleLimits{}); err == nil {
			t.Errorf("%s: Validate accepted it", name)
		}
		if _, _, err := Instrument(wasm, Options{}); err == nil {
			t.Errorf("%s: Instrument accepted it", name)
		}
	}
}

// TestModuleLimits tests for each limit a module at the limit, which passes, and one beyond it.
func TestModuleLimits(t *testing.T) {
	t.Parallel()
	funcs := func(n int) mod { return mod{funcs: make([]fn, n)} }
	globals := func(n int) mod {
		m := mod{}
		for range n {
			m.globals = append(m.globals, []byte{typeI32, 0, 0x41, 0, opEnd})
		}
		return m
	}
	locals := func(n int) mod {
		return mod{funcs: []fn{{locals: append(appendU([]byte{2}, uint64(n-1)), typeI32, 1, typeI64)}}}
	}
	elems := func(segments, entries int) mod {
		m := mod{table: []byte{0, 1}, funcs: []fn{{}}}
		for range segments {
			m.elems = append(m.elems, append([]byte{1, 0}, bytesVec(make([]byte, entries))...))
		}
		return m
	}
	datas := func(n int) mod {
		m := mod{memory: []byte{0, 1}}
		for range n {
			m.datas = append(m.datas, []byte{1, 0})
		}
		return m
	}
	table := func(min int) mod { return mod{table: appendU([]byte{0}, uint64(min))} }
	memory := func(pages int) mod { return mod{memory: appendU([]byte{0}, uint64(pages))} }
	for name, c := range map[string]struct {
		limit func(*ModuleLimits, int)
		make  func(int) mod
		most  int
	}{
		"functions":       {func(l *ModuleLimits, n int) { l.Functions = n }, funcs, 10},
		"globals":         {func(l *ModuleLimits, n int) { l.Globals = n }, globals, 10},
		"locals":          {func(l *ModuleLimits, n int) { l.Locals = n }, locals, 10},
		"body":            {func(l *ModuleLimits, n int) { l.BodyBytes = n }, func(n int) mod { return mod{funcs: []fn{{code: plain(n - 2)}}} }, 100},
		"data segments":   {func(l *ModuleLimits, n int) { l.Segments = n }, datas, 10},
		"table segments":  {func(l *ModuleLimits, n int) { l.Segments = n }, func(n int) mod { return elems(n, 0) }, 10},
		"segment entries": {func(l *ModuleLimits, n int) { l.TableEntries = n }, func(n int) mod { return elems(2, n/2) }, 100},
		"table entries":   {func(l *ModuleLimits, n int) { l.TableEntries = n }, table, 100},
		"memory":          {func(l *ModuleLimits, n int) { l.MemoryPages = uint32(n) }, memory, 10},
	} {
		var l ModuleLimits
		c.limit(&l, c.most)
		if err := Validate(c.make(c.most).build(), l); err != nil {
			t.Errorf("%s: at the limit: %v", name, err)
		}
		var e *Error
		if err := Validate(c.make(c.most+2).build(), l); !errors.As(err, &e) || e.Feature != featLimits {
			t.Errorf("%s: beyond the limit: %v", name, err)
		}
	}
	// Imported functions and values of a type count too.
	many := mod{imports: make([]string, 11)}
	if err := Validate(many.build(), anyImport(ModuleLimits{Functions: 10})); err == nil {
		t.Error("11 imported functions were accepted")
	}
	for n, ok := range map[int]bool{maxArity: true, maxArity + 1: false} {
		if err := Validate(mod{funcs: []fn{{params: bytes.Repeat([]byte{typeI32}, n)}}}.build(), ModuleLimits{}); (err == nil) != ok {
			t.Errorf("%d parameters: %v", n, err)
		}
	}
	small := funcs(1).build()
	if err := Validate(small, ModuleLimits{Bytes: len(small)}); err != nil {
		t.Error(err)
	}
	if err := Validate(small, ModuleLimits{Bytes: len(small) - 1}); err == nil {
		t.Error("a file that is too large was accepted")
	}
	for name, m := range map[string]mod{
		"functions": funcs(100_001), "globals": globals(10_001), "locals": locals(50_001), "data": datas(100_001),
		"elements": elems(100_001, 0), "entries": elems(1, 1_000_001), "table": table(1_000_001), "memory": memory(4097),
		"body": {funcs: []fn{{code: plain(1<<20 + 1)}}},
	} {
		var e *Error
		if err := Validate(m.build(), ModuleLimits{}); !errors.As(err, &e) || e.Feature != featLimits {
			t.Errorf("%s: beyond the default: %v", name, err)
		}
	}
	if err := Validate(make([]byte, 32<<20+1), ModuleLimits{}); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("33 MiB: %v", err)
	}
}

func TestTablesCannotGrowBeyondTheLimit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	grow := fn{name: "grow", params: []byte{typeI32}, results: []byte{typeI32},
		code: []byte{0xd0, typeFuncref, 0x20, 0, opPrefixMisc, miscTableGrow, 0}}
	for name, c := range map[string]struct {
		table []byte
		n     uint64
		ok    bool
	}{
		"no maximum, up to the limit":   {[]byte{0, 10}, 90, true},
		"no maximum, beyond the limit":  {[]byte{0, 10}, 91, false},
		"large maximum, beyond":         {append([]byte{1, 10}, appendU(nil, 1<<20)...), 91, false},
		"own maximum, up to it":         {[]byte{1, 10, 20}, 10, true},
		"own maximum stays what it was": {[]byte{1, 10, 20}, 11, false},
	} {
		out, _ := instrument(t, mod{table: c.table, funcs: []fn{grow}}.build(), Options{TableEntries: 100})
		m, g := start(t, out)
		g.Arm(1 << 30)
		r, err := m.ExportedFunction("grow").Call(ctx, c.n)
		if err != nil || (int32(r[0]) == 10) != c.ok {
			t.Errorf("%s: %v %v", name, r, err)
		}
	}
	// Three tables share the remaining entries.
	wasm := raw([]byte{4, 3, typeFuncref, 0, 10, typeExternref, 1, 10, 20, typeFuncref, 1, 30, 30})
	out, _ := instrument(t, wasm, Options{TableEntries: 100})
	m, err := parse(out, ModuleLimits{}, false)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, x := range m.tables {
		if !x.lim.hasMax {
			t.Error("a table without a maximum")
		}
		total += int(x.lim.max)
	}
	if total > 100 || m.tables[1].lim.max != 20 || m.tables[2].lim.max != 30 {
		t.Errorf("tables %+v", m.tables)
	}
}

func TestInstrumentKeepsInputAndIsDeterministic(t *testing.T) {
	t.Parallel()
	modules := corpus()
	for _, wasm := range modules {
		before := bytes.Clone(wasm)
		a, rep, err := Instrument(wasm, Options{})
		if err != nil {
			t.Fatal(err)
		}
		b, _, _ := Instrument(bytes.Clone(wasm), Options{})
		if !bytes.Equal(a, b) || !bytes.Equal(wasm, before) {
			t.Error("not the same bytes")
		}
		if rep.SizeBefore != len(wasm) || rep.SizeAfter != len(a) || rep.Version != Version {
			t.Errorf("report %+v", rep)
		}
		if _, _, err := Instrument(a, Options{}); err == nil {
			t.Error("a module was instrumented twice")
		}
		if c, _, _ := Instrument(wasm, Options{Slice: 7}); bytes.Equal(a, c) && len(wasm) > 50 {
			t.Error("the slice changes nothing")
		}
	}
}

func TestModuleWithoutMemoryGetsAPrivateOne(t *testing.T) {
	t.Parallel()
	out, rep := instrument(t, mod{funcs: []fn{spin}}.build(), Options{})
	m, g := start(t, out)
	g.Arm(1 << 30)
	if _, err := m.ExportedFunction("spin").Call(context.Background(), 1000); err != nil {
		t.Fatal(err)
	}
	if rep.Memory != nil || m.ExportedMemory("memory") != nil {
		t.Error("the private memory can be seen")
	}
}

func TestStartSectionRunsUnderTheLimits(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	endless := mod{funcs: []fn{{code: []byte{opLoop, 0x40, opBr, 0, opEnd}}}, start: 1}
	out, rep := instrument(t, endless.build(), Options{})
	if !rep.Start || rep.StartExport != StartExport {
		t.Errorf("report %+v", rep)
	}
	m, g := start(t, out) // instantiating it must not run it
	g.Arm(10_000)
	if _, err := m.ExportedFunction(StartExport).Call(ctx); err == nil || !g.Exhausted() {
		t.Errorf("err %v, used %d", err, g.Used())
	}
}

func TestStripData(t *testing.T) {
	t.Parallel()
	use := []byte{0x41, 0, 0x41, 0, 0x20, 0, opPrefixMisc, miscMemoryInit, 0, 0, opPrefixMisc, miscDataDrop, 0}
	m := mod{
		memory: []byte{1, 1, 5}, count: true, datas: [][]byte{{0, 0x41, 0, opEnd, 3, 'a', 'b', 'c'}, {0, 0x41, 9, opEnd, 1, 'd'}},
		funcs:   []fn{{name: "f", params: []byte{typeI32}, code: use}, {}},
		exports: []exportEntry{{name: "memory", kind: kindMemory}}, start: 2,
	}
	check := func(wasm []byte, segments int) {
		t.Helper()
		out, err := StripData(wasm, 3)
		if err != nil {
			t.Fatal(err)
		}
		if err := typeCheck(out); err != nil {
			t.Fatal(err)
		}
		rep, err := inspect(out)
		if err != nil {
			t.Fatal(err)
		}
		if rep.Memory.Min != 3 || rep.Memory.Max != 5 || rep.DataSegments != segments || rep.Start || bytes.Contains(out, []byte("abc")) {
			t.Errorf("%+v", rep)
		}
	}
	wasm, _ := instrument(t, m.build(), Options{})
	check(wasm, 2) // the code still names them
	out, _ := StripData(wasm, 3)
	inst, g := start(t, out)
	for n, fails := range []bool{false, true} {
		g.Arm(1 << 30)
		if _, err := inst.ExportedFunction("f").Call(context.Background(), uint64(n)); (err != nil) != fails {
			t.Errorf("memory.init of %d bytes of a segment that is gone: %v", n, err)
		}
	}
	m.funcs[0].code = nil
	check(m.build(), 0)
	m.count = false
	check(m.build(), 0)
	for name, c := range map[string]struct {
		m     mod
		pages uint32
	}{
		"passive":   {mod{memory: []byte{1, 1, 5}, datas: [][]byte{{1, 1, 'x'}}}, 3},
		"too small": {m, 0},
		"too large": {m, 6},
		"no memory": {mod{}, 1},
	} {
		if _, err := StripData(c.m.build(), c.pages); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// inspect reads a module, including its instructions, and describes it. It does not compile it and
// does not check its imports. Errors are *Error.
func inspect(wasm []byte) (Report, error) {
	m, err := parse(wasm, ModuleLimits{MemoryPages: 1 << 16}, false)
	if err != nil {
		return Report{}, err
	}
	if err := m.scanAll(); err != nil {
		return Report{}, err
	}
	return m.report(), nil
}

func TestInspect(t *testing.T) {
	t.Parallel()
	rep, err := inspect(mod{
		imports: []string{"nothing"}, memory: []byte{0, 2}, table: []byte{1, 3, 9},
		funcs: []fn{{name: "f", params: []byte{typeI32, typeV128}, results: []byte{typeF64, typeExternref}, code: []byte{opUnreachable}}},
		datas: [][]byte{{1, 0}}, exports: []exportEntry{{name: "mem", kind: kindMemory}},
	}.build())
	if err != nil {
		t.Fatal(err)
	}
	f := rep.Exports[0].Signature
	if rep.Imports[0].Module != "env" || rep.Imports[0].Name != "nothing" || rep.Imports[0].Kind != "function" || rep.Imports[0].Signature == nil ||
		strings.Join(f.Params, " ") != "i32 v128" || strings.Join(f.Results, " ") != "f64 externref" ||
		*rep.Memory != (Memory{Min: 2, Max: 1 << 16, Exported: "mem"}) || rep.Functions != 1 || rep.PassiveSegments != 1 ||
		rep.Tables[0] != (Table{Type: "funcref", Min: 3, Max: 9, HasMax: true}) || rep.Start {
		t.Errorf("%+v", rep)
	}
	if _, err := inspect(body(0xfe, 0)); err == nil {
		t.Error("instructions are not read")
	}
}
