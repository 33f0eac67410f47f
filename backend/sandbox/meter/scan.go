package meter

// Opcodes that the planner handles by name.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opMemoryGrow   = 0x40
	opRefFunc      = 0xd2
	opPrefixMisc   = 0xfc
	opPrefixSIMD   = 0xfd
)

// Sub-opcodes after 0xfc.
const (
	miscMemoryInit = 8
	miscDataDrop   = 9
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscElemDrop   = 13
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableSize  = 16
	miscTableFill  = 17
)

// scanner reads the instructions of one body and checks every index against the original module, so
// that a guest cannot reach anything that the rewriter adds.
type scanner struct {
	reader
	m      *module
	locals uint32 // parameters and locals
	wide   bool   // a local is a vector
	// The instruction read last.
	pos int
	op  byte
	sub uint32
	arg uint32 // label, function or other index
	in  int    // parameters and results of a block
	out int
}

// open starts a body: it reads the local declarations of function f (an index among the defined
// functions) and returns where they end.
func (s *scanner) open(f int) {
	b := s.m.bodies[f]
	s.reader = reader{b: s.m.wasm, p: b.start, end: b.end}
	s.locals = uint32(len(s.m.types[s.m.funcs[s.m.impFuncs+f]].params))
	s.wide = false
	n := s.count(-1, "local declarations")
	total := uint64(0)
	for i := 0; i < n && s.err == nil; i++ {
		at := s.p
		total += uint64(s.u32())
		if total > uint64(s.m.lim.Locals) {
			s.fail(at, featLimits, "%d locals, at most %d are allowed", total, s.m.lim.Locals)
			return
		}
		s.wide = valType(&s.reader) == typeV128 || s.wide
	}
	s.locals += uint32(total)
}

// next reads one instruction. Labels are not checked here, because only the caller knows the
// nesting depth.
func (s *scanner) next() {
	s.pos = s.p
	s.op = s.byte()
	if s.err != nil {
		return
	}
	switch op := s.op; {
	case op >= 0x45 && op <= 0xc4: // numeric
	case op >= 0x20 && op <= 0x22:
		s.arg = s.index(s.locals, "local")
	case op >= 0x28 && op <= 0x3e:
		s.memarg()
	case op == 0x41:
		s.signed(32)
	case op == 0x42:
		s.signed(64)
	case op == 0x43:
		s.skip(4)
	case op == 0x44:
		s.skip(8)
	case op == opUnreachable, op == 0x01, op == opElse, op == opEnd, op == opReturn, op == 0x1a, op == 0x1b, op == 0xd1:
	case op == opBlock, op == opLoop, op == opIf:
		s.blockType()
	case op == opBr, op == opBrIf:
		s.arg = s.u32()
	case op == opBrTable:
		// The labels are read by the caller.
	case op == opCall:
		s.arg = s.index(uint32(len(s.m.funcs)), "function")
	case op == opCallIndirect:
		s.sub = s.index(uint32(len(s.m.types)), "type")
		s.arg = s.index(uint32(len(s.m.tables)), "table")
	case op == 0x1c:
		n := s.count(maxArity, "types of select")
		for i := 0; i < n && s.err == nil; i++ {
			valType(&s.reader)
		}
	case op == 0x23 || op == 0x24:
		s.arg = s.index(uint32(len(s.m.globals)), "global")
	case op == 0x25 || op == 0x26:
		s.arg = s.index(uint32(len(s.m.tables)), "table")
	case op == 0x3f || op == opMemoryGrow:
		s.memory()
		s.zero()
	case op == 0xd0:
		refType(&s.reader)
	case op == opRefFunc:
		s.arg = s.index(uint32(len(s.m.funcs)), "function")
	case op == opPrefixMisc:
		s.misc()
	case op == opPrefixSIMD:
		s.simd()
	default:
		s.refuse()
	}
}

// labels skips the labels of a br_table.
func (s *scanner) labels() {
	for i := s.count(-1, "labels"); i >= 0 && s.err == nil; i-- {
		s.u32()
	}
}

func (s *scanner) refuse() {
	feature := featUnknown
	switch op := s.op; {
	case op == 0xfe:
		feature = featThreads
	case op == 0x12 || op == 0x13:
		feature = featTailCall
	case op == 0x14 || op == 0x15 || op >= 0xd3 && op <= 0xd6:
		feature = featFuncRefs
	case op >= 0x06 && op <= 0x0a || op == 0x18 || op == 0x19 || op == 0x1f:
		feature = featExceptions
	case op == 0xfb:
		feature = featGC
	}
	if feature == featUnknown {
		s.fail(s.pos, feature, "opcode %#x", s.op)
		return
	}
	s.fail(s.pos, feature, "opcode %#x is not allowed", s.op)
}

func (s *scanner) index(n uint32, what string) uint32 {
	return s.m.index(&s.reader, int(n), what)
}

func (s *scanner) memory() {
	if !s.m.hasMem {
		s.fail(s.pos, featInvalid, "memory 0 does not exist")
	}
}

// zero reads the memory index byte, which can be non-zero only with multi-memory.
func (s *scanner) zero() {
	at := s.p
	if c := s.byte(); c != 0 {
		s.fail(at, featMultiMem, "memory %d", c)
	}
}

func (s *scanner) memarg() {
	s.memory()
	at := s.p
	align := s.u32()
	if align >= 0x40 && align < 0x80 {
		s.fail(at, featMultiMem, "a memory index in a memory instruction")
	} else if align > 4 && s.err == nil {
		s.fail(at, featInvalid, "alignment 2^%d", align)
	}
	s.u32()
}

func (s *scanner) blockType() {
	s.in, s.out = 0, 0
	if s.p < s.end {
		switch c := s.b[s.p]; {
		case c == 0x40:
			s.p++
			return
		case c >= 0x41 && c < 0x80: // a value type, a one-byte negative number
			valType(&s.reader)
			s.out = 1
			return
		}
	}
	at := s.p
	if i := s.signed(33); s.err == nil && (i < 0 || i >= int64(len(s.m.types))) {
		s.fail(at, featInvalid, "type %d does not exist", i)
	} else if s.err == nil {
		s.in, s.out = len(s.m.types[i].params), len(s.m.types[i].results)
	}
}

func (s *scanner) misc() {
	s.sub = s.u32()
	switch s.sub {
	case 0, 1, 2, 3, 4, 5, 6, 7: // saturating conversion
	case miscMemoryInit:
		s.memory()
		s.data()
		s.zero()
	case miscDataDrop:
		s.data()
	case miscMemoryCopy:
		s.memory()
		s.zero()
		s.zero()
	case miscMemoryFill:
		s.memory()
		s.zero()
	case miscTableInit:
		s.index(uint32(s.m.elems), "element segment")
		s.index(uint32(len(s.m.tables)), "table")
	case miscElemDrop:
		s.index(uint32(s.m.elems), "element segment")
	case miscTableCopy:
		s.index(uint32(len(s.m.tables)), "table")
		s.index(uint32(len(s.m.tables)), "table")
	case miscTableGrow, miscTableSize, miscTableFill:
		s.arg = s.index(uint32(len(s.m.tables)), "table")
	case 19, 20, 21, 22:
		s.fail(s.pos, featWide, "opcode 0xfc %d is not allowed", s.sub)
	default:
		s.fail(s.pos, featUnknown, "opcode 0xfc %d", s.sub)
	}
}

func (s *scanner) data() {
	at := s.p
	i := s.u32()
	switch {
	case s.err != nil:
	case !s.m.hasCount:
		s.fail(at, featInvalid, "a data segment is used without a data count section")
	case i >= s.m.count:
		s.fail(at, featInvalid, "data segment %d does not exist", i)
	}
}

func (s *scanner) simd() {
	s.sub = s.u32()
	switch sub := s.sub; {
	case s.err != nil:
	case sub <= 11 || sub == 92 || sub == 93:
		s.memarg()
	case sub == 12 || sub == 13:
		s.skip(16)
	case sub >= 21 && sub <= 34:
		s.lane(simdLanes[sub-21])
	case sub >= 84 && sub <= 91:
		s.memarg()
		s.lane([...]byte{16, 8, 4, 2}[(sub-84)%4])
	case sub >= 256 && sub <= 275:
		s.fail(s.pos, featRelaxed, "opcode 0xfd %d is not allowed", sub)
	case sub > 255 || simdHoles[sub/64]&(1<<(sub%64)) != 0:
		s.fail(s.pos, featUnknown, "opcode 0xfd %d", sub)
	}
}

// simdLanes is the number of lanes of the extract and replace instructions 21..34.
var simdLanes = [14]byte{16, 16, 16, 8, 8, 8, 4, 4, 2, 2, 4, 4, 2, 2}

// simdHoles has a bit for each number below 256 that the SIMD proposal left unassigned.
var simdHoles = func() (h [4]uint64) {
	for _, n := range []int{
		154, 162, 165, 166, 175, 176, 178, 179, 180, 187, 194, 197, 198, 207, 208, 210, 211, 212, 226, 238,
	} {
		h[n/64] |= 1 << (n % 64)
	}
	return h
}()

func (s *scanner) lane(lanes byte) {
	at := s.p
	if c := s.byte(); c >= lanes {
		s.fail(at, featInvalid, "lane %d of %d", c, lanes)
	}
}
