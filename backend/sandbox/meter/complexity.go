package meter

import "fmt"

// Limits on the compile time of one function and of the whole module. Compile time grows faster
// than linearly with the branches of a function, with its locals times its branches, and with the
// values alive between its loads and calls, and compilers check a deadline only between functions.
// The largest function of a Go program of 8 MB has 1,700 branches, 1,200 labels and 4,300 loads,
// that of a JavaScript engine 1,900, 310 and 2,600 with 57 locals.
const (
	maxBranches = 16_000    // blocks, branches and labels of br_table in a function
	maxAccesses = 40_000    // loads, stores and calls in a function
	maxBulk     = 1_000     // bulk operations in a function
	maxSpread   = 4_000_000 // branches times locals of a function
	maxAllLocal = 4_000_000 // locals of all functions
	maxCode     = 16 << 20  // bytes of all bodies
	maxTypes    = 10_000
	maxValues   = 64 // results of a block or function that a branch must carry, times its branches
)

// complexity refuses functions that would take a compiler too long.
func (m *module) complexity() *Error {
	if len(m.types) > maxTypes {
		return &Error{Feature: featLimits, Message: fmt.Sprintf("%d types, at most %d are allowed", len(m.types), maxTypes)}
	}
	size, locals := 0, 0
	s := scanner{m: m}
	for f := range m.bodies {
		b := m.bodies[f]
		size += b.end - b.start
		if size > maxCode {
			return &Error{Offset: b.start, Feature: featLimits, Message: fmt.Sprintf("more than %d MiB of code", maxCode>>20)}
		}
		s.open(f)
		locals += int(s.locals)
		if locals > maxAllLocal {
			return &Error{Offset: b.start, Feature: featLimits, Message: fmt.Sprintf("all functions together have more than %d locals", maxAllLocal)}
		}
		if what, most := s.complexity(m); what != "" {
			return &Error{Offset: b.start, Feature: featLimits, Message: fmt.Sprintf("function %d is too complex: more than %d %s", m.impFuncs+f, most, what)}
		}
		if s.err != nil {
			return s.err
		}
	}
	return nil
}

// complexity reads one body and returns what it has too much of, and the limit.
func (s *scanner) complexity(m *module) (what string, most int) {
	branches, accesses, bulk, wide := 0, 0, 0, 0
	for s.err == nil && s.p < s.end {
		at := s.p
		s.next()
		switch s.op {
		case opBlock, opLoop, opIf:
			branches++
			if n := m.blockValues(at + 1); n > 4 {
				wide = max(wide, n)
			}
		case opElse, opBr, opBrIf, opReturn:
			branches++
		case opBrTable:
			n := s.count(-1, "labels")
			branches += n + 1
			for i := 0; i <= n && s.err == nil && branches <= maxBranches; i++ {
				s.u32()
			}
		case opCall, opCallIndirect:
			accesses++
		case opPrefixMisc:
			switch s.sub {
			case miscMemoryInit, miscMemoryCopy, miscMemoryFill, miscTableInit, miscTableCopy, miscTableFill, miscTableGrow:
				bulk++
			}
		case opPrefixSIMD:
			accesses++
		default:
			if s.op >= 0x28 && s.op <= 0x3e {
				accesses++
			}
		}
		switch {
		case branches > maxBranches:
			return "branches", maxBranches
		case accesses > maxAccesses:
			return "loads, stores and calls", maxAccesses
		case bulk > maxBulk:
			return "bulk operations", maxBulk
		}
	}
	if branches*int(s.locals) > maxSpread {
		return "branches times locals", maxSpread
	}
	if wide > maxValues && branches*wide > maxBranches*maxValues/4 {
		return "values carried by branches", maxBranches * maxValues / 4
	}
	return "", 0
}

// blockValues returns the number of parameters and results of a block whose type is at p.
func (m *module) blockValues(p int) int {
	r := reader{b: m.wasm, p: p, end: len(m.wasm)}
	if c := m.wasm[p]; c&0x80 == 0 && c&0x40 != 0 {
		return 1 // empty or one value
	}
	if i := int(r.u32()); r.err == nil && i < len(m.types) {
		return len(m.types[i].params) + len(m.types[i].results)
	}
	return 0
}

// bare returns the module without its custom sections. They have no effect on a run, and their
// readers have trusted counts found in them.
func (m *module) bare() []byte {
	out := append(make([]byte, 0, len(m.wasm)), m.wasm[:8]...)
	for _, s := range m.sections {
		if s.id != secCustom {
			out = append(out, s.id)
			out = appendU(out, uint64(s.body.end-s.body.start))
			out = append(out, m.wasm[s.body.start:s.body.end]...)
		}
	}
	return out
}
