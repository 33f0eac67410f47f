package meter

// Weights of instructions in units. A plain instruction is one unit; what leaves machine
// code for Go takes as long as a hundred others, so it counts like them, else a guest that
// does nothing but call the host would run long between two looks at the stop flag.
const (
	weightPlain     = 1
	weightHostCall  = 128  // calls of imported functions
	weightTable     = 128  // table.grow/fill/copy/init, besides their length
	weightGrow      = 1024 // memory.grow
	weightDrop      = 16   // data.drop, elem.drop
	maxGap          = 256  // units between two checks of one region
	maxPlain        = 32   // units between two places where a check may stand
	bulkNone        = 0
	bulkMemoryShift = 6 // bytes / 64
	bulkTableShift  = 3 // entries of 8 bytes / 64
)

type eventKind byte

const (
	evPlain eventKind = iota // arg: units of instructions that follow one another
	evBulk                   // arg: units; a bulk operation with its length on the stack
	evTable                  // the same for tables
	evBlock
	evLoop // arg: position behind the instruction, where its check stands
	evIf
	evElse
	evEnd // arg: kind of what ends
	evBr  // arg: depth of the label
	evBrIf
	evBrTable // arg: position of the labels
	evExit    // return or unreachable
)

// event is a step of a body that matters for the length of paths.
type event struct {
	kind eventKind
	pos  uint32
	arg  uint32
}

// What an evEnd closes.
const (
	endFunc = iota
	endBlock
	endLoop
	endIf
	endElse
)

// check is a place where units are charged.
type check struct {
	pos    int // where in the original it is inserted
	charge int
	shift  byte // bulkNone, or how the length on the stack is scaled
}

// frame is a block of a body while its events are read backwards, from its end.
type frame struct {
	label   int // longest path from the label to the next check, for branches inside the same region
	region  int // depth of loops; the label belongs to this region
	exit    int // loops: longest path behind the loop in the region around it
	other   int // if with else: longest path from the start of the else arm
	hasElse bool
}

// planner finds the checks of bodies. Its buffers are reused from body to body.
type planner struct {
	m      *module
	s      scanner
	events []event
	kinds  []byte // forward: what is open
	frames []frame
	loops  []int // backward: frame of each open loop, by region depth - 1
	checks []check
	bulk   bool // the body has a bulk operation
}

// plan scans body f and returns its checks in falling order of position, and where its
// instructions begin.
func (p *planner) plan(f int) (begin int, err *Error) {
	p.s.m = p.m
	p.s.open(f)
	begin = p.s.p
	p.scan()
	if p.s.err != nil {
		return 0, p.s.err
	}
	p.measure(begin)
	return begin, nil
}

func (p *planner) add(k eventKind, pos int, arg int) {
	p.events = append(p.events, event{k, uint32(pos), uint32(arg)})
}

func (p *planner) plain(pos, units int) {
	if n := len(p.events); n > 0 {
		if e := &p.events[n-1]; e.kind == evPlain && int(e.arg)+units <= maxPlain {
			e.arg += uint32(units)
			return
		}
	}
	p.add(evPlain, pos, units)
}

// scan reads the body once and records its events.
func (p *planner) scan() {
	s := &p.s
	p.events, p.kinds, p.bulk = p.events[:0], append(p.kinds[:0], endFunc), false
	for s.err == nil {
		if len(p.kinds) == 0 {
			if s.p != s.end {
				s.fail(s.p, featMalformed, "code behind the end of the function")
			}
			return
		}
		s.next()
		if s.err != nil {
			return
		}
		top := len(p.kinds) - 1
		switch s.op {
		case opBlock:
			p.kinds = append(p.kinds, endBlock)
			p.add(evBlock, s.pos, 0)
		case opLoop:
			p.kinds = append(p.kinds, endLoop)
			p.add(evLoop, s.pos, s.p)
		case opIf:
			p.kinds = append(p.kinds, endIf)
			p.add(evIf, s.pos, 0)
		case opElse:
			if p.kinds[top] != endIf {
				s.fail(s.pos, featInvalid, "else without if")
				return
			}
			p.kinds[top] = endElse
			p.add(evElse, s.pos, 0)
		case opEnd:
			p.add(evEnd, s.pos, int(p.kinds[top]))
			p.kinds = p.kinds[:top]
		case opBr:
			p.label(s.arg)
			p.add(evBr, s.pos, int(s.arg))
		case opBrIf:
			p.label(s.arg)
			p.add(evBrIf, s.pos, int(s.arg))
		case opBrTable:
			p.add(evBrTable, s.pos, s.p)
			n := s.count(-1, "labels")
			for i := 0; i <= n && s.err == nil; i++ {
				p.label(s.u32())
			}
		case opReturn, opUnreachable:
			p.add(evExit, s.pos, 0)
		case opCall:
			if int(s.arg) < p.m.impFuncs {
				p.plain(s.pos, weightHostCall)
			} else {
				p.plain(s.pos, weightPlain)
			}
		case opMemoryGrow:
			p.plain(s.pos, weightGrow)
		case opPrefixMisc:
			p.misc()
		default:
			p.plain(s.pos, weightPlain)
		}
	}
}

func (p *planner) label(depth uint32) {
	if int64(depth) >= int64(len(p.kinds)) {
		p.s.fail(p.s.pos, featInvalid, "label %d does not exist", depth)
	}
}

func (p *planner) misc() {
	switch s := &p.s; s.sub {
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill:
		p.bulk = true
		p.add(evBulk, s.pos, weightPlain)
	case miscTableInit, miscTableCopy, miscTableFill, miscTableGrow:
		p.bulk = true
		p.add(evTable, s.pos, weightTable)
	case miscDataDrop, miscElemDrop:
		p.plain(s.pos, weightDrop)
	default:
		p.plain(s.pos, weightPlain)
	}
}

// measure reads the events backwards. cur is the longest path, in units, from the current
// place to the next check of the same region, or to where the region is left.
func (p *planner) measure(begin int) {
	p.frames, p.loops, p.checks = p.frames[:0], p.loops[:0], p.checks[:0]
	cur := 0
	for i := len(p.events) - 1; i >= 0; i-- {
		e := p.events[i]
		pos := int(e.pos)
		switch e.kind {
		case evPlain:
			cur += int(e.arg)
		case evBulk:
			p.checks = append(p.checks, check{pos, cur + int(e.arg), bulkMemoryShift})
			cur = 0
		case evTable:
			p.checks = append(p.checks, check{pos, cur + int(e.arg), bulkTableShift})
			cur = 0
		case evEnd:
			f := frame{label: cur, region: len(p.loops)}
			if e.arg == endLoop {
				p.loops = append(p.loops, len(p.frames))
				f = frame{region: len(p.loops), exit: cur}
				cur = 0
			}
			p.frames = append(p.frames, f)
			continue
		case evElse:
			f := &p.frames[len(p.frames)-1]
			f.hasElse, f.other = true, cur
			cur = f.label
			continue
		case evIf:
			f := p.pop()
			if !f.hasElse {
				f.other = f.label
			}
			cur = max(cur, f.other) + weightPlain
		case evBlock:
			p.pop()
		case evLoop:
			if cur > 0 {
				p.checks = append(p.checks, check{int(e.arg), cur, bulkNone})
			}
			p.loops = p.loops[:len(p.loops)-1]
			cur = p.pop().exit
		case evBr:
			cur = p.branch(e.arg) + weightPlain
		case evBrIf:
			cur = max(cur, p.branch(e.arg)) + weightPlain
		case evBrTable:
			cur = p.brTable(int(e.arg)) + weightPlain
		case evExit:
			cur = weightPlain
		}
		if cur > maxGap {
			p.checks = append(p.checks, check{pos, cur, bulkNone})
			cur = 0
		}
	}
	if cur > 0 {
		p.checks = append(p.checks, check{begin, cur, bulkNone})
	}
}

func (p *planner) pop() frame {
	f := p.frames[len(p.frames)-1]
	p.frames = p.frames[:len(p.frames)-1]
	return f
}

// branch gives the path behind a branch in the current region: nothing when it leaves the
// region, where what follows is charged by the region it goes to.
func (p *planner) branch(depth uint32) int {
	f := &p.frames[len(p.frames)-1-int(depth)]
	if f.region == len(p.loops) {
		return f.label
	}
	out := &p.frames[p.loops[f.region]] // the outermost loop that is left
	out.exit = max(out.exit, f.label)
	return 0
}

func (p *planner) brTable(pos int) int {
	r := reader{b: p.m.wasm, p: pos, end: p.s.end}
	longest := 0
	for i := int(r.u32()); i >= 0; i-- {
		longest = max(longest, p.branch(r.u32()))
	}
	return longest
}
