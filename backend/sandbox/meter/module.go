package meter

import "bytes"

// Section ids in the order in which they must appear.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
	secTag       = 13
)

// sectionRank is a section's position in the file; 0 if unknown.
var sectionRank = [14]int{
	secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secTag: 6, secGlobal: 7,
	secExport: 8, secStart: 9, secElement: 10, secDataCount: 11, secCode: 12, secData: 13,
}

// Kinds of imports and exports.
const (
	kindFunc   = 0
	kindTable  = 1
	kindMemory = 2
	kindGlobal = 3
	kindTag    = 4
)

// Value types.
const (
	typeI32       = 0x7f
	typeI64       = 0x7e
	typeF32       = 0x7d
	typeF64       = 0x7c
	typeV128      = 0x7b
	typeFuncref   = 0x70
	typeExternref = 0x6f
)

type span struct{ start, end int }

type section struct {
	id   byte
	body span
}

type funcType struct{ params, results []byte }

type limits struct {
	min, max uint32
	hasMax   bool
}

type tableType struct {
	elem     byte
	lim      limits
	imported bool
}

type importEntry struct {
	module, name string
	kind         byte
	fn           uint32 // type index of a function
	table        tableType
	mem          limits
	global       globalType
}

type globalType struct {
	val byte
	mut bool
}

type exportEntry struct {
	at    int
	name  string
	kind  byte
	index uint32
}

type dataSegment struct {
	at      int
	passive bool
}

// module is a parsed module. It stores positions in the bytes it was parsed from, not copies.
type module struct {
	wasm     []byte
	lim      ModuleLimits
	sections []section

	types    []funcType
	imports  []importEntry
	funcs    []uint32 // type index of every function, imported ones first
	impFuncs int
	tables   []tableType
	impTabs  int
	hasMem   bool
	mem      limits
	impMem   bool
	globals  []globalType
	impGlobs int
	exports  []exportEntry
	start    int // function index; -1: none
	elems    int
	entries  int    // in all element segments
	taken    []bool // functions whose reference can reach a table or a value
	hasCount bool
	count    uint32
	bodies   []span
	segments []dataSegment
}

var magic = []byte{0, 'a', 's', 'm'}

// parse reads everything except the instructions. With strict it also applies the rule that only
// modules from outside must obey: the allowed imports.
func parse(wasm []byte, l ModuleLimits, strict bool) (*module, *Error) {
	l = l.filled()
	if len(wasm) > l.Bytes {
		return nil, &Error{Offset: l.Bytes, Feature: featLimits, Message: "the module is larger than the limit"}
	}
	m := &module{wasm: wasm, lim: l, start: -1}
	r := &reader{b: wasm, end: len(wasm)}
	if len(wasm) < 8 || !bytes.Equal(wasm[:4], magic) {
		r.fail(0, featMalformed, "not a WebAssembly module")
		return nil, r.err
	}
	switch v := wasm[4:8]; {
	case v[0] == 1 && v[1] == 0 && v[2] == 0 && v[3] == 0:
	case v[2] == 1 && v[3] == 0:
		r.fail(4, featComponent, "this is a component, only core modules can run")
		return nil, r.err
	default:
		r.fail(4, featMalformed, "unknown version % x", v)
		return nil, r.err
	}
	r.p = 8
	last := 0
	for r.p < r.end && r.err == nil {
		at := r.p
		id := r.byte()
		size := r.count(-1, "bytes of a section")
		if r.err != nil {
			break
		}
		s := section{id: id, body: span{r.p, r.p + size}}
		if id != secCustom {
			if int(id) >= len(sectionRank) {
				r.fail(at, featMalformed, "unknown section %d", id)
				break
			}
			if id == secTag {
				r.fail(at, featExceptions, "the tag section belongs to exception handling")
				break
			}
			if rank := sectionRank[id]; rank <= last {
				r.fail(at, featMalformed, "section %d is out of order or doubled", id)
				break
			} else {
				last = rank
			}
		}
		sr := &reader{b: wasm, p: s.body.start, end: s.body.end}
		m.section(s, sr, strict)
		if sr.err == nil && sr.p != sr.end {
			sr.fail(sr.p, featMalformed, "section %d has %d bytes too many", id, sr.end-sr.p)
		}
		if sr.err != nil {
			return nil, sr.err
		}
		m.sections = append(m.sections, s)
		r.p = s.body.end
	}
	if r.err == nil {
		m.finish(r)
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

// finish checks what requires all sections.
func (m *module) finish(r *reader) {
	end := len(m.wasm)
	if len(m.bodies) != len(m.funcs)-m.impFuncs {
		r.fail(end, featMalformed, "%d functions are declared and %d have a body", len(m.funcs)-m.impFuncs, len(m.bodies))
		return
	}
	if m.hasCount && int(m.count) != len(m.segments) {
		r.fail(end, featMalformed, "the data count says %d, there are %d data segments", m.count, len(m.segments))
		return
	}
	total := 0
	for _, t := range m.tables {
		total += int(t.lim.min)
	}
	if total > m.lim.TableEntries {
		r.fail(end, featLimits, "%d table entries, at most %d are allowed", total, m.lim.TableEntries)
	}
}

func (m *module) section(s section, r *reader, strict bool) {
	switch s.id {
	case secCustom:
		r.name()
		r.p = r.end
	case secType:
		m.typeSection(r)
	case secImport:
		m.importSection(r, strict)
	case secFunction:
		m.functionSection(r)
	case secTable:
		m.tableSection(r)
	case secMemory:
		m.memorySection(r)
	case secGlobal:
		m.globalSection(r)
	case secExport:
		m.exportSection(r)
	case secStart:
		at := r.p
		m.start = int(m.funcIndex(r))
		if r.err == nil {
			if t := m.types[m.funcs[m.start]]; len(t.params)+len(t.results) != 0 {
				r.fail(at, featInvalid, "the start function has parameters or results")
			}
		}
	case secElement:
		m.elementSection(r)
	case secCode:
		m.codeSection(r)
	case secData:
		m.dataSection(r)
	case secDataCount:
		m.hasCount, m.count = true, r.u32()
	}
}

func (m *module) typeSection(r *reader) {
	n := r.count(-1, "types")
	m.types = make([]funcType, 0, n)
	for i := 0; i < n && r.err == nil; i++ {
		at := r.p
		switch form := r.byte(); form {
		case 0x60:
		case 0x4e, 0x4f, 0x50, 0x5e, 0x5f:
			r.fail(at, featGC, "type form %#x", form)
		default:
			if r.err == nil {
				r.fail(at, featMalformed, "unknown type form %#x", form)
			}
		}
		m.types = append(m.types, funcType{m.valTypes(r), m.valTypes(r)})
	}
}

func (m *module) valTypes(r *reader) []byte {
	n := r.count(maxArity, "values in a type")
	at := r.p
	for i := 0; i < n && r.err == nil; i++ {
		valType(r)
	}
	return r.b[at:r.p]
}

func valType(r *reader) byte {
	at := r.p
	t := r.byte()
	if r.err != nil {
		return 0
	}
	switch t {
	case typeI32, typeI64, typeF32, typeF64, typeV128, typeFuncref, typeExternref:
		return t
	case 0x69, 0x74:
		r.fail(at, featExceptions, "value type %#x", t)
	case 0x63, 0x64:
		r.fail(at, featFuncRefs, "value type %#x", t)
	case 0x65, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x71, 0x72, 0x73, 0x77, 0x78:
		r.fail(at, featGC, "value type %#x", t)
	default:
		r.fail(at, featMalformed, "unknown value type %#x", t)
	}
	return 0
}

func refType(r *reader) byte {
	at := r.p
	t := valType(r)
	if r.err == nil && t != typeFuncref && t != typeExternref {
		r.fail(at, featMalformed, "%#x is not a reference type", t)
	}
	return t
}

func readLimits(r *reader) limits {
	at := r.p
	flag := r.byte()
	switch {
	case r.err != nil || flag <= 1:
	case flag&^0x0f != 0:
		r.fail(at, featMalformed, "unknown limits %#x", flag)
	case flag&0x08 != 0:
		r.fail(at, featPageSize, "limits %#x", flag)
	case flag&0x04 != 0:
		r.fail(at, featMemory64, "limits %#x", flag)
	default:
		r.fail(at, featThreads, "shared memory or table")
	}
	l := limits{min: r.u32()}
	if flag&1 != 0 {
		l.hasMax, l.max = true, r.u32()
		if r.err == nil && l.max < l.min {
			r.fail(at, featInvalid, "the minimum %d is above the maximum %d", l.min, l.max)
		}
	}
	return l
}

func (m *module) readTable(r *reader) tableType {
	at := r.p
	if r.p < r.end && r.b[r.p] == 0x40 {
		r.fail(at, featFuncRefs, "a table with an initialiser")
	}
	return tableType{elem: refType(r), lim: readLimits(r)}
}

func (m *module) readMemory(r *reader) {
	at := r.p
	l := readLimits(r)
	switch {
	case r.err != nil:
	case m.hasMem:
		r.fail(at, featMultiMem, "a second memory")
	case l.min > 1<<16 || l.max > 1<<16:
		r.fail(at, featInvalid, "a memory is larger than 4 GiB")
	case l.min > m.lim.MemoryPages:
		r.fail(at, featLimits, "the memory begins with %d pages, at most %d are allowed", l.min, m.lim.MemoryPages)
	default:
		m.hasMem, m.mem = true, l
	}
}

func readGlobalType(r *reader) globalType {
	v := valType(r)
	at := r.p
	mut := r.byte()
	if mut > 1 {
		if mut <= 3 {
			r.fail(at, featThreads, "a shared global")
		} else {
			r.fail(at, featMalformed, "mutability %#x", mut)
		}
	}
	return globalType{v, mut == 1}
}
