package meter

import "bytes"

// Section ids in the order in which they must stand.
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

// sectionRank is a section's place in the file; 0 for what is unknown.
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

// module is a parsed module. It keeps positions in the bytes it was parsed from, not copies.
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
	start    int // function index, -1 without
	elems    int
	entries  int    // in all element segments
	taken    []bool // functions whose reference can reach a table or a value
	hasCount bool
	count    uint32
	bodies   []span
	segments []dataSegment
}

var magic = []byte{0, 'a', 's', 'm'}

// parse reads everything but the instructions. With strict it also applies what only
// modules of others must obey: the imports.
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

// finish checks what needs all sections.
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

func (m *module) importSection(r *reader, strict bool) {
	n := r.count(-1, "imports")
	for i := 0; i < n && r.err == nil; i++ {
		at := r.p
		e := importEntry{module: r.name(), name: r.name()}
		kindAt := r.p
		e.kind = r.byte()
		if r.err != nil {
			return
		}
		switch e.kind {
		case kindFunc:
			e.fn = m.typeIndex(r)
			m.funcs = append(m.funcs, e.fn)
			m.impFuncs++
		case kindTable:
			e.table = m.readTable(r)
			e.table.imported = true
			m.tables = append(m.tables, e.table)
			m.impTabs++
		case kindMemory:
			m.readMemory(r)
			e.mem, m.impMem = m.mem, true
		case kindGlobal:
			e.global = readGlobalType(r)
			m.globals = append(m.globals, e.global)
			m.impGlobs++
		case kindTag:
			r.fail(kindAt, featExceptions, "an imported tag")
		default:
			r.fail(kindAt, featMalformed, "import kind %#x", e.kind)
		}
		if r.err == nil && strict && (e.kind != kindFunc || !m.lim.Imports(e.module, e.name)) {
			r.fail(at, featImport, "%s %q of module %q cannot be imported", kindName(e.kind), cut(e.name), cut(e.module))
		}
		m.imports = append(m.imports, e)
	}
	m.limit(r, len(m.funcs), m.lim.Functions, "functions")
	m.limit(r, len(m.globals), m.lim.Globals, "globals")
}

func (m *module) limit(r *reader, have, max int, what string) {
	if have > max {
		r.fail(r.p, featLimits, "%d %s, at most %d are allowed", have, what, max)
	}
}

// cut keeps names of a guest short where they go into messages.
func cut(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

func kindName(k byte) string {
	return [...]string{"function", "table", "memory", "global", "tag"}[k]
}

func (m *module) functionSection(r *reader) {
	n := r.count(m.lim.Functions-len(m.funcs), "functions")
	for i := 0; i < n && r.err == nil; i++ {
		m.funcs = append(m.funcs, m.typeIndex(r))
	}
}

func (m *module) tableSection(r *reader) {
	n := r.count(-1, "tables")
	for i := 0; i < n && r.err == nil; i++ {
		m.tables = append(m.tables, m.readTable(r))
	}
}

func (m *module) memorySection(r *reader) {
	n := r.count(-1, "memories")
	for i := 0; i < n && r.err == nil; i++ {
		m.readMemory(r)
	}
}

func (m *module) globalSection(r *reader) {
	n := r.count(m.lim.Globals-len(m.globals), "globals")
	for i := 0; i < n && r.err == nil; i++ {
		t := readGlobalType(r)
		m.constExpr(r)
		m.globals = append(m.globals, t)
	}
}

// constExpr reads one constant instruction and its end.
func (m *module) constExpr(r *reader) {
	at := r.p
	switch op := r.byte(); op {
	case 0x41:
		r.signed(32)
	case 0x42:
		r.signed(64)
	case 0x43:
		r.skip(4)
	case 0x44:
		r.skip(8)
	case 0x23:
		m.index(r, len(m.globals), "global")
	case 0xd0:
		refType(r)
	case 0xd2:
		m.take(m.funcIndex(r))
	case 0xfd:
		if sub := r.u32(); sub != 12 && r.err == nil {
			r.fail(at, featInvalid, "not a constant instruction")
		}
		r.skip(16)
	case 0xfb:
		r.fail(at, featGC, "constant instruction")
	default:
		r.fail(at, featInvalid, "opcode %#x is not a constant instruction", op)
	}
	at = r.p
	if op := r.byte(); op != 0x0b && r.err == nil {
		r.fail(at, featExtConst, "a constant expression has more than one instruction")
	}
}

func (m *module) take(f uint32) {
	if m.taken == nil {
		// Functions are all known here but for globals before a wrong order, which is refused.
		m.taken = make([]bool, len(m.funcs))
	}
	if int(f) < len(m.taken) {
		m.taken[f] = true
	}
}

// index reads an index that must be below n.
func (m *module) index(r *reader, n int, what string) uint32 {
	at := r.p
	i := r.u32()
	if r.err == nil && int64(i) >= int64(n) {
		r.fail(at, featInvalid, "%s %d does not exist", what, i)
		return 0
	}
	return i
}

func (m *module) typeIndex(r *reader) uint32 { return m.index(r, len(m.types), "type") }
func (m *module) funcIndex(r *reader) uint32 { return m.index(r, len(m.funcs), "function") }

func (m *module) exportSection(r *reader) {
	n := r.count(-1, "exports")
	seen := make(map[string]struct{}, n)
	for i := 0; i < n && r.err == nil; i++ {
		at := r.p
		e := exportEntry{at: at, name: r.name()}
		kindAt := r.p
		e.kind = r.byte()
		if r.err != nil {
			return
		}
		switch e.kind {
		case kindFunc:
			e.index = m.funcIndex(r)
		case kindTable:
			e.index = m.index(r, len(m.tables), "table")
		case kindMemory:
			e.index = m.index(r, m.memories(), "memory")
		case kindGlobal:
			e.index = m.index(r, len(m.globals), "global")
		case kindTag:
			r.fail(kindAt, featExceptions, "an exported tag")
		default:
			r.fail(kindAt, featMalformed, "export kind %#x", e.kind)
		}
		if r.err != nil {
			return
		}
		if _, twice := seen[e.name]; twice {
			r.fail(at, featInvalid, "two exports are named %q", cut(e.name))
		}
		seen[e.name] = struct{}{}
		m.exports = append(m.exports, e)
	}
}

func (m *module) memories() int {
	if m.hasMem {
		return 1
	}
	return 0
}

func (m *module) elementSection(r *reader) {
	n := r.count(m.lim.Segments, "element segments")
	for i := 0; i < n && r.err == nil; i++ {
		at := r.p
		flag := r.u32()
		if flag > 7 {
			r.fail(at, featMalformed, "element segment kind %d", flag)
			return
		}
		table := uint32(0)
		active := flag&1 == 0
		if active {
			if flag&2 != 0 {
				table = r.u32()
			}
			if r.err == nil && int64(table) >= int64(len(m.tables)) {
				r.fail(at, featInvalid, "table %d does not exist", table)
			}
			m.constExpr(r)
		}
		if flag&3 != 0 {
			if flag&4 != 0 {
				refType(r)
			} else if k := r.byte(); k != 0 {
				r.fail(r.p, featMalformed, "element kind %#x", k)
			}
		}
		at = r.p
		c := r.count(-1, "elements")
		m.entries += c
		if m.entries > m.lim.TableEntries {
			r.fail(at, featLimits, "more than %d entries in element segments", m.lim.TableEntries)
		}
		for j := 0; j < c && r.err == nil; j++ {
			if flag&4 != 0 {
				m.constExpr(r)
			} else {
				m.take(m.funcIndex(r))
			}
		}
		m.elems++
	}
}

func (m *module) codeSection(r *reader) {
	n := r.count(-1, "function bodies")
	m.bodies = make([]span, 0, n)
	for i := 0; i < n && r.err == nil; i++ {
		at := r.p
		size := r.count(-1, "bytes of a function body")
		if size > m.lim.BodyBytes {
			r.fail(at, featLimits, "function body of %d bytes, at most %d are allowed", size, m.lim.BodyBytes)
			return
		}
		m.bodies = append(m.bodies, span{r.p, r.p + size})
		r.skip(size)
	}
}

func (m *module) dataSection(r *reader) {
	n := r.count(m.lim.Segments, "data segments")
	for i := 0; i < n && r.err == nil; i++ {
		at := r.p
		flag := r.u32()
		s := dataSegment{at: at, passive: flag == 1}
		switch flag {
		case 0, 2:
			if flag == 2 {
				if mem := r.u32(); mem != 0 {
					r.fail(at, featMultiMem, "data for memory %d", mem)
				}
			}
			if !m.hasMem {
				r.fail(at, featInvalid, "data for a memory that does not exist")
			}
			m.constExpr(r)
		case 1:
		default:
			r.fail(at, featMalformed, "data segment kind %d", flag)
		}
		r.skip(r.count(-1, "bytes of data"))
		m.segments = append(m.segments, s)
	}
}
