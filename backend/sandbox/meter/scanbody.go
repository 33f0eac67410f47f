package meter

// Weights of instructions in units. A plain instruction is one unit. An instruction that calls into
// Go takes as long as a hundred others, so it counts accordingly; otherwise a guest that only calls
// the host would run for long between two checks of the stop flag. Division is an order of
// magnitude slower than other arithmetic.
const (
	weightPlain    = 1
	weightDivide   = 8    // division, remainder and square root
	weightHostCall = 128  // calls of imported functions
	weightTable    = 128  // table.grow, fill, copy and init, besides their length
	weightGrow     = 1024 // memory.grow
	weightDrop     = 16   // data.drop, elem.drop
)

// Limits on where checks are placed. The values were found by experiment on the engine's module:
// smaller gaps cost time, larger ones charge short paths for long ones that were not taken.
const (
	maxGap    = 256 // units from one check to the next of the same region
	maxPrefix = 64  // units that a function may leave to its callers
	maxTail   = 32  // units after a call that may have been deep: many calls may return in a row
	maxWay    = 32  // units from a loop's header to the switch it begins with
	maxRun    = 32  // units of one plain event, inside which no check can be placed
)

type eventKind byte

const (
	evPlain    eventKind = iota // arg: units of consecutive instructions
	evMemory                    // bulk operation of memory, its length in bytes on the stack
	evTable                     // bulk operation of a table, its length in entries on the stack
	evBlock                     //
	evLoop                      // arg: position after the instruction, where its check is placed
	evDispatch                  // a loop whose arms check instead of its header
	evIf                        //
	evElse                      //
	evEnd                       // arg: what ends, and for an arm of a dispatch the units to it
	evBr                        // arg: depth of the label
	evBrIf                      // arg: depth of the label
	evBrTable                   // arg: position of the labels
	evWay                       // after the evBrTable of a dispatch; arg: units to it
	evExit                      // return or unreachable
	evReturn                    // where a call that may have been deep returns
	evCut                       // the first check of a function that starts without one
)

// event is a step of a body that affects the length of paths.
type event struct {
	kind eventKind
	pos  uint32
	arg  uint32
}

// What an evEnd closes. Its argument is one of these and, from bit wayShift, the units from a
// loop's header to this arm of its switch.
const (
	endFunc = iota
	endBlock
	endLoop
	endIf
	endElse
	wayShift = 8
	endKind  = 1<<wayShift - 1
)

// opened is a block of a body while it is scanned.
type opened struct {
	kind  byte
	head  int // longest path without a check that branches to the label
	arm   int // if: head at its start
	event int // loop: its event
	way   int // units of the dispatch that branches here; 0: none
}

// checked is the head of a place where every path has a check after it.
const checked = -1

// scan reads the body of function f once, records its events, and follows the paths from the entry
// to where the first check would be placed.
func (p *planner) scan(f int) (begin int) {
	s := &p.s
	s.m = p.m
	s.open(f)
	begin = s.p
	self := p.m.impFuncs + f
	p.events, p.open, p.bulk = p.events[:0], append(p.open[:0], opened{kind: endFunc, head: checked}), false
	p.exits = p.exits[:0]
	p.head, p.depth, p.way, p.early = 0, 0, -1, false
	for s.err == nil {
		if len(p.open) == 0 {
			if s.p != s.end {
				s.fail(s.p, featMalformed, "code behind the end of the function")
			}
			break
		}
		s.next()
		if s.err != nil {
			break
		}
		way := p.way
		p.way = -1 // unless the instruction keeps the line straight
		top := &p.open[len(p.open)-1]
		switch s.op {
		case opBlock:
			p.open = append(p.open, opened{kind: endBlock, head: checked})
			p.add(evBlock, 0)
			p.way = way
		case opLoop:
			p.depth++
			p.open = append(p.open, opened{kind: endLoop, head: checked, event: len(p.events)})
			p.add(evLoop, s.p)
			p.way = 0
		case opIf:
			p.advance(weightPlain)
			p.open = append(p.open, opened{kind: endIf, head: checked, arm: p.head})
			p.add(evIf, 0)
		case opElse:
			if top.kind != endIf {
				s.fail(s.pos, featInvalid, "else without if")
				break
			}
			top.kind = endElse
			top.head = max(top.head, p.head)
			p.head = top.arm
			p.add(evElse, 0)
		case opEnd:
			p.end(top)
		case opBr, opBrIf:
			p.advance(weightPlain)
			p.label(s.arg)
			if s.op == opBrIf {
				p.add(evBrIf, int(s.arg))
				break
			}
			p.add(evBr, int(s.arg))
			p.head = checked
		case opBrTable:
			p.brTable(way)
		case opReturn, opUnreachable:
			if s.op == opReturn {
				p.exits = append(p.exits, s.pos)
			}
			p.advance(weightPlain)
			p.early = p.early || s.op == opReturn && p.head != checked
			p.head = checked
			p.add(evExit, 0)
		case opCall:
			p.call(self, int(s.arg))
		case opCallIndirect:
			p.plain(p.indirect)
			p.back()
		case opMemoryGrow:
			p.plain(weightGrow)
		case opPrefixMisc:
			p.misc()
		default:
			units := weightPlain
			if divides(s.op, s.sub) {
				units = weightDivide
			}
			p.plain(units)
			if way >= 0 && way < maxWay {
				p.way = way + units
			}
		}
	}
	return begin
}

// divides reports whether an instruction is a division, a remainder or a square root.
func divides(op byte, sub uint32) bool {
	switch op {
	case 0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82: // integers
		return true
	case 0x91, 0x95, 0x9f, 0xa3: // f32, f64
		return true
	case opPrefixSIMD:
		return sub == 0xe3 || sub == 0xe7 || sub == 0xef || sub == 0xf3
	}
	return false
}

func (p *planner) add(k eventKind, arg int) {
	p.events = append(p.events, event{k, uint32(p.s.pos), uint32(arg)})
}

func (p *planner) plain(units int) {
	p.advance(units)
	if n := len(p.events); n > 0 {
		if e := &p.events[n-1]; e.kind == evPlain && int(e.arg)+units <= maxRun {
			e.arg += uint32(units)
			return
		}
	}
	p.add(evPlain, units)
}

// advance makes the path from the entry longer by units, or cuts it before them. Loops charge their
// own content, so inside a loop the path is unchanged.
func (p *planner) advance(units int) {
	if p.head == checked || p.depth > 0 {
		return
	}
	if p.head += units; p.head > maxPrefix {
		p.cut()
	}
}

// cut records that the paths from the entry need their first check before this instruction.
func (p *planner) cut() {
	if p.head != checked && p.depth == 0 {
		p.head = checked
		p.add(evCut, 0)
	}
}

func (p *planner) end(top *opened) {
	p.add(evEnd, int(top.kind)|top.way<<wayShift)
	p.head = max(p.head, top.head)
	switch top.kind {
	case endIf:
		p.head = max(p.head, top.arm)
	case endLoop:
		p.depth--
	case endFunc:
		p.early = p.early || p.head != checked
	}
	p.open = p.open[:len(p.open)-1]
}

func (p *planner) label(depth uint32) {
	if int64(depth) >= int64(len(p.open)) {
		p.s.fail(p.s.pos, featInvalid, "label %d does not exist", depth)
		return
	}
	o := &p.open[len(p.open)-1-int(depth)]
	o.head = max(o.head, p.head)
}

func (p *planner) brTable(way int) {
	s := &p.s
	p.advance(weightPlain)
	at := s.p
	p.add(evBrTable, at)
	n := s.count(-1, "labels")
	for i := 0; i <= n && s.err == nil; i++ {
		p.label(s.u32())
	}
	p.head = checked
	if s.err == nil && way >= 0 {
		p.dispatch(at, way+weightPlain)
	}
}

// dispatch moves the check of a loop that begins with a switch, as the loop of every interpreter
// does, from its header into the arms. There is still one check per iteration, but each arm charges
// its own length instead of the longest one's. The way from the header to the switch is a straight
// line, so every iteration passes an arm, unless the switch has the loop itself among its labels.
func (p *planner) dispatch(at, way int) {
	loop := len(p.open) - 1
	for p.open[loop].kind != endLoop {
		loop--
	}
	for _, mark := range []bool{false, true} {
		r := reader{b: p.s.b, p: at, end: p.s.end}
		for n := int(r.u32()); n >= 0; n-- {
			target := len(p.open) - 1 - int(r.u32())
			if target == loop {
				return
			}
			if mark && target > loop {
				p.open[target].way = way
			}
		}
	}
	p.events[p.open[loop].event].kind = evDispatch
	p.add(evWay, way)
}

func (p *planner) call(self, callee int) {
	switch {
	case callee < p.m.impFuncs:
		p.plain(weightHostCall)
	case p.prefix == nil:
		p.plain(weightPlain)
	default:
		if p.cheap[callee] && p.rank[callee] >= p.rank[self] {
			p.cut() // the call may close a cycle
		}
		p.plain(weightPlain + int(p.prefix[callee]))
		if p.deep[callee] || p.rank[callee] >= p.rank[self] {
			p.back()
		}
	}
}

// back records that a call that may have been deep returns here.
func (p *planner) back() {
	p.events = append(p.events, event{kind: evReturn, pos: uint32(p.s.p)})
}

func (p *planner) misc() {
	kind := evMemory
	switch p.s.sub {
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill:
	case miscTableInit, miscTableCopy, miscTableFill, miscTableGrow:
		kind = evTable
	case miscDataDrop, miscElemDrop:
		p.plain(weightDrop)
		return
	default:
		p.plain(weightPlain)
		return
	}
	p.bulk = true
	if p.depth == 0 {
		p.head = checked // it is a check itself
	}
	p.add(kind, 0)
}
