package meter

// check is a place where units are charged.
type check struct {
	pos    int // position in the original where it is inserted
	charge int
	kind   checkKind
}

type checkKind byte

const (
	checkPlain  checkKind = iota
	checkLoop             // at the header of a loop
	checkMemory           // before a bulk operation, adding its length in bytes / 64
	checkTable            // the same for entries of 8 bytes
)

// frame is a block of a body while its events are read backwards.
type frame struct {
	label   int // longest path from the label to the next check, for branches inside the same region
	region  int // number of loops around the label
	exit    int // loop: longest path after the loop in the region around it
	other   int // if with else: longest path from the start of the else arm
	hasElse bool
}

// planner determines the checks of bodies. Its buffers are reused from body to body.
type planner struct {
	m *module

	// Set by graph, by function index. Without them every function checks at its entry.
	cheap  []bool   // may start without a check
	deep   []bool   // may be recursive
	rank   []uint32 // callees first; every cycle of calls has a call that does not go down
	prefix []uint16 // units paid by callers

	indirect int // units of a call through a table

	cost []int // bytes of native stack that a call counts, by function index; 0: it does not count

	// The body scanned last.
	s      scanner
	events []event
	bulk   bool     // it has a bulk operation
	exits  []int    // where it returns
	open   []opened // open blocks
	depth  int      // loops among them
	head   int      // longest path from the entry to here without a check, or checked
	way    int      // units since a loop began, as long as the code is a straight line; else -1
	early  bool     // a path leaves the function without a check

	// The body measured last.
	frames []frame
	loops  []int // frames of the open loops
	checks []check
}

// plan returns the position where the instructions of body f begin, and sets its checks in
// descending order of position.
func (p *planner) plan(f int) (begin int, err *Error) {
	begin = p.scan(f)
	if p.s.err != nil {
		return 0, p.s.err
	}
	p.measure(begin, p.cheap != nil && p.cheap[p.m.impFuncs+f] && p.early)
	return begin, nil
}

// measure reads the events backwards and places the checks. Each loop is a region of its
// own. cur is the longest path, in units, from the current place to the next check of the
// same region or to where the region is left; inner loops cost nothing, because they charge
// themselves. With cut, the function starts without a check and has its first ones at the cuts;
// measure returns the units that its callers must pay.
func (p *planner) measure(begin int, cut bool) int {
	p.frames, p.loops, p.checks = p.frames[:0], p.loops[:0], p.checks[:0]
	cur, way := 0, 0
	place := func(pos, charge int, kind checkKind) {
		if charge > 0 {
			p.checks = append(p.checks, check{pos, charge, kind})
		}
		cur = 0
	}
	for i := len(p.events) - 1; i >= 0; i-- {
		e := p.events[i]
		pos := int(e.pos)
		switch e.kind {
		case evPlain:
			cur += int(e.arg)
		case evMemory:
			place(pos, cur+weightPlain, checkMemory)
		case evTable:
			place(pos, cur+weightTable, checkTable)
		case evReturn:
			if cur > maxTail {
				place(pos, cur, checkPlain)
			}
		case evCut:
			if cut {
				place(pos, cur, checkPlain)
			}
		case evEnd:
			if w := int(e.arg >> wayShift); w > 0 {
				place(pos+1, cur+w, checkPlain)
			}
			f := frame{label: cur, region: len(p.loops)}
			if e.arg&endKind == endLoop {
				p.loops = append(p.loops, len(p.frames))
				f = frame{region: len(p.loops), exit: cur}
				cur = 0
			}
			p.frames = append(p.frames, f)
		case evElse:
			f := &p.frames[len(p.frames)-1]
			f.hasElse, f.other = true, cur
			cur = f.label
		case evIf:
			f := p.pop()
			if !f.hasElse {
				f.other = f.label
			}
			cur = max(cur, f.other) + weightPlain
		case evBlock:
			p.pop()
		case evLoop, evDispatch:
			if e.kind == evLoop {
				place(int(e.arg), cur, checkLoop)
			}
			p.loops = p.loops[:len(p.loops)-1]
			cur = p.pop().exit
		case evBr:
			cur = p.branch(e.arg, 0) + weightPlain
		case evBrIf:
			cur = max(cur, p.branch(e.arg, 0)) + weightPlain
		case evBrTable:
			cur = p.branches(int(e.arg), way) + weightPlain
			way = 0
		case evWay:
			way = int(e.arg)
		case evExit:
			cur = weightPlain
		}
		if cur > maxGap {
			place(pos, cur, checkPlain)
		}
	}
	if cut {
		return cur
	}
	place(begin, cur, checkPlain)
	return 0
}

func (p *planner) pop() frame {
	f := p.frames[len(p.frames)-1]
	p.frames = p.frames[:len(p.frames)-1]
	return f
}

// branch returns the path after a branch in the current region. It is zero if the branch leaves the
// region, because then the target region charges what follows. If a region is left before its first
// check, the units of way must be paid there too.
func (p *planner) branch(depth uint32, way int) int {
	f := &p.frames[len(p.frames)-1-int(depth)]
	if f.region == len(p.loops) {
		return f.label
	}
	out := &p.frames[p.loops[f.region]] // the outermost loop that is left
	out.exit = max(out.exit, f.label+way)
	return 0
}

func (p *planner) branches(pos, way int) int {
	r := reader{b: p.m.wasm, p: pos, end: p.s.end}
	longest := 0
	for i := int(r.u32()); i >= 0; i-- {
		longest = max(longest, p.branch(r.u32(), way))
	}
	return longest
}
