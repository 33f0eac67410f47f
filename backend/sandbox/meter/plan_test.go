package meter

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// plain is n units that keep global 0 busy.
func plain(n int) []byte { return bytes.Repeat([]byte{0x01}, n) }

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// counted runs an export of the audited module and returns the numbers by auditNames.
func counted(t *testing.T, m mod, name string, args ...uint64) (v [6]int64) {
	t.Helper()
	inst, err := newRunner(t).load(audit(t, m.build()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inst.ExportedFunction(name).Call(context.Background(), args...); err != nil {
		t.Fatal(err)
	}
	for i, n := range auditNames {
		v[i] = int64(inst.ExportedGlobal(n).Get())
	}
	return v
}

func TestChargesAreExactOnOnePath(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code []byte
		want int64
	}{
		"straight":          {plain(10), 10},
		"long":              {plain(10_000), 10_000},
		"structure is free": {cat([]byte{opBlock, 0x40, opBlock, 0x40}, plain(3), []byte{opEnd, opEnd}), 3},
		"equal arms":        {cat([]byte{0x41, 1, opIf, 0x40}, plain(7), []byte{opElse}, plain(7), []byte{opEnd}), 9},
		"skipped":           {cat([]byte{opBlock, 0x40, opBr, 0}, plain(50), []byte{opEnd}), 1},
		"return":            {cat(plain(5), []byte{opReturn}, plain(50)), 6},
		"leaves two loops": {cat([]byte{opBlock, 0x40, opLoop, 0x40, opLoop, 0x40}, plain(2), []byte{opBr, 2, opEnd, opEnd, opEnd},
			plain(200)), 203},
		"leaves a loop into a longer path": {cat([]byte{opBlock, 0x40, opLoop, 0x40, opLoop, 0x40}, plain(2), []byte{opBr, 2, opEnd, opEnd, opReturn, opEnd},
			plain(200)), 203},
		"leaves a loop by its end": {cat([]byte{opLoop, 0x40}, plain(4), []byte{opEnd}, plain(200)), 204},
		"host call":                {[]byte{opCall, 0}, weightHostCall},
		"memory.grow":              {[]byte{0x41, 0, opMemoryGrow, 0, 0x1a}, weightGrow + 2},
		"division":                 {[]byte{0x41, 9, 0x41, 2, 0x6d, 0x1a}, weightDivide + 3},
		"square root":              {[]byte{0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0x9f, 0x1a}, weightDivide + 2},
		"table.size":               {[]byte{opPrefixMisc, miscTableSize, 0, 0x1a}, 2},
		"data.drop":                {[]byte{opPrefixMisc, miscDataDrop, 0}, weightDrop},
	} {
		v := counted(t, mod{
			imports: []string{"nothing"}, memory: []byte{0, 1}, table: []byte{0, 1}, count: true, datas: [][]byte{{1, 0}},
			funcs: []fn{{name: "f", code: c.code}},
		}, "f")
		if v[0] != c.want || v[1] != c.want || v[2] > 0 {
			t.Errorf("%s: executed %d, charged %d, in debt by %d, expected %d", name, v[0], v[1], v[2], c.want)
		}
		if v[4] > maxGap+maxRun+weightGrow {
			t.Errorf("%s: %d units between checks", name, v[4])
		}
	}
}

func TestUnequalArmsChargeTheLongest(t *testing.T) {
	t.Parallel()
	code := cat([]byte{0x20, 0, opIf, 0x40}, plain(20), []byte{opEnd})
	for arg, executed := range []int64{2, 22} {
		v := counted(t, mod{funcs: []fn{{name: "f", params: []byte{typeI32}, code: code}}}, "f", uint64(arg))
		if v[0] != executed || v[1] != 22 {
			t.Errorf("%d: executed %d, charged %d", arg, v[0], v[1])
		}
	}
}

// TestDispatchChargesTheArmThatRuns runs an interpreter loop with one long arm: iterations through
// the short arm must not pay for it.
func TestDispatchChargesTheArmThatRuns(t *testing.T) {
	t.Parallel()
	code := cat(
		[]byte{opLoop, 0x40, opBlock, 0x40, opBlock, 0x40, 0x20, 0, opBrTable, 1, 0, 1, opEnd}, plain(150), // arm 0: long, leaves
		[]byte{opReturn, opEnd, 0x20, 0, 0x41, 1, 0x6b, 0x21, 0, opBr, 0, opEnd}, // arm 1: counts down
	)
	v := counted(t, mod{funcs: []fn{{name: "f", params: []byte{typeI32}, code: code}}}, "f", 100)
	if v[0] != 100*7+2+151 || v[1] != v[0] || v[5] != 101 {
		t.Errorf("executed %d, charged %d in %d checks", v[0], v[1], v[5])
	}
}

// TestEveryCycleEnds runs programs that loop endlessly in every possible way. If a cycle had no
// check, the call would last until the context ends.
func TestEveryCycleEnds(t *testing.T) {
	t.Parallel()
	r := newRunner(t)
	for name, m := range map[string]mod{
		"loop":               {funcs: []fn{{name: "f", code: []byte{opLoop, 0x40, opBr, 0, opEnd}}}},
		"outer loop":         {funcs: []fn{{name: "f", code: []byte{opLoop, 0x40, opLoop, 0x40, opBr, 1, opEnd, opEnd}}}},
		"br_if":              {funcs: []fn{{name: "f", code: []byte{opLoop, 0x40, 0x41, 1, opBrIf, 0, opEnd}}}},
		"switch to its loop": {funcs: []fn{{name: "f", code: []byte{opLoop, 0x40, 0x41, 0, opBrTable, 0, 0, opEnd}}}},
		"switch, mixed":      {funcs: []fn{{name: "f", code: []byte{opLoop, 0x40, opBlock, 0x40, 0x41, 0, opBrTable, 1, 1, 0, opEnd, opEnd}}}},
		"switch, empty arms": {funcs: []fn{{name: "f", code: []byte{opLoop, 0x40, opBlock, 0x40, 0x41, 0, opBrTable, 1, 0, 0, opEnd, opBr, 0, opEnd}}}},
		"recursion":          {funcs: []fn{{name: "f", code: []byte{opLoop, 0x40, opCall, 1, opBr, 0, opEnd}}, {code: []byte{opNop}}}},
		"mutual recursion": {globals: [][]byte{{typeI32, 1, 0x41, 0, opEnd}}, funcs: []fn{
			// Depth ten, then back; endlessly, as a tree.
			{name: "f", code: tree(1)}, {code: tree(2)}, {code: tree(0)},
		}},
		"a tree of its own calls": {globals: [][]byte{{typeI32, 1, 0x41, 0, opEnd}}, funcs: []fn{
			{name: "f", code: []byte{opCall, 1}}, {code: tree(1)},
		}},
		"table": {
			table: []byte{0, 1}, elems: [][]byte{{0, 0x41, 0, opEnd, 1, 0}},
			funcs: []fn{{name: "f", code: []byte{opLoop, 0x40, opCall, 1, opBr, 0, opEnd}}, {code: []byte{opNop, opReturn}}},
		},
	} {
		out, _ := instrument(t, m.build(), Options{})
		inst, err := r.load(out)
		if err != nil {
			t.Fatal(name, err)
		}
		g, err := NewGauge(inst)
		if err != nil {
			t.Fatal(err)
		}
		g.Arm(200_000)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		_, err = inst.ExportedFunction("f").Call(ctx)
		cancel()
		if err == nil || !g.Exhausted() || ctx.Err() == context.DeadlineExceeded {
			t.Errorf("%s: err %v, exhausted %v", name, err, g.Exhausted())
		}
	}
}

const opNop = 0x01

// tree calls the function twice, 60 levels deep: without a check it would never end.
func tree(callee byte) []byte {
	return []byte{
		0x23, 0, 0x41, 60, 0x4e, opIf, 0x40, opReturn, opEnd, // i32.ge_s
		0x23, 0, 0x41, 1, 0x6a, 0x24, 0, opCall, callee, opCall, callee, 0x23, 0, 0x41, 1, 0x6b, 0x24, 0,
	}
}

// TestConsecutiveReturnsAreAnalyzed returns from a deep call into long tails.
func TestConsecutiveReturnsAreAnalyzed(t *testing.T) {
	t.Parallel()
	down := []byte{0x20, 0, 0x45, opIf, 0x40, opReturn, opEnd, 0x20, 0, 0x41, 1, 0x6b}
	for name, call := range map[string][]byte{"direct": {opCall, 0}, "indirect": {0x41, 0, opCallIndirect, 1, 0}} {
		v := counted(t, mod{
			table: []byte{0, 1}, elems: [][]byte{{0, 0x41, 0, opEnd, 1, 0}},
			funcs: []fn{{name: "f", params: []byte{typeI32}, code: cat(down, call, plain(100))}},
		}, "f", 1000)
		if v[4] > 2*maxGap {
			t.Errorf("%s: %d units between two checks", name, v[4])
		}
		if v[1] < v[0] {
			t.Errorf("%s: executed %d, charged %d", name, v[0], v[1])
		}
	}
}

// TestShortFunctionsArePaidByTheirCallers counts checks: a function that returns early has none on
// that path, and one that the host calls has.
func TestShortFunctionsArePaidByTheirCallers(t *testing.T) {
	t.Parallel()
	short := fn{code: plain(10)}
	v := counted(t, mod{funcs: []fn{{name: "f", code: cat(plain(3), []byte{opCall, 1, opCall, 1})}, short}}, "f")
	if v[0] != 25 || v[1] != 25 || v[5] != 1 {
		t.Errorf("executed %d, charged %d in %d checks", v[0], v[1], v[5])
	}
	short.name = "f"
	if v := counted(t, mod{funcs: []fn{short}}, "f"); v[1] != 10 || v[5] != 1 {
		t.Errorf("exported: charged %d in %d checks", v[1], v[5])
	}
}

func TestBulkOperationsChargeTheirLength(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	data := append([]byte{1, 0xe8, 0x07}, make([]byte, 1000)...)
	elem := append([]byte{1, 0, 100}, make([]byte, 100)...)
	op := func(operands []byte, sub byte, immediates ...byte) []byte {
		return cat(operands, []byte{0x20, 0, opPrefixMisc, sub}, immediates)
	}
	two := []byte{0x41, 0, 0x41, 0}
	for name, c := range map[string]struct {
		code  []byte
		n     uint64
		scale uint64
		fixed uint64
	}{
		"memory.fill": {op(two, miscMemoryFill, 0), 60_000, 64, 4},
		"memory.copy": {op(two, miscMemoryCopy, 0, 0), 60_000, 64, 4},
		"memory.init": {op(two, miscMemoryInit, 0, 0), 1000, 64, 4},
		"table.fill":  {op([]byte{0x41, 0, 0xd0, typeFuncref}, miscTableFill, 0), 100, 8, 3 + weightTable},
		"table.copy":  {op(two, miscTableCopy, 0, 0), 100, 8, 3 + weightTable},
		"table.init":  {op(two, miscTableInit, 0, 0), 100, 8, 3 + weightTable},
		"table.grow":  {cat(op([]byte{0xd0, typeFuncref}, miscTableGrow, 0), []byte{0x1a}), 800, 8, 3 + weightTable},
	} {
		wasm := mod{
			memory: []byte{0, 1}, table: []byte{0, 100}, elems: [][]byte{elem}, datas: [][]byte{data}, count: true,
			funcs: []fn{{name: "f", params: []byte{typeI32}, code: c.code}},
		}.build()
		if err := Validate(wasm, ModuleLimits{}); err != nil {
			t.Fatal(name, err)
		}
		out, _ := instrument(t, wasm, Options{})
		m, g := start(t, out)
		g.Arm(1 << 40)
		if _, err := m.ExportedFunction("f").Call(ctx, c.n); err != nil {
			t.Fatal(name, err)
		}
		if want := c.fixed + c.n/c.scale; g.Used() != want {
			t.Errorf("%s: used %d, expected %d", name, g.Used(), want)
		}
		// The length is charged before the operation, so a lower budget ends the run first.
		g.Arm(c.fixed + c.n/c.scale - 1)
		if _, err := m.ExportedFunction("f").Call(ctx, c.n); err == nil || !g.Exhausted() {
			t.Errorf("%s: went on without a budget: %v", name, err)
		}
		// The largest possible length must not overflow.
		g.Arm(1 << 20)
		if _, err := m.ExportedFunction("f").Call(ctx, api.EncodeI32(-1)); err == nil && name != "table.grow" || !g.Exhausted() {
			t.Errorf("%s: 4 GiB: err %v, used %d", name, err, g.Used())
		}
	}
}
