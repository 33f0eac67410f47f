package meter

import (
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// The audit compares the planner with counting every instruction: a module is rewritten so that
// each instruction calls one function, and each check, where the meter inserts it, another. They
// compare what was executed with what was charged.

// audit returns wasm with counters, which are i64 globals named auditNames.
func audit(t testing.TB, wasm []byte) []byte {
	t.Helper()
	m, err := parse(wasm, ModuleLimits{MemoryPages: 1 << 16}, false)
	if err != nil {
		t.Fatal(err)
	}
	p := &planner{m: m}
	if err := p.graph(); err != nil {
		t.Fatal(err)
	}
	g := uint64(len(m.globals))
	tick, paid := uint64(len(m.funcs)), uint64(len(m.funcs)+1)
	call := func(b []byte, f uint64, units int) []byte {
		return appendU(append(appendS(append(b, 0x42), int64(units)), opCall), f)
	}
	w := &rewriter{m: m, out: append([]byte{}, wasm[:8]...)}
	code := appendU(nil, uint64(len(m.bodies)+2))
	for f := range m.bodies {
		begin, err := p.plan(f)
		if err != nil {
			t.Fatal(err)
		}
		at := m.bodies[f]
		body := append([]byte{}, wasm[at.start:begin]...)
		s := scanner{m: m}
		s.open(f)
		next := len(p.checks) - 1
		for s.p < s.end {
			s.next()
			if s.op == opBrTable {
				s.labels()
			}
			if s.err != nil {
				t.Fatal(s.err)
			}
			for next >= 0 && p.checks[next].pos == s.pos {
				body = call(body, paid, p.checks[next].charge)
				next--
			}
			if n := auditWeight(m, p, &s); n > 0 {
				body = call(body, tick, n)
			}
			body = append(body, wasm[s.pos:s.p]...)
		}
		if next >= 0 {
			t.Fatalf("function %d: a check at %d is at no instruction", f, p.checks[next].pos)
		}
		code = append(appendU(code, uint64(len(body))), body...)
	}
	get := func(b []byte, i uint64) []byte { return appendU(append(b, 0x23), g+i) }
	set := func(b []byte, i uint64) []byte { return appendU(append(b, 0x24), g+i) }
	arg := []byte{0x20, 0}
	add := func(b []byte, i uint64) []byte { return set(append(append(get(b, i), arg...), 0x7c), i) }
	most := func(b []byte, a, sub, to uint64) []byte { // to = max(to, a - sub)
		diff := append(get(get(nil, a), sub), 0x7d)
		b = get(append(b, diff...), to)
		b = append(b, diff...)
		return set(append(get(b, to), 0x55, 0x1b), to)
	}
	// 0 executed, 1 charged, 2 debt, 3 executed at the last check, 4 gap, 5 checks
	tickBody := append(most(most(add([]byte{0}, 0), 0, 1, 2), 0, 3, 4), opEnd)
	checkBody := append(set(append(get(set(get(add([]byte{0}, 1), 0), 3), 5), 0x42, 1, 0x7c), 5), opEnd)
	code = append(appendU(code, uint64(len(tickBody))), tickBody...)
	code = append(appendU(code, uint64(len(checkBody))), checkBody...)
	seen := map[byte]span{}
	for _, s := range m.sections {
		seen[s.id] = s.body
	}
	zero := []byte{typeI64, 1, 0x42, 0, opEnd}
	exports := []byte{}
	for i, name := range auditNames {
		exports = append(bytesVecTo(exports, name), kindGlobal)
		exports = appendU(exports, g+uint64(i))
	}
	for _, id := range []byte{
		secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secStart, secElement, secDataCount, secCode, secData,
	} {
		b, have := seen[id]
		switch id {
		case secType:
			w.grown(id, b, have, len(m.types), 1, []byte{0x60, 1, typeI64, 0})
		case secFunction:
			ty := appendU(nil, uint64(len(m.types)))
			w.grown(id, b, have, len(m.bodies), 2, ty, ty)
		case secGlobal:
			w.grown(id, b, have, len(m.globals)-m.impGlobs, 6, zero, zero, zero, zero, zero, zero)
		case secExport:
			w.grown(id, b, have, len(m.exports), len(auditNames), exports)
		case secCode:
			w.section(id, code)
		default:
			if have {
				w.section(id, wasm[b.start:b.end])
			}
		}
	}
	return w.out
}

var auditNames = [6]string{"audit:executed", "audit:charged", "audit:debt", "audit:last", "audit:gap", "audit:checks"}

func bytesVecTo(b []byte, s string) []byte { return append(appendU(b, uint64(len(s))), s...) }

// auditWeight returns the documented cost of an instruction, implemented a second time.
func auditWeight(m *module, p *planner, s *scanner) int {
	switch s.op {
	case opBlock, opLoop, opElse, opEnd:
		return 0
	case opCall:
		if int(s.arg) < m.impFuncs {
			return weightHostCall
		}
	case opCallIndirect:
		return p.indirect
	case opMemoryGrow:
		return weightGrow
	case 0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82, 0x91, 0x95, 0x9f, 0xa3:
		return weightDivide
	case opPrefixSIMD:
		if s.sub == 0xe3 || s.sub == 0xe7 || s.sub == 0xef || s.sub == 0xf3 {
			return weightDivide
		}
	case opPrefixMisc:
		switch s.sub {
		case miscTableInit, miscTableCopy, miscTableFill, miscTableGrow:
			return weightTable
		case miscDataDrop, miscElemDrop:
			return weightDrop
		}
	}
	return 1
}

// auditReset starts a new count, as a call by the host does.
func auditReset(m api.Module) {
	for _, n := range auditNames {
		m.ExportedGlobal(n).(api.MutableGlobal).Set(0)
	}
}

// auditVerify reports errors in the count since auditReset.
func auditVerify(t testing.TB, m api.Module, what string) (gap int64) {
	t.Helper()
	v := func(i int) int64 { return int64(m.ExportedGlobal(auditNames[i]).Get()) }
	if debt := v(2); debt > maxPrefix+2*(maxWay+1) {
		t.Errorf("%s: %d units were executed before they were charged", what, debt)
	}
	return v(4)
}

func TestAuditQuickjs(t *testing.T) {
	t.Parallel()
	g := newGuest(t, audit(t, quickjs(t)), wazero.NewRuntimeConfigCompiler())
	var most int64
	for _, source := range auditSources {
		auditReset(g.mod)
		if _, err := g.eval(t, source); err != nil {
			t.Fatal(err)
		}
		gap := auditVerify(t, g.mod, source[:min(len(source), 40)])
		executed, charged := g.mod.ExportedGlobal(auditNames[0]).Get(), g.mod.ExportedGlobal(auditNames[1]).Get()
		t.Logf("executed %d, charged %.2f times as much, %d checks, longest gap %d",
			executed, float64(charged)/float64(executed), g.mod.ExportedGlobal(auditNames[5]).Get(), gap)
		most = max(most, gap)
	}
	if most > 2500 {
		t.Errorf("%d units between two checks", most)
	}
}

// auditSources are short programs that cover much of the engine.
var auditSources = []string{
	`function fib(n){return n<2?n:fib(n-1)+fib(n-2)} fib(12)`,
	`var a=[];for(var i=0;i<50;i++)a.push({i,s:"x"+i,f:i/7,n:null,t:[1,2,{a:"q"}]});JSON.stringify(JSON.parse(JSON.stringify(a)))`,
	`"the quick brown fox 123 jumps".replace(/(\w+) (\d+)?/g,(m,a,b)=>a.toUpperCase()+b).split(/\s/).reverse().join()`,
	`var a=[];for(var i=0;i<400;i++)a.push((i*7919)%1000);a.sort((x,y)=>x-y);a.sort();new Uint8Array(a).sort();a.map(String).join()`,
	`class A{#x=1;get x(){return this.#x}static*[Symbol.iterator](){yield 1;yield*[2,3]}}; [...A].concat(new A().x,new Map([[1,2]]).size,new Set("hello").size).join()`,
	`var f=async()=>{for await(var x of [1,Promise.resolve(2)]);throw new TypeError("no")};f().catch(e=>e.stack);2n**200n+BigInt("123456789012345678901234567890")+""`,
	`try{(function r(n){return r(n+1)+1})(0)}catch(e){e.message}`,
	`var s="";for(var i=0;i<300;i++)s+=String.fromCharCode(i*37);encodeURIComponent(s.normalize("NFKD")).length;parseFloat("1e-310")+Number("0x1f")+(0.1+0.2).toString(36)+(123.456).toFixed(9)+new Date(0).toISOString()`,
}
