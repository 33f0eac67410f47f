package meter

import (
	"fmt"
	"strings"
)

// Version changes whenever the output of Instrument does; it is part of every cache key.
const Version = 3

// Names of the exports that Instrument adds. The original may not use them.
const (
	FuelGlobal   = "helix:fuel"   // mutable i64: units left in the slice
	BudgetGlobal = "helix:budget" // mutable i64: units left in the run after the slice
	StopGlobal   = "helix:stop"   // mutable i32: non-zero ends the run
	DepthGlobal  = "helix:depth"  // mutable i32: bytes left of the native stack
	// StartExport is the function of the start section, which Instrument removes. Call it after
	// Gauge.Arm and before anything else. Only modules with a start section have it.
	StartExport = "helix:start"
)

// reserved is the prefix of names that belong to the meter.
const reserved = "helix:"

// DefaultSlice is how many units a guest gets between two calls into Go.
const DefaultSlice = 1_000_000

// Options configure Instrument.
type Options struct {
	// Slice is how many units are moved from the budget at a time; 0 means DefaultSlice.
	// With a smaller slice, the stop flag is checked more often, which costs more.
	Slice int64
	// BulkSlice is how many bytes a memory.fill or memory.copy processes between two calls into Go;
	// 0 means DefaultBulkSlice.
	BulkSlice uint32
	// CountStack makes functions that can be on the native stack many times count the bytes they
	// use. The JavaScript engine has its own limit.
	CountStack bool
	// TableEntries limits the total size of all tables; 0 means 1,000,000.
	TableEntries int
}

// Instrument returns wasm with the meter added, and a description of the module. The same input and
// options return the same bytes. Imports are not checked here; call Validate first for modules from
// outside. Errors are *Error.
func Instrument(wasm []byte, o Options) ([]byte, Report, error) {
	if o.Slice <= 0 {
		o.Slice = DefaultSlice
	}
	if o.BulkSlice == 0 {
		o.BulkSlice = DefaultBulkSlice
	}
	m, err := parse(wasm, ModuleLimits{TableEntries: o.TableEntries, MemoryPages: 1 << 16}, false)
	if err != nil {
		return nil, Report{}, err
	}
	w := &rewriter{m: m, slice: o.Slice, bulkSlice: o.BulkSlice, countStack: o.CountStack}
	out, err := w.rewrite()
	if err != nil {
		return nil, Report{}, err
	}
	rep := m.report()
	rep.SizeAfter, rep.Checks = len(out), w.checks
	if m.start >= 0 {
		rep.StartExport = StartExport
	}
	return out, rep, nil
}

// reserved rejects a module that exports one of our names.
func (m *module) reserved() *Error {
	for _, e := range m.exports {
		if strings.HasPrefix(e.name, reserved) {
			return &Error{Offset: e.at, Feature: featReserved, Message: fmt.Sprintf("the module exports %q; names that begin with %q belong to the meter", cut(e.name), reserved)}
		}
	}
	return nil
}

type rewriter struct {
	m      *module
	slice  int64
	out    []byte
	checks int

	fuel, budget, stop, depth uint64 // global indices
	helper                    uint64 // function index
	helperType                uint64
	countStack                bool
	types                     [][]byte // added for blocks and functions
	known                     map[string]int64

	bulkSlice uint32
	threeType int64 // of the functions that split bulk operations
	pieces    [bulkKinds]struct {
		used  bool
		index uint64
	}
	added int // number of functions added
}

func (w *rewriter) rewrite() ([]byte, *Error) {
	m := w.m
	if err := m.reserved(); err != nil {
		return nil, err
	}
	g := uint64(len(m.globals))
	w.fuel, w.budget, w.stop, w.depth = g, g+1, g+2, g+3
	w.helper, w.helperType = uint64(len(m.funcs)), uint64(len(m.types))

	bySec := map[byte]span{}
	for _, s := range m.sections {
		if s.id != secCustom {
			bySec[s.id] = s.body
		}
	}
	code, err := w.code()
	if err != nil {
		return nil, err
	}
	w.out = make([]byte, 0, len(m.wasm)+len(code)/2+256)
	w.out = append(w.out, m.wasm[:8]...)
	for _, id := range []byte{
		secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secElement, secDataCount, secCode, secData,
	} {
		body, have := bySec[id]
		switch id {
		case secType:
			w.grown(id, body, have, len(m.types), 1+len(w.types), append([][]byte{{0x60, 0, 0}}, w.types...)...)
		case secFunction:
			added := appendU(nil, w.helperType)
			for range w.added {
				added = appendU(added, uint64(w.threeType))
			}
			w.grown(id, body, have, len(m.funcs)-m.impFuncs, 1+w.added, added)
		case secTable:
			if have {
				w.section(id, w.tables())
			}
		case secMemory:
			if m.hasMem {
				if have {
					w.section(id, m.wasm[body.start:body.end])
				}
			} else {
				w.section(id, []byte{1, 1, 1, 1})
			}
		case secGlobal:
			zero64, zero32 := []byte{typeI64, 1, 0x42, 0, opEnd}, []byte{typeI32, 1, 0x41, 0, opEnd}
			w.grown(id, body, have, len(m.globals)-m.impGlobs, 4, zero64, zero64, zero32, zero32)
		case secExport:
			w.exports(body, have)
		case secCode:
			w.section(id, code)
		default:
			if have {
				w.section(id, m.wasm[body.start:body.end])
			}
		}
	}
	return w.out, nil
}

func (w *rewriter) section(id byte, parts ...[]byte) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	w.out = append(w.out, id)
	w.out = appendU(w.out, uint64(n))
	for _, p := range parts {
		w.out = append(w.out, p...)
	}
}

// grown writes a section of n elements and appends more.
func (w *rewriter) grown(id byte, body span, have bool, n, added int, more ...[]byte) {
	parts := [][]byte{appendU(nil, uint64(n+added))}
	if have {
		r := &reader{b: w.m.wasm, p: body.start, end: body.end}
		r.u32()
		parts = append(parts, w.m.wasm[r.p:body.end])
	}
	w.section(id, append(parts, more...)...)
}

func (w *rewriter) exports(body span, have bool) {
	var more []byte
	n := 0
	add := func(name string, kind byte, index uint64) {
		more = appendU(more, uint64(len(name)))
		more = append(more, name...)
		more = append(more, kind)
		more = appendU(more, index)
		n++
	}
	add(FuelGlobal, kindGlobal, w.fuel)
	add(BudgetGlobal, kindGlobal, w.budget)
	add(StopGlobal, kindGlobal, w.stop)
	add(DepthGlobal, kindGlobal, w.depth)
	if w.m.start >= 0 {
		add(StartExport, kindFunc, uint64(w.m.start))
	}
	w.grown(secExport, body, have, len(w.m.exports), n, more)
}

// tables writes the table section with maxima that keep all tables together within the limit: the
// space above the minima is divided among the tables that ask for more.
func (w *rewriter) tables() []byte {
	m := w.m
	left, growing := m.lim.TableEntries, 0
	for _, t := range m.tables {
		left -= int(t.lim.min)
		if !t.lim.hasMax || t.lim.max > t.lim.min {
			growing++
		}
	}
	share := uint32(0)
	if growing > 0 {
		share = uint32(left / growing)
	}
	own := m.tables[m.impTabs:]
	b := appendU(nil, uint64(len(own)))
	for _, t := range own {
		most := t.lim.min + share
		if t.lim.hasMax {
			most = min(most, t.lim.max)
		}
		b = append(b, t.elem, 1)
		b = appendU(b, uint64(t.lim.min))
		b = appendU(b, uint64(most))
	}
	return b
}

// code writes all bodies, and those of the meter.
func (w *rewriter) code() ([]byte, *Error) {
	m := w.m
	p := &planner{m: m}
	if err := p.graph(); err != nil {
		return nil, err
	}
	total := 0
	for _, b := range m.bodies {
		total += b.end - b.start
	}
	out := make([]byte, 0, total+total/2)
	var body []byte
	for f := range m.bodies {
		begin, err := p.plan(f)
		if err != nil {
			return nil, err
		}
		body = w.body(body[:0], f, begin, p)
		w.checks += len(p.checks)
		out = appendU(out, uint64(len(body)))
		out = append(out, body...)
	}
	own := append([][]byte{w.helperBody()}, w.piecesBodies()...)
	for _, b := range own {
		out = appendU(out, uint64(len(b)))
		out = append(out, b...)
	}
	return append(appendU(nil, uint64(len(m.bodies)+len(own))), out...), nil
}

// body appends body f with its checks.
func (w *rewriter) body(out []byte, f, begin int, p *planner) []byte {
	m := w.m
	at := m.bodies[f]
	cost := 0
	if w.countStack {
		cost = p.cost[m.impFuncs+f]
	}
	if len(p.checks) == 0 && cost == 0 {
		return append(out, m.wasm[at.start:at.end]...)
	}
	// Up to three locals after the function's own: an i64, an i32 for bulk operations, and one for
	// the depth.
	r := &reader{b: m.wasm, p: at.start, end: begin}
	groups := uint64(r.u32())
	added := []byte{1, typeI64}
	if p.bulk {
		added = append(added, 1, typeI32)
	}
	kept := uint64(p.s.locals) + uint64(len(added)/2)
	if cost > 0 {
		added = append(added, 1, typeI32)
	}
	out = appendU(out, groups+uint64(len(added)/2))
	out = append(out, m.wasm[r.p:begin]...)
	out = append(out, added...)
	from, exits := begin, p.exits
	if cost == 0 {
		exits = nil
	} else {
		out = w.enter(out, m.impFuncs+f, cost, kept)
	}
	leaves := func(upTo int) {
		for ; len(exits) > 0 && exits[0] <= upTo; exits = exits[1:] {
			out = append(out, m.wasm[from:exits[0]]...)
			from = exits[0]
			out = w.leave(out, cost, kept)
		}
	}
	for i := len(p.checks) - 1; i >= 0; i-- {
		c := p.checks[i]
		leaves(c.pos)
		out = append(out, m.wasm[from:c.pos]...)
		out = w.check(out, c, uint64(p.s.locals))
		from = c.pos
		if c.kind == checkMemory {
			out, from = w.bulk(out, c.pos, uint64(p.s.locals)+1)
		}
	}
	leaves(at.end)
	if cost == 0 {
		return append(out, m.wasm[from:at.end]...)
	}
	out = append(out, m.wasm[from:at.end]...) // its final end closes the block
	return append(w.leave(out, cost, kept), opEnd)
}

// check appends the instructions of one check. local is the first local that the meter added.
func (w *rewriter) check(out []byte, c check, local uint64) []byte {
	shift := byte(0)
	switch c.kind {
	case checkMemory:
		shift = 6
	case checkTable:
		shift = 3
	}
	if shift > 0 {
		out = appendU(append(out, 0x22), local+1) // keep the length, which is on the stack
	}
	out = appendU(append(out, 0x23), w.fuel)
	out = appendS(append(out, 0x42), int64(c.charge))
	out = append(out, 0x7d) // i64.sub
	if shift > 0 {
		out = appendU(append(out, 0x20), local+1)
		out = append(out, 0x41, shift, 0x76, 0xad, 0x7d) // i32.shr_u, i64.extend_i32_u, i64.sub
	}
	out = appendU(append(out, 0x22), local)
	out = appendU(append(out, 0x24), w.fuel)
	out = appendU(append(out, 0x20), local)
	out = append(out, 0x42, 0)
	if c.kind == checkLoop {
		// The compiler then moves the call out of the loop's straight line, which matters in tight
		// loops.
		out = append(out, 0x59, opIf, 0x40, opElse) // i64.ge_s
	} else {
		out = append(out, 0x53, opIf, 0x40) // i64.lt_s
	}
	out = appendU(append(out, opCall), w.helper)
	return append(out, opEnd)
}

// helperBody is the function that a check calls below zero.
func (w *rewriter) helperBody() []byte {
	b := []byte{1, 1, typeI64}
	get := func(g uint64) { b = appendU(append(b, 0x23), g) }
	set := func(g uint64) { b = appendU(append(b, 0x24), g) }
	slice := func() { b = appendS(append(b, 0x42), w.slice) }
	get(w.budget) // left = budget + fuel
	get(w.fuel)
	b = append(b, 0x7c, 0x22, 0, 0x42, 0, 0x53, opIf, 0x40, opUnreachable, opEnd) // left < 0: trap
	// fuel = min(left, slice), then budget = left - fuel. A concurrent reader of both sees too much
	// left rather than too little, so a run never looks exhausted when it is not.
	b = append(b, 0x20, 0)
	slice()
	b = append(b, 0x20, 0)
	slice()
	b = append(b, 0x53, 0x1b) // i64.lt_s, select
	set(w.fuel)
	b = append(b, 0x20, 0)
	get(w.fuel)
	b = append(b, 0x7d)
	set(w.budget)
	b = append(b, 0x41, 0, opMemoryGrow, 0, 0x1a) // call into Go
	get(w.stop)
	return append(b, opIf, 0x40, opUnreachable, opEnd, opEnd)
}
