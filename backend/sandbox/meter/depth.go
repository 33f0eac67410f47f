package meter

import "slices"

// The native stack of a guest is outside its memory: wazero lets it grow to 50 MB and copies it
// each time it doubles. So functions that can be on it many times count the bytes they use. These
// are functions that can be recursive, and those with a large frame; the others cannot add up to
// much.
const (
	// DefaultStack is the maximum size in bytes of the frames of a guest's calls. Like the stack of
	// a program's main thread, it is enough for any intended recursion.
	DefaultStack = 8 << 20

	frameBase = 64       // used by every call
	maxTall   = 64 << 10 // limit on the calls below a function that does not count
)

// heights tracks the number of values on the operand stack while a body is read. It never
// underestimates.
type heights struct {
	now, top int
	open     []openHeight
	wide     bool // vectors are used
}

type openHeight struct{ base, in, out int }

func (h *heights) begin() { *h = heights{open: h.open[:0]} }

func (h *heights) add(n int) {
	h.now = max(h.now+n, 0)
	h.top = max(h.top, h.now)
}

// step applies the instruction that s has just read.
func (h *heights) step(s *scanner) {
	switch op := s.op; op {
	case opBlock, opLoop, opIf:
		if op == opIf {
			h.add(-1)
		}
		h.open = append(h.open, openHeight{max(h.now-s.in, 0), s.in, s.out})
	case opElse, opEnd:
		if len(h.open) == 0 {
			return
		}
		o := h.open[len(h.open)-1]
		if op == opElse {
			h.now = o.base + o.in
			return
		}
		h.open = h.open[:len(h.open)-1]
		h.now = o.base
		h.add(o.out)
	case opCall:
		t := s.m.types[s.m.funcs[s.arg]]
		h.add(len(t.results))
		h.add(-len(t.params))
	case opCallIndirect:
		t := s.m.types[s.sub]
		h.add(len(t.results))
		h.add(-len(t.params) - 1)
	case opPrefixSIMD:
		h.wide = true
		if s.sub == 12 { // v128.const
			h.add(1)
		}
	case opPrefixMisc:
		switch s.sub {
		case miscTableSize:
			h.add(1)
		case miscTableGrow:
			h.add(-1)
		case miscMemoryInit, miscMemoryCopy, miscMemoryFill, miscTableInit, miscTableCopy, miscTableFill:
			h.add(-3)
		}
	default:
		h.add(int(operands[op]))
	}
}

// operands is the number of values that an instruction adds to the operand stack, by opcode.
var operands = func() (n [256]int8) {
	put := func(by int8, from, to int) {
		for op := from; op <= to; op++ {
			n[op] = by
		}
	}
	put(-1, 0x1a, 0x1a) // drop
	put(-2, 0x1b, 0x1c) // select
	put(+1, 0x20, 0x20) // local.get
	put(-1, 0x21, 0x21)
	put(+1, 0x23, 0x23) // global.get
	put(-1, 0x24, 0x24)
	put(-2, 0x26, 0x26) // table.set
	put(-2, 0x36, 0x3e) // stores
	put(+1, 0x3f, 0x3f) // memory.size
	put(+1, 0x41, 0x44) // constants
	put(-1, 0x0d, 0x0e) // br_if, br_table
	put(-1, 0x46, 0x4f) // comparisons
	put(-1, 0x51, 0x66)
	put(-1, 0x6a, 0x78) // arithmetic of two values
	put(-1, 0x7c, 0x8a)
	put(-1, 0x92, 0x98)
	put(-1, 0xa0, 0xa6)
	put(+1, 0xd0, 0xd0) // ref.null
	put(+1, 0xd2, 0xd2) // ref.func
	return n
}()

// frame returns the maximum frame size of one call of the body that s has read.
func (h *heights) frame(s *scanner, f int) int {
	t := s.m.types[s.m.funcs[f]]
	slot := 8
	if h.wide || s.wide || slices.Contains(t.params, typeV128) || slices.Contains(t.results, typeV128) {
		slot = 16
	}
	return frameBase + slot*(len(t.results)+int(s.locals)+h.top)
}

// depths determines the functions that count and the cost of each of their calls, from their frames
// and direct calls in callees-first order.
func (p *planner) depths(frames []int, order []uint32, calls func(uint32) []uint32) {
	tall := make([]int, len(frames))
	p.cost = make([]int, len(frames))
	for _, f := range order {
		below := 0
		for _, g := range calls(f) {
			below = max(below, tall[g])
		}
		all := frames[f] + below
		if p.deep[f] || all > maxTall {
			p.cost[f] = all
		} else {
			tall[f] = all
		}
	}
}

// enter appends the prologue of a counting function: it subtracts its cost or traps, stores what is
// left then in local, and opens the block that branches to the end lead to.
func (w *rewriter) enter(out []byte, f, cost int, local uint64) []byte {
	out = appendU(append(out, 0x23), w.depth)
	out = appendS(append(out, 0x41), int64(-cost))
	out = appendU(append(out, 0x6a, 0x22), local) // i32.add, local.tee
	out = appendU(append(out, 0x24), w.depth)
	out = appendU(append(out, 0x20), local)
	out = append(out, 0x41, 0, 0x48, opIf, 0x40, opUnreachable, opEnd) // i32.lt_s
	out = append(out, opBlock)
	switch r := w.m.types[w.m.funcs[f]].results; len(r) {
	case 0:
		return append(out, 0x40)
	case 1:
		return append(out, r[0])
	default:
		return appendS(out, w.blockType(r))
	}
}

// leave appends the epilogue that returns the cost. Calls below have returned theirs.
func (w *rewriter) leave(out []byte, cost int, local uint64) []byte {
	out = appendU(append(out, 0x20), local)
	out = appendS(append(out, 0x41), int64(cost))
	return appendU(append(out, 0x6a, 0x24), w.depth)
}

// blockType returns the index of a type without parameters and with the given results.
func (w *rewriter) blockType(results []byte) int64 {
	return w.typeIndex(append(appendU([]byte{0x60, 0}, uint64(len(results))), results...))
}

// typeIndex returns the index of a type that the meter adds.
func (w *rewriter) typeIndex(t []byte) int64 {
	if i, ok := w.known[string(t)]; ok {
		return i
	}
	i := int64(w.helperType) + 1 + int64(len(w.types))
	if w.known == nil {
		w.known = map[string]int64{}
	}
	w.known[string(t)] = i
	w.types = append(w.types, t)
	return i
}
