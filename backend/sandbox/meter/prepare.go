package meter

import (
	"slices"
	"strconv"
)

// maxRestored is the number of globals up to which restoring an instance is worth it, compared to
// creating a new one.
const maxRestored = 256

// Prepared is an instrumented module that was taken apart so that instances of it start quickly.
// The content of its memory is separate from its code, and if Restorable, everything that a run can
// change in an instance can be restored from outside.
type Prepared struct {
	Wasm    []byte
	Data    []Content // content of the active data segments, in order; removed from Wasm
	Globals []string  // exports of the mutable globals that a guest can change
	// Restorable reports that a run changes only the memory and Globals. It is false with
	// instructions that change tables or drop segments, and with globals that are not plain
	// numbers.
	Restorable bool
}

// Content is a part of the initial content of a memory.
type Content struct {
	Offset uint32
	Bytes  []byte
}

// Prepare takes an instrumented module apart. A segment that does not fit into the initial memory
// is an error, because such a module can never start. Errors are *Error.
func Prepare(instrumented []byte) (Prepared, error) {
	const much = 1 << 30
	m, err := parse(instrumented, ModuleLimits{
		Bytes: much, Functions: much, BodyBytes: much, Locals: much, Globals: much, Segments: much, TableEntries: much, MemoryPages: 1 << 16,
	}, false)
	if err != nil {
		return Prepared{}, err
	}
	if !slices.ContainsFunc(m.exports, func(e exportEntry) bool { return e.name == FuelGlobal }) {
		return Prepared{}, &Error{Feature: featReserved, Message: "the module is not instrumented"}
	}
	p := Prepared{Restorable: true}
	var data []byte
	for _, s := range m.sections {
		if s.id == secData {
			if data, err = m.takeData(s.body, &p); err != nil {
				return Prepared{}, err
			}
		}
	}
	numbers := m.changeable(&p)
	if p.Restorable {
		if p.Restorable, err = m.hasFixedTables(); err != nil {
			return Prepared{}, err
		}
	}
	w := &rewriter{m: m, out: make([]byte, 0, len(instrumented)+32*len(numbers))}
	w.out = append(w.out, m.wasm[:8]...)
	for _, s := range m.sections {
		switch {
		case s.id == secData:
			w.section(secData, data)
		case s.id == secExport:
			var more []byte
			for i, g := range numbers {
				more = appendU(more, uint64(len(p.Globals[i])))
				more = append(more, p.Globals[i]...)
				more = appendU(append(more, kindGlobal), uint64(g))
			}
			w.grown(secExport, s.body, true, len(m.exports), len(numbers), more)
		default:
			w.section(s.id, m.wasm[s.body.start:s.body.end])
		}
	}
	p.Wasm = w.out
	return p, nil
}

// takeData moves the bytes of active segments to p and returns the section without them. The
// segments remain, empty, so that no index changes; an active segment has no content for
// memory.init anyway.
func (m *module) takeData(body span, p *Prepared) ([]byte, *Error) {
	r := &reader{b: m.wasm, p: body.start, end: body.end}
	n := r.u32()
	out := appendU(nil, uint64(n))
	for range n {
		at := r.p
		flags := r.u32()
		if flags == 2 {
			r.u32()
		}
		active := flags != 1
		var offset uint32
		if active {
			if op := r.byte(); op != 0x41 {
				r.fail(at, featExtConst, "the place of a data segment is not a number")
			}
			offset = uint32(r.signed(32))
			if r.byte() != opEnd {
				r.fail(at, featExtConst, "the place of a data segment is not a number")
			}
		}
		size := r.count(-1, "bytes of a segment")
		if r.err != nil {
			return nil, r.err
		}
		b := m.wasm[r.p : r.p+size]
		r.p += size
		if !active {
			out = append(out, m.wasm[at:r.p]...)
			continue
		}
		if uint64(offset)+uint64(size) > uint64(m.mem.min)<<16 {
			return nil, &Error{Offset: at, Feature: featInvalid, Message: "a data segment does not fit into the memory"}
		}
		out = append(out, 0, 0x41, 0, opEnd, 0)
		if size > 0 {
			p.Data = append(p.Data, Content{offset, b})
		}
	}
	return out, nil
}

// changeable sets the names of the mutable globals of the original in p and returns their indices.
func (m *module) changeable(p *Prepared) []int {
	var numbers []int
	for i, g := range m.globals[:len(m.globals)-4] { // without the meter's globals
		switch {
		case !g.mut:
		case i < m.impGlobs:
			p.Restorable = false
		case g.val == typeI32 || g.val == typeI64 || g.val == typeF32 || g.val == typeF64:
			numbers = append(numbers, i)
		default:
			p.Restorable = false
		}
	}
	if len(numbers) > maxRestored {
		p.Restorable = false
	}
	if !p.Restorable {
		return nil
	}
	for _, i := range numbers {
		p.Globals = append(p.Globals, reserved+"global:"+strconv.Itoa(i))
	}
	return numbers
}

// hasFixedTables reports whether no instruction changes a table or drops a segment.
func (m *module) hasFixedTables() (bool, *Error) {
	s := &scanner{m: m}
	for f := range m.bodies {
		s.open(f)
		for s.p < s.end && s.err == nil {
			switch s.next(); s.op {
			case opBrTable:
				for n := s.count(-1, "labels"); n >= 0 && s.err == nil; n-- {
					s.u32()
				}
			case 0x26:
				return false, s.err
			case opPrefixMisc:
				switch s.sub {
				case miscDataDrop, miscElemDrop, miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
					return false, s.err
				}
			}
		}
		if s.err != nil {
			return false, s.err
		}
	}
	return true, nil
}
